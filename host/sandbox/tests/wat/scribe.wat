;; A log channel. Without a `test.ask` it writes the bytes of `test.data`, if they are bytes, to the sink that `test.sink`
;; names, and returns the status with which that was refused, else 0. 1: pushes whatever can be seen, the names of its sinks
;; and the numbers of its head; 2: writes and traps; 3: writes without end; 4: writes nothing and returns -3.
(component
  (;include call.part;)
  (;include capabilities.part;)
  (core module $m
    (import "sink" "names" (func $names (param i32)))
    (import "sink" "write" (func $write (param i32 i32 i32 i32 i32)))
    (;include push.part;)
    (data (i32.const 32) "test.asktest.datatest.sink")

    (func $push-text (param $at i32) (param $len i32)
      (call $push-value (i32.const 3) (i64.extend_i32_u (local.get $at)) (i64.extend_i32_u (local.get $len)) (i32.const 0)))

    (func $push-names
      (local $at i32) (local $left i32)
      (call $names (i32.const 64))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-text (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    (func $push-number (param i64) (call $push-value (i32.const 15) (local.get 0) (i64.const 0) (i32.const 0)))

    (func $write-it (result i32)
      (local $sink i32) (local $sink-len i32)
      (call $get (i32.const 49) (i32.const 9) (i32.const 64))
      (local.set $sink (i32.load (i32.const 80)))
      (local.set $sink-len (i32.load (i32.const 84)))
      (call $get (i32.const 40) (i32.const 9) (i32.const 64))
      (call $write (local.get $sink) (local.get $sink-len) (i32.load (i32.const 80)) (i32.load (i32.const 84))
        (i32.const 64))
      (if (result i32) (i32.load8_u (i32.const 64)) (then (i32.load (i32.const 68))) (else (i32.const 0))))

    (func (export "log") (param $channel i32) (param $len i32) (param $timestamp i64) (param $data i32) (param $how i32)
      (param $before i32) (result i32)
      (local $ask i32)
      (global.set $arrays-len (i32.const 0))
      (call $get (i32.const 32) (i32.const 8) (i32.const 64))
      (if (i32.load8_u (i32.const 64)) (then (local.set $ask (i32.load (i32.const 80)))))
      (if (i32.eq (local.get $ask) (i32.const 1))
        (then
          (call $push-text (local.get $channel) (local.get $len))
          (call $push-number (local.get $timestamp))
          (call $push-number (i64.extend_i32_u (local.get $data)))
          (call $push-number (i64.extend_i32_u (local.get $how)))
          (call $push-number (i64.extend_i32_u (local.get $before)))
          (call $push-source)
          (call $push-names)
          (call $infos (i32.const 64))
          (call $with-arrays (i32.const 72))
          (call $push-infos (i32.const 64))
          (call $directives (i32.const 64))
          (call $with-arrays (i32.const 72))
          (call $push-infos (i32.const 64))
          (call $push-steps)
          (return (i32.const 0))))
      (if (i32.eq (local.get $ask) (i32.const 2)) (then (drop (call $write-it)) unreachable))
      (if (i32.eq (local.get $ask) (i32.const 3)) (then (loop $again (drop (call $write-it)) (br $again))))
      (if (i32.eq (local.get $ask) (i32.const 4)) (then (return (i32.const -3))))
      (call $write-it)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "sink" (instance $sink))))
  (;include channel.part;))
