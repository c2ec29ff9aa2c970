;; Describes an exception, as the SDKs do, and does then as the code says: -1 traps, -2 traps after a description without places, -3
;; returns, -4 loops for ever, -5 traps after a description that is too long, -6 divides by zero; all else traps without a description.
(component
  (import "peal:pmix/exception@0.1.0" (instance $exception
    (export "describe" (func (param "text" string) (param "places" (list string))))))
  (core module $memory-module (memory (export "memory") 1))
  (core instance $libc (instantiate $memory-module))
  (alias core export $libc "memory" (core memory $memory))
  (core func $describe (canon lower (func $exception "describe") (memory $memory)))
  (core instance $imports (export "describe" (func $describe)))
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "imports" "describe" (func $describe (param i32 i32 i32 i32)))
    (data (i32.const 16) "ValueError: rank 7\n2026-01-01 WARN forged\1b[2J")
    (data (i32.const 128) "module.py:12 in handle")
    ;; one place; the others of twenty are empty strings
    (data (i32.const 256) "\80\00\00\00\16\00\00\00")
    (func $stumble unreachable)
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32)
      (param $infos i32) (param $steps i32) (result i32)
      (if (i32.eq (local.get $code) (i32.const -2))
        (then (call $describe (i32.const 16) (i32.const 45) (i32.const 256) (i32.const 0)) (call $stumble)))
      (if (i32.eq (local.get $code) (i32.const -5))
        (then (call $describe (i32.const 1024) (i32.const 60000) (i32.const 256) (i32.const 20)) (call $stumble)))
      (if (i32.le_s (local.get $code) (i32.const -7)) (then (call $stumble)))
      (call $describe (i32.const 16) (i32.const 45) (i32.const 256) (i32.const 1))
      (if (i32.eq (local.get $code) (i32.const -3)) (then (return (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -4)) (then (loop $again (br $again))))
      (if (i32.eq (local.get $code) (i32.const -6))
        (then (drop (i32.div_s (i32.const 1) (i32.const 0)))))
      unreachable))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "imports" (instance $imports))))
  (;include handler.part;))
