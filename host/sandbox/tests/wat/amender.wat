;; A handler that amends, where there is nothing to amend, with the infos of its event; returns 7.
(component
  (;include call.part;)
  (;include amendment.part;)
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "call" "infos" (func $infos (param i32)))
    (import "amendment" "amend" (func $amend (param i32 i32 i32 i32)))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $count i32)
      (param $steps i32) (result i32)
      (call $infos (i32.const 64))
      (call $amend (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.load (i32.const 72)) (i32.load (i32.const 76)))
      (i32.const 7)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "amendment" (instance $amendment))))
  (;include handler.part;))
