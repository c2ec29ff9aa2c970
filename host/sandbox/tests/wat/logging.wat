;; Logs a message with a line break and an escape sequence, at the level that the range of the event numbers, once
;; or, if that is more, as often as the tag says.
(component
  (import "peal:pmix/logging@0.1.0" (instance $logging
    (type $l (enum "error" "warn" "info" "debug" "trace"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (core module $memory-module (memory (export "memory") 1) (data (i32.const 16) "one\nERROR two\1b[31m"))
  (core instance $memory-instance (instantiate $memory-module))
  (alias core export $memory-instance "memory" (core memory $memory))
  (core func $log (canon lower (func $logging "log") (memory $memory)))
  (core module $m
    (import "logging" "log" (func $log (param i32 i32 i32)))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (loop $again
        (call $log (local.get $range) (i32.const 16) (i32.const 18))
        (local.set $tag (i32.sub (local.get $tag) (i32.const 1)))
        (br_if $again (i32.gt_s (local.get $tag) (i32.const 0))))
      (i32.const -331)))
  (core instance $i (instantiate $m (with "logging" (instance (export "log" (func $log))))))
  (;include handler.part;))
