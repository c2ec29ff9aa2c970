;; A policy that asks for nothing but what is at the other end of a connection: denies with minus the number of its process, or
;; with -1 where that is not told, or with minus the length of its release where the process number is 4; passes where there
;; is no connection.
(component
  (import "peal:pmix/types@0.1.0" (instance $types
    (type $peer' (record (field "pid" (option u32)) (field "release" string)))
    (export "peer-info" (type $peer (eq $peer')))))
  (alias export $types "peer-info" (type $peer))
  (import "peal:pmix/call@0.1.0" (instance $call
    (export "peer-info" (type $p (eq $peer)))
    (export "peer" (func (result (option $p))))))
  (core module $libc
    (memory (export "memory") 1)
    (global $next (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (global.get $next)
      (global.set $next (i32.add (global.get $next) (local.get 3)))))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  (core func $connection (canon lower (func $call "peer") (memory $memory) (realloc $realloc)))
  (core module $m
    (import "libc" "memory" (memory 1))
    (import "call" "connection" (func $connection (param i32)))
    (func $said (param $status i32) (result i32)
      (i32.store8 (i32.const 256) (i32.const 2))
      (i32.store (i32.const 260) (local.get $status))
      (i32.const 256))
    ;; At 64: whether there is one, 68: whether it has a process, 72: which, 76: its release and the length of that.
    (func $decide (result i32)
      (call $connection (i32.const 64))
      (if (i32.eqz (i32.load8_u (i32.const 64)))
        (then (i32.store8 (i32.const 256) (i32.const 0)) (return (i32.const 256))))
      (if (i32.eqz (i32.load8_u (i32.const 68))) (then (return (call $said (i32.const -1)))))
      (if (i32.eq (i32.load (i32.const 72)) (i32.const 4))
        (then (return (call $said (i32.sub (i32.const 0) (i32.load (i32.const 80)))))))
      (call $said (i32.sub (i32.const 0) (i32.load (i32.const 72)))))
    (func (export "connection") (param i32 i32 i32 i32) (result i32) (call $decide))
    (func (export "event") (param i32 i32 i32 i32 i32) (result i32) (call $decide))
    (func (export "registration") (param i32 i32 i32 i32) (result i32) (call $decide))
    (func (export "job-control") (param i32 i32 i32) (result i32) (call $decide))
    (func (export "monitor") (param i32 i32 i32 i32) (result i32) (call $decide))
    (func (export "provision") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $decide))
    (func (export "log") (param i32 i32 i32) (result i32) (call $decide))
    (func (export "group") (param i32 i32 i32 i32 i32 i32 i32) (result i32) (call $decide))
    (func (export "spawn") (param i32 i32 i32 i32 i32) (result i32) (call $decide)))
  (core instance $i (instantiate $m
    (with "libc" (instance $libc))
    (with "call" (instance (export "connection" (func $connection))))))
  (;include policies.part;))
