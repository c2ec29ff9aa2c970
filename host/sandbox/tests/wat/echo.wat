;; Pushes every info as it came, with the arrays as they came. Code -2: pushes the procs that the event is aimed at; -3: the
;; infos of each step, and returns how many steps there are; -4: the source and the credentials; -5: an array-ref to an array
;; that was not passed; -6: an opaque value that nobody gave; -7: an array of mixed types; -8: arrays within arrays; -9: an
;; array twice in an array, again and again; -10: an array that holds itself; -11: what `get` finds; -12: its tag as status.
(component
  (;include call.part;)
  (core module $m
    (;include push.part;)

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
