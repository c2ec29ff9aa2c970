;; An event-handler that returns too much, by the event's code: -21 a result of 100 MB, -22 10,000 infos one after the other, -23
;; an array of 10,000 infos. For other codes it returns PMIX_EVENT_NO_ACTION_TAKEN without infos.
(component
  (;include call.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (data (i32.const 16) "test.much")
    ;; arrays: a list with one array of infos
    (data (i32.const 512) "\18\00\00\00\00\00\00\00\00\00\01\00\10\27\00\00")

    (func $push-value (param $case i32) (param $a i64) (param $b i64) (param $arrays i32)
      (call $push (i32.const 16) (i32.const 9) (i32.const 0) (local.get $case) (local.get $a) (local.get $b) (i32.const 0)
        (i32.const 512) (local.get $arrays)))

    (func $at-once
      (drop (memory.grow (i32.const 1600)))
      (call $push-value (i32.const 25) (i64.const 0) (i64.const 100000000) (i32.const 0)))

    (func $one-by-one
      (local $left i32)
      (local.set $left (i32.const 10000))
      (loop $next
        (call $push-value (i32.const 1) (i64.const 1) (i64.const 0) (i32.const 0))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $next (local.get $left))))

    ;; the infos are at 65536
    (func $in-an-array
      (local $at i32) (local $left i32)
      (drop (memory.grow (i32.const 7)))
      (local.set $at (i32.const 65536))
      (local.set $left (i32.const 10000))
      (loop $next
        (i32.store (local.get $at) (i32.const 16))
        (i32.store offset=4 (local.get $at) (i32.const 9))
        (i32.store8 offset=16 (local.get $at) (i32.const 1))
        (i32.store8 offset=24 (local.get $at) (i32.const 1))
        (local.set $at (i32.add (local.get $at) (i32.const 40)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $next (local.get $left)))
      (call $push-value (i32.const 26) (i64.const 0) (i64.const 0) (i32.const 1)))

    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (if (i32.eq (local.get $code) (i32.const -21)) (then (call $at-once)))
      (if (i32.eq (local.get $code) (i32.const -22)) (then (call $one-by-one)))
      (if (i32.eq (local.get $code) (i32.const -23)) (then (call $in-an-array)))
      (i32.const -331)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))))
  (;include handler.part;))
