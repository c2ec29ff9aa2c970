;; Pushes every info as it came, with the arrays as they came. Code -2: pushes the procs that the event is aimed at; -3: the
;; infos of each step, and returns how many steps there are; -4: the source and the credentials; -5: an array-ref to an array
;; that was not passed; -6: an opaque value that nobody gave; -7: an array of mixed types; -8: arrays within arrays; -9: an
;; array twice in an array, again and again; -10: an array that holds itself; -11: what `get` finds; -12: its tag as status.
(component
  (;include call.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "call" "source" (func $source (param i32)))
    (import "call" "credentials" (func $credentials (param i32)))
    (import "call" "targets" (func $targets (param i32)))
    (import "call" "infos" (func $infos (param i32)))
    (import "call" "get" (func $get (param i32 i32 i32)))
    (import "call" "steps" (func $steps (param i32)))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (data (i32.const 16) "test.echo")

    (global $arrays (mut i32) (i32.const 0))
    (global $arrays-len (mut i32) (i32.const 0))

    ;; what is pushed from now on comes with the arrays of this list
    (func $with-arrays (param $list i32)
      (global.set $arrays (i32.load (local.get $list)))
      (global.set $arrays-len (i32.load offset=4 (local.get $list))))

    (func $push-value (param $case i32) (param $a i64) (param $b i64) (param $c i32)
      (call $push (i32.const 16) (i32.const 9) (i32.const 0) (local.get $case) (local.get $a) (local.get $b)
        (local.get $c) (global.get $arrays) (global.get $arrays-len)))

    ;; an array of this type in the list at 512, the elements being of this case in the list at $items
    (func $make (param $at i32) (param $element i32) (param $case i32) (param $items i32) (param $len i32)
      (local.set $at (i32.add (i32.const 512) (i32.mul (local.get $at) (i32.const 16))))
      (i32.store16 (local.get $at) (local.get $element))
      (i32.store8 offset=4 (local.get $at) (local.get $case))
      (i32.store offset=8 (local.get $at) (local.get $items))
      (i32.store offset=12 (local.get $at) (local.get $len)))

    ;; pushes the array of this number, with so many from the list at 512
    (func $push-array (param $number i32) (param $len i32)
      (global.set $arrays (i32.const 512))
      (global.set $arrays-len (local.get $len))
      (call $push-value (i32.const 26) (i64.extend_i32_u (local.get $number)) (i64.const 0) (i32.const 0)))

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
      (call $push (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)) (i32.load8_u offset=8 (local.get $at))
        (local.get $case) (local.get $a) (local.get $b) (i32.load offset=32 (local.get $at))
        (global.get $arrays) (global.get $arrays-len)))

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
      (call $with-arrays (i32.const 72))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-value (i32.const 3) (i64.load32_u (local.get $at)) (i64.load32_u offset=4 (local.get $at)) (i32.const 0))
        (call $push-value (i32.const 20) (i64.load32_u offset=8 (local.get $at)) (i64.const 0) (i32.const 0))
        (call $push-infos (i32.add (local.get $at) (i32.const 12)))
        (local.set $at (i32.add (local.get $at) (i32.const 20)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    (func $push-source
      (call $source (i32.const 64))
      (if (i32.load8_u (i32.const 64))
        (then (call $push-value (i32.const 21) (i64.load32_u (i32.const 68)) (i64.load32_u (i32.const 72))
          (i32.load (i32.const 76)))))
      (call $credentials (i32.const 64))
      (if (i32.load8_u (i32.const 64))
        (then
          (call $push-value (i32.const 14) (i64.load32_u (i32.const 68)) (i64.const 0) (i32.const 0))
          (call $push-value (i32.const 14) (i64.load32_u (i32.const 72)) (i64.const 0) (i32.const 0)))))

    ;; arrays, each with $width times the one before as its elements; the values lie from 32768 on
    (func $nest (param $width i32) (param $levels i32)
      (local $number i32) (local $values i32)
      (call $make (i32.const 0) (i32.const 0) (i32.const 2) (i32.const 0) (i32.const 0))
      (local.set $values (i32.const 32768))
      (loop $next
        (i32.store8 (local.get $values) (i32.const 26))
        (i32.store offset=8 (local.get $values) (local.get $number))
        (i32.store8 offset=24 (local.get $values) (i32.const 26))
        (i32.store offset=32 (local.get $values) (local.get $number))
        (local.set $number (i32.add (local.get $number) (i32.const 1)))
        (call $make (local.get $number) (i32.const 39) (i32.const 2) (local.get $values) (local.get $width))
        (local.set $values (i32.add (local.get $values) (i32.const 48)))
        (br_if $next (i32.lt_u (local.get $number) (local.get $levels))))
      (call $push-array (local.get $number) (i32.add (local.get $number) (i32.const 1))))

    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $count i32) (result i32)
      (call $reset)
      (global.set $arrays-len (i32.const 0))
      (if (i32.eq (local.get $code) (i32.const -2))
        (then
          (call $targets (i32.const 64))
          (call $make (i32.const 0) (i32.const 22) (i32.const 1) (i32.load (i32.const 64)) (i32.load (i32.const 68)))
          (call $push-array (i32.const 0) (i32.const 1))
          (return (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -3)) (then (call $push-steps) (return (local.get $count))))
      (if (i32.eq (local.get $code) (i32.const -4)) (then (call $push-source) (return (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -5))
        (then (call $push-value (i32.const 26) (i64.const 77) (i64.const 0) (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -6))
        (then (call $push-value (i32.const 27) (i64.const 24) (i64.const 77) (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -7))
        (then
          (i32.store8 (i32.const 128) (i32.const 1))
          (i32.store8 (i32.const 152) (i32.const 6))
          (call $make (i32.const 0) (i32.const 1) (i32.const 2) (i32.const 128) (i32.const 2))
          (call $push-array (i32.const 0) (i32.const 1))))
      (if (i32.eq (local.get $code) (i32.const -8)) (then (call $nest (i32.const 1) (i32.const 100))))
      (if (i32.eq (local.get $code) (i32.const -9)) (then (call $nest (i32.const 2) (i32.const 10))))
      (if (i32.eq (local.get $code) (i32.const -10))
        (then
          (i32.store8 (i32.const 128) (i32.const 26))
          (i32.store (i32.const 136) (i32.const 0))
          (call $make (i32.const 0) (i32.const 39) (i32.const 2) (i32.const 128) (i32.const 1))
          (call $push-array (i32.const 0) (i32.const 1))))
      (if (i32.eq (local.get $code) (i32.const -11))
        (then
          (call $get (i32.const 16) (i32.const 9) (i32.const 64))
          (call $with-arrays (i32.const 96))
          (call $push-value (i32.load8_u (i32.const 72)) (i64.load32_u (i32.const 80)) (i64.load32_u (i32.const 84))
            (i32.const 0))
          (return (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -12)) (then (return (local.get $tag))))
      (call $infos (i32.const 64))
      (call $with-arrays (i32.const 72))
      (call $push-infos (i32.const 64))
      (i32.load (i32.const 68))))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))))
  (;include handler.part;))
