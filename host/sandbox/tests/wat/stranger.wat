;; Imports an interface that Peal does not offer.
(component
  (import "wasi:http/types@0.2.0" (instance $random (export "get-random-u64" (func (result u64)))))
  (core func $random (canon lower (func $random "get-random-u64")))
  (core module $m
    (import "random" "get" (func $random (result i64)))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (i32.wrap_i64 (call $random))))
  (core instance $i (instantiate $m (with "random" (instance (export "get" (func $random))))))
  (;include handler.part;))
