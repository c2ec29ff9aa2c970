;; Reads the info `test.question` and, if it is a uint64, pushes `test.answer` with one more.
(component
  (;include call.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "call" "get" (func $get (param i32 i32 i32)))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (data (i32.const 16) "test.question")
    (data (i32.const 32) "test.answer")
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $reset)
      (call $get (i32.const 16) (i32.const 13) (i32.const 64))
      ;; option at 64: whether there is one at 64, its case at 72, its payload at 80
      (if (i32.and (i32.load8_u (i32.const 64)) (i32.eq (i32.load8_u (i32.const 72)) (i32.const 15)))
        (then
          (call $push (i32.const 32) (i32.const 11) (i32.const 1) (i32.const 15)
            (i64.add (i64.load (i32.const 80)) (i64.const 1)) (i64.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0))
          (return (i32.const -332))))
      (i32.const -331)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))))
  (;include handler.part;))
