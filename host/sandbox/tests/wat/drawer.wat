;; For an event of code 0 it returns the last bits of a random number; for a code above, how many random bytes it gets of so
;; many, or why it gets none; for one below, the first byte of the file `note` in the directory `data`, or why it gets none.
(component
  (;include call.part;)
  (import "peal:pmix/random@0.1.0" (instance $random
    (export "get-random-bytes" (func (param "len" u32) (result (result (list u8) (error s32)))))
    (export "get-random-u64" (func (result u64)))))
  (import "peal:pmix/files@0.1.0" (instance $files
    (export "read" (func (param "directory" string) (param "path" string) (result (result (list u8) (error s32)))))))
  (core func $number (canon lower (func $random "get-random-u64")))
  (core func $bytes (canon lower (func $random "get-random-bytes") (memory $memory) (realloc $realloc)))
  (core func $read (canon lower (func $files "read") (memory $memory) (realloc $realloc)))
  (core instance $lent (export "number" (func $number)) (export "bytes" (func $bytes)) (export "read" (func $read)))
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "lent" "number" (func $number (result i64)))
    (import "lent" "bytes" (func $bytes (param i32 i32)))
    (import "lent" "read" (func $read (param i32 i32 i32 i32 i32)))
    (data (i32.const 16) "datanote")
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (call $reset)
      (if (i32.eqz (local.get $code)) (then (return (i32.wrap_i64 (call $number)))))
      (if (i32.gt_s (local.get $code) (i32.const 0))
        (then
          (call $bytes (local.get $code) (i32.const 64))
          (return (select (i32.load (i32.const 68)) (i32.load (i32.const 72)) (i32.load8_u (i32.const 64))))))
      (call $read (i32.const 16) (i32.const 4) (i32.const 20) (i32.const 4) (i32.const 64))
      (if (i32.load8_u (i32.const 64)) (then (return (i32.load (i32.const 68)))))
      (i32.load8_u (i32.load (i32.const 68)))))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "lent" (instance $lent))))
  (;include handler.part;))
