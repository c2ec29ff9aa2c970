;; Pushes every info as it came. An array at the top is read and made anew, so that both ways of an array are walked;
;; what it nests goes by number. Code -2: pushes the procs that the event is aimed at; -3: the infos of each step, and
;; returns how many steps there are; -4: the source and the credentials; -5: an array-ref that nobody gave; -6: an opaque
;; value that nobody gave; -7: an array of mixed types; -8: arrays within arrays; -9: an array twice in an array, again
;; and again.
(component
  (;include call.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "call" "source" (func $source (param i32)))
    (import "call" "credentials" (func $credentials (param i32)))
    (import "call" "targets" (func $targets (param i32)))
    (import "call" "infos" (func $infos (param i32)))
    (import "call" "array-at" (func $array-at (param i32 i32)))
    (import "call" "steps" (func $steps (param i32)))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32)))
    (import "call" "push-array" (func $push-array (param i32 i32 i32) (result i32)))
    (data (i32.const 16) "test.echo")

    (func $push-text (param $case i32) (param $a i64) (param $b i64) (param $c i32)
      (call $push (i32.const 16) (i32.const 9) (i32.const 0) (local.get $case) (local.get $a) (local.get $b)
        (local.get $c)))

    ;; pushes an array again: read, made anew
    (func $again (param $number i32) (result i32)
      (call $array-at (local.get $number) (i32.const 96))
      (if (i32.eqz (i32.load8_u (i32.const 96))) (then unreachable))
      (call $push-array (i32.load8_u (i32.const 100)) (i32.load (i32.const 104)) (i32.load (i32.const 108))))

    (func $push-info (param $at i32)
      (local $case i32) (local $a i64) (local $b i64)
      (local.set $case (i32.load8_u offset=16 (local.get $at)))
      ;; 64 bits wide: size int64 uint64 float64 timeval time
      (if (i32.and (i32.shr_u (i32.const 0xe8410) (local.get $case)) (i32.const 1))
        (then
          (local.set $a (i64.load offset=24 (local.get $at)))
          (local.set $b (i64.load offset=32 (local.get $at))))
        (else
          (local.set $a (i64.load32_u offset=24 (local.get $at)))
          (local.set $b (i64.load32_u offset=28 (local.get $at)))))
      (if (i32.eq (local.get $case) (i32.const 26))
        (then (local.set $a (i64.extend_i32_u (call $again (i32.wrap_i64 (local.get $a)))))))
      (call $push (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)) (i32.load8_u offset=8 (local.get $at))
        (local.get $case) (local.get $a) (local.get $b) (i32.load offset=32 (local.get $at))))

    (func $push-infos (param $list i32)
      (local $at i32) (local $left i32)
      (local.set $at (i32.load (local.get $list)))
      (local.set $left (i32.load offset=4 (local.get $list)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-info (local.get $at))
        (local.set $at (i32.add (local.get $at) (i32.const 40)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    (func $push-steps
      (local $at i32) (local $left i32)
      (call $steps (i32.const 64))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-text (i32.const 3) (i64.load32_u (local.get $at)) (i64.load32_u offset=4 (local.get $at)) (i32.const 0))
        (call $push-text (i32.const 20) (i64.load32_u offset=8 (local.get $at)) (i64.const 0) (i32.const 0))
        (call $push-infos (i32.add (local.get $at) (i32.const 12)))
        (local.set $at (i32.add (local.get $at) (i32.const 20)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    (func $push-source
      (call $source (i32.const 64))
      (if (i32.load8_u (i32.const 64))
        (then (call $push-text (i32.const 21) (i64.load32_u (i32.const 68)) (i64.load32_u (i32.const 72))
          (i32.load (i32.const 76)))))
      (call $credentials (i32.const 64))
      (if (i32.load8_u (i32.const 64))
        (then
          (call $push-text (i32.const 14) (i64.load32_u (i32.const 68)) (i64.const 0) (i32.const 0))
          (call $push-text (i32.const 14) (i64.load32_u (i32.const 72)) (i64.const 0) (i32.const 0)))))

    ;; arrays, each with $width times the one before as its elements
    (func $nest (param $width i32) (param $levels i32)
      (local $number i32)
      (local.set $number (call $push-array (i32.const 2) (i32.const 0) (i32.const 0)))
      (loop $next
        (i32.store8 (i32.const 128) (i32.const 26))
        (i32.store (i32.const 136) (local.get $number))
        (i32.store8 (i32.const 152) (i32.const 26))
        (i32.store (i32.const 160) (local.get $number))
        (local.set $number (call $push-array (i32.const 2) (i32.const 128) (local.get $width)))
        (local.set $levels (i32.sub (local.get $levels) (i32.const 1)))
        (br_if $next (local.get $levels))))

    (func (export "handle") (param $registration i64) (param $code i32) (param $range i32) (param $infos i32)
      (param $count i32) (result i32)
      (call $reset)
      (if (i32.eq (local.get $code) (i32.const -2))
        (then
          (call $targets (i32.const 64))
          (call $push-text (i32.const 26)
            (i64.extend_i32_u (call $push-array (i32.const 1) (i32.load (i32.const 64)) (i32.load (i32.const 68))))
            (i64.const 0) (i32.const 0))
          (return (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -3)) (then (call $push-steps) (return (local.get $count))))
      (if (i32.eq (local.get $code) (i32.const -4)) (then (call $push-source) (return (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -5))
        (then (call $push-text (i32.const 26) (i64.const 77) (i64.const 0) (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -6))
        (then (call $push-text (i32.const 27) (i64.const 24) (i64.const 77) (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -7))
        (then
          (i32.store8 (i32.const 128) (i32.const 1))
          (i32.store8 (i32.const 152) (i32.const 6))
          (drop (call $push-array (i32.const 2) (i32.const 128) (i32.const 2)))))
      (if (i32.eq (local.get $code) (i32.const -8)) (then (call $nest (i32.const 1) (i32.const 100))))
      (if (i32.eq (local.get $code) (i32.const -9)) (then (call $nest (i32.const 2) (i32.const 10))))
      (call $infos (i32.const 64))
      (call $push-infos (i32.const 64))
      (i32.load (i32.const 68))))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))))
  (;include handler.part;))
