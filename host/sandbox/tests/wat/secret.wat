;; Keeps in its memory how often it was called and the code of the last event; returns the code that it finds there.
(component
  (core module $m
    (memory 1)
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (i32.load (i32.const 1024))
      (i32.store (i32.const 1024) (local.get $code))))
  (core instance $i (instantiate $m))
  (;include handler.part;))
