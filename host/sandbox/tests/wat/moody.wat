;; Counts its calls and returns the count, unless the event's code says otherwise: -1 traps, -2 loops for ever, -3 takes
;; memory until it is refused and then traps, -4 pushes without end, -5 calls the host without end, -6 takes memory until it
;; is refused and goes on, -7 hands over more at once than may be, -8 recurses without end.
(component
  (;include call.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "call" "targets" (func $targets (param i32)))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (global $calls (mut i32) (i32.const 0))
    (data (i32.const 16) "test.text")
    (func $stumble unreachable)
    (func $spin (loop $again (br $again)))
    (func $grow
      (loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16))))))
    (func $gush (param $bytes i32)
      (loop $again
        (call $push (i32.const 16) (i32.const 9) (i32.const 0) (i32.const 25) (i64.const 0)
          (i64.extend_i32_u (local.get $bytes)) (i32.const 0) (i32.const 0) (i32.const 0))
        (br $again)))
    (func $pester
      (loop $again (call $targets (i32.const 64)) (br $again)))
    (func $dig (param i64) (result i64) (i64.add (call $dig (local.get 0)) (i64.const 1)))
    (func $decide (param $code i32)
      (if (i32.eq (local.get $code) (i32.const -1)) (then (call $stumble)))
      (if (i32.eq (local.get $code) (i32.const -2)) (then (call $spin)))
      (if (i32.eq (local.get $code) (i32.const -3)) (then (call $grow) (call $stumble)))
      (if (i32.eq (local.get $code) (i32.const -4)) (then (call $gush (i32.const 1000))))
      (if (i32.eq (local.get $code) (i32.const -5)) (then (call $pester)))
      (if (i32.eq (local.get $code) (i32.const -6)) (then (call $grow)))
      (if (i32.eq (local.get $code) (i32.const -7))
        (then (drop (memory.grow (i32.const 4))) (call $gush (i32.const 200000))))
      (if (i32.eq (local.get $code) (i32.const -8)) (then (drop (call $dig (i64.const 0))))))
    (func $handle (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (call $reset)
      (call $decide (local.get $code))
      (global.get $calls)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))))
  (;include handler.part;))
