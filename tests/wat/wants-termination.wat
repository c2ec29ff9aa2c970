;; An event handler that requests the termination of the job for every event.
(component
  (;include call.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (data (i32.const 16) "pmix.evterm")
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $push (i32.const 16) (i32.const 11) (i32.const 0) (i32.const 1) (i64.const 1) (i64.const 0) (i32.const 0)
        (i32.const 0) (i32.const 0))
      (i32.const -332)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))))
  (;include handler.part;))
