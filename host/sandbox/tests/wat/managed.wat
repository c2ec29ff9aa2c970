;; Has a lifecycle. Without settings it will not start and says why; with any it wishes one registration with tag 7, whose
;; directives are its settings. It counts what happens to its memory: `handle` returns ten times the calls of init plus its own calls.
;; On stop it logs.
(component
  (;include call.part;)
  (import "peal:pmix/logging@0.1.0" (instance $logging
    (type $l (enum "error" "warn" "info" "debug" "trace"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (core func $log (canon lower (func $logging "log") (memory $memory)))
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "logging" "log" (func $log (param i32 i32 i32)))
    (global $count (mut i32) (i32.const 0))
    (data (i32.const 16) "no settings\0a!")
    (data (i32.const 32) "managed")
    (data (i32.const 48) "stopped")
    ;; two codes
    (data (i32.const 64) "\ff\ff\ff\ff\fe\ff\ff\ff")
    (func (export "init") (param $infos i32) (param $len i32) (param $arrays i32) (param $arrays-len i32) (result i32)
      (global.set $count (i32.add (global.get $count) (i32.const 10)))
      (if (i32.eqz (local.get $len))
        (then
          (i32.store8 (i32.const 128) (i32.const 1))
          (i32.store (i32.const 132) (i32.const 16))
          (i32.store (i32.const 136) (i32.const 13))
          (return (i32.const 128))))
      ;; ok: a list of one registration, which lies at 160: tag, name, codes, directives
      (i32.store8 (i32.const 128) (i32.const 0))
      (i32.store (i32.const 132) (i32.const 160))
      (i32.store (i32.const 136) (i32.const 1))
      (i32.store (i32.const 160) (i32.const 7))
      (i32.store8 (i32.const 164) (i32.const 1))
      (i32.store (i32.const 168) (i32.const 32))
      (i32.store (i32.const 172) (i32.const 7))
      (i32.store (i32.const 176) (i32.const 64))
      (i32.store (i32.const 180) (i32.const 2))
      (i32.store (i32.const 184) (local.get $infos))
      (i32.store (i32.const 188) (local.get $len))
      (i32.store (i32.const 192) (local.get $arrays))
      (i32.store (i32.const 196) (local.get $arrays-len))
      (i32.const 128))
    (func (export "stop") (call $log (i32.const 2) (i32.const 48) (i32.const 7)))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (if (i32.eq (local.get $code) (i32.const -1)) (then unreachable))
      (global.set $count (i32.add (global.get $count) (i32.const 1)))
      (global.get $count)))
  (core instance $i (instantiate $m
    (with "libc" (instance $libc)) (with "logging" (instance (export "log" (func $log))))))
  (;include lifecycle.part;)
  (;include handler.part;))
