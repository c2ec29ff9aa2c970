;; Raises event -4000 with the range of the event at hand and one info, twice or, if that is more, as often as the tag says;
;; returns the status with which the last was refused, else 0. Code -1: traps after that.
(component
  (;include call.part;)
  (import "peal:pmix/notify@0.1.0" (instance $notify
    (export "notify" (func (param "code" s32) (param "range" $range) (param "infos" $content)
      (result (result u64 (error s32)))))))
  (core func $notify (canon lower (func $notify "notify") (memory $memory)))
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "notify" "notify" (func $notify (param i32 i32 i32 i32 i32 i32 i32)))
    (data (i32.const 16) "test.info")
    ;; one info at 128: key, flags, value boolean true
    (data (i32.const 128) "\10\00\00\00\09\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01")
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (if (i32.lt_u (local.get $tag) (i32.const 2)) (then (local.set $tag (i32.const 2))))
      (loop $again
        (call $notify (i32.const -4000) (local.get $range) (i32.const 128) (i32.const 1) (i32.const 0) (i32.const 0)
          (i32.const 64))
        (local.set $tag (i32.sub (local.get $tag) (i32.const 1)))
        (br_if $again (local.get $tag)))
      (if (i32.eq (local.get $code) (i32.const -1)) (then unreachable))
      ;; result at 64: whether it is an error at 64, its payload at 72
      (if (result i32) (i32.load8_u (i32.const 64)) (then (i32.load (i32.const 72))) (else (i32.const 0)))))
  (core instance $i (instantiate $m
    (with "libc" (instance $libc)) (with "notify" (instance (export "notify" (func $notify))))))
  (;include handler.part;))
