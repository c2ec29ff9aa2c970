;; Works for a while in init, and for as long in each call; returns how often it was called.
(component
  (;include call.part;)
  (core module $m
    (global $calls (mut i32) (i32.const 0))
    (func $work
      (local $left i64)
      (local.set $left (i64.const 200000000))
      (loop $again
        (local.set $left (i64.sub (local.get $left) (i64.const 1)))
        (br_if $again (i64.ne (local.get $left) (i64.const 0)))))
    (func (export "init") (param $infos i32) (param $len i32) (param $arrays i32) (param $arrays-len i32) (result i32)
      (call $work)
      (i32.const 128))
    (func (export "stop"))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $work)
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (global.get $calls)))
  (core instance $i (instantiate $m))
  (;include lifecycle.part;)
  (;include handler.part;))
