;; Reads the clock twice, with a little work between; returns 1 if it stood still and is not at the epoch.
(component
  (import "peal:pmix/clock@0.1.0" (instance $clock (export "now" (func (result u64)))))
  (core func $now (canon lower (func $clock "now")))
  (core module $m
    (import "clock" "now" (func $now (result i64)))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (local $before i64) (local $left i32)
      (local.set $before (call $now))
      (local.set $left (i32.const 3000000))
      (loop $wait
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $wait (local.get $left)))
      (i32.and (i64.eq (local.get $before) (call $now)) (i64.gt_u (local.get $before) (i64.const 1700000000000)))))
  (core instance $i (instantiate $m (with "clock" (instance (export "now" (func $now))))))
  (;include handler.part;))
