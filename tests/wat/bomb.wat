;; Exceeds a limit, by the event's code: -9001 allocates memory without end, -9002 loops for ever, -9003 calls the host
;; without end, -9004 pushes a giant result, -9005 floods the trace, -9006 recurses without end, -9007 copies all of its memory
;; again and again, -9008 allocates table elements without end, -9009 traps. Other events have no effect.
(component
  (;include call.part;)
  (import "peal:pmix/logging@0.1.0" (instance $logging
    (type $l (enum "error" "warn" "info" "debug" "trace"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (core func $log (canon lower (func $logging "log") (memory $memory)))
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "call" "get" (func $get (param i32 i32 i32)))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (import "logging" "log" (func $log (param i32 i32 i32)))
    (table $table 1 funcref)
    (data (i32.const 16) "test.bomb")
    (func $take (loop $more (br_if $more (i32.ne (i32.const -1) (memory.grow (i32.const 16))))))
    (func $spin (loop $again (br $again)))
    (func $pester (loop $again (call $get (i32.const 16) (i32.const 9) (i32.const 64)) (br $again)))
    (func $gush
      (drop (memory.grow (i32.const 40)))
      (call $push (i32.const 16) (i32.const 9) (i32.const 0) (i32.const 25) (i64.const 0) (i64.const 2000000)
        (i32.const 0) (i32.const 0) (i32.const 0)))
    (func $chatter
      (local $left i32)
      (local.set $left (i32.const 1000))
      (loop $again
        (call $log (i32.const 1) (i32.const 16) (i32.const 9))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $again (local.get $left))))
    (func $dig (param i64) (result i64) (i64.add (call $dig (local.get 0)) (i64.const 1)))
    (func $churn
      (call $take)
      (loop $again
        (memory.copy (i32.const 0) (i32.const 65536) (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 65536)))
        (br $again)))
    (func $spread
      (loop $more (br_if $more (i32.ne (i32.const -1) (table.grow $table (ref.null func) (i32.const 1000))))))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $reset)
      (if (i32.eq (local.get $code) (i32.const -9001)) (then (call $take) unreachable))
      (if (i32.eq (local.get $code) (i32.const -9002)) (then (call $spin)))
      (if (i32.eq (local.get $code) (i32.const -9003)) (then (call $pester)))
      (if (i32.eq (local.get $code) (i32.const -9004)) (then (call $gush)))
      (if (i32.eq (local.get $code) (i32.const -9005)) (then (call $chatter)))
      (if (i32.eq (local.get $code) (i32.const -9006)) (then (drop (call $dig (i64.const 0)))))
      (if (i32.eq (local.get $code) (i32.const -9007)) (then (call $churn)))
      (if (i32.eq (local.get $code) (i32.const -9008)) (then (call $spread) unreachable))
      (if (i32.eq (local.get $code) (i32.const -9009)) (then unreachable))
      (i32.const -331)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "logging" (instance (export "log" (func $log))))))
  (;include handler.part;))
