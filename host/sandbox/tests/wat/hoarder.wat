;; Reads the infos of its event, and never gets them: the allocator of the memory that they are to lie in does not return.
(component
  (;include call.part;)
  (core module $m
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (loop $again (br $again)) unreachable))
  (core instance $slow (instantiate $m))
  (core func $infos-slowly (canon lower (func $imported-call "infos") (memory $memory) (realloc (core func $slow "realloc"))))
  (core module $main
    (import "call" "infos" (func $infos (param i32)))
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $infos (i32.const 64))
      (i32.const 0)))
  (core instance $i (instantiate $main (with "call" (instance (export "infos" (func $infos-slowly))))))
  (;include handler.part;))
