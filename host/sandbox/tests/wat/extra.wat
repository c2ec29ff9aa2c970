;; Exports what is no role beside its role, as components of some languages do, and says who made it.
(component
  (core module $m
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (i32.const -331))
    (func (export "run") unreachable)
    (@producers (language "WAT" "1") (processed-by "by-hand" "0.1") (sdk "peal-sdk" "0.1.0")))
  (core instance $i (instantiate $m))
  (func $run (canon lift (core func $i "run")))
  (instance $extra (export "run" (func $run)))
  (export "other:language/runtime@1.0.0" (instance $extra))
  (export "run" (func $run))
  (;include handler.part;))
