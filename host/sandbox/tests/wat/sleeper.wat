;; Starts at once until the clock says DEADLINE; instances that start later never end starting.
(component
  (import "peal:pmix/clock@0.1.0" (instance $clock (export "now" (func (result u64)))))
  (core func $now (canon lower (func $clock "now")))
  (core module $m
    (import "clock" "now" (func $now (result i64)))
    (func $start
      (if (i64.ge_u (call $now) (i64.const DEADLINE)) (then (loop $again (br $again)))))
    (start $start)
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (i32.const 0)))
  (core instance $i (instantiate $m (with "clock" (instance (export "now" (func $now))))))
  (;include handler.part;))
