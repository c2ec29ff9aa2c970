;; Keeps state. By the event's code: -1 gets the key that `test.key` is and pushes its value as bytes, if there is one; -2 sets it
;; to the bytes of `test.value`; -3 deletes it; -4 pushes the keys that begin with it; -5 sets it and traps. Returns the status
;; with which that was refused, else how many there were.
(component
  (;include call.part;)
  (;include capabilities.part;)
  (core module $m
    (import "state" "get" (func $state-get (param i32 i32 i32)))
    (import "state" "set" (func $state-set (param i32 i32 i32 i32 i32)))
    (import "state" "delete" (func $state-delete (param i32 i32 i32)))
    (import "state" "keys" (func $state-keys (param i32 i32 i32)))
    (;include push.part;)
    (data (i32.const 32) "test.keytest.value")

    ;; the text or bytes of the info at this place: where they lie is stored at the other
    (func $read (param $name i32) (param $len i32) (param $to i32)
      (call $get (local.get $name) (local.get $len) (i32.const 64))
      (i64.store (local.get $to) (i64.load (i32.const 80))))

    ;; the result at 64 has its payload at 68
    (func $refusal (result i32)
      (if (result i32) (i32.load8_u (i32.const 64)) (then (i32.load (i32.const 68))) (else (i32.const 0))))

    (func $get-it (result i32)
      (call $state-get (i32.load (i32.const 128)) (i32.load (i32.const 132)) (i32.const 64))
      (if (i32.load8_u (i32.const 64)) (then (return (i32.load (i32.const 68)))))
      (if (i32.load8_u (i32.const 68))
        (then (call $push-value (i32.const 25) (i64.load32_u (i32.const 72)) (i64.load32_u (i32.const 76)) (i32.const 0))))
      (i32.load8_u (i32.const 68)))

    (func $push-keys (result i32)
      (local $at i32) (local $left i32)
      (call $state-keys (i32.load (i32.const 128)) (i32.load (i32.const 132)) (i32.const 64))
      (if (i32.load8_u (i32.const 64)) (then (return (i32.load (i32.const 68)))))
      (local.set $at (i32.load (i32.const 68)))
      (local.set $left (i32.load (i32.const 72)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-value (i32.const 3) (i64.load32_u (local.get $at)) (i64.load32_u offset=4 (local.get $at)) (i32.const 0))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next)))
      (i32.load (i32.const 72)))

    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $reset)
      (global.set $arrays-len (i32.const 0))
      (call $read (i32.const 32) (i32.const 8) (i32.const 128))
      (call $read (i32.const 40) (i32.const 10) (i32.const 136))
      (if (i32.eq (local.get $code) (i32.const -1)) (then (return (call $get-it))))
      (if (i32.eq (local.get $code) (i32.const -3))
        (then
          (call $state-delete (i32.load (i32.const 128)) (i32.load (i32.const 132)) (i32.const 64))
          (return (call $refusal))))
      (if (i32.eq (local.get $code) (i32.const -4)) (then (return (call $push-keys))))
      (call $state-set (i32.load (i32.const 128)) (i32.load (i32.const 132)) (i32.load (i32.const 136))
        (i32.load (i32.const 140)) (i32.const 64))
      (if (i32.eq (local.get $code) (i32.const -5)) (then unreachable))
      (call $refusal)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "state" (instance $state))))
  (;include handler.part;))
