;; Fills every policy role. What it says is asked for by the value of `test.ask`: 0 passes, 1 grants, 2 denies with the head's
;; numbers as digits of a negative status (event code, procs of an application, nodes or kind of a group, kind, range or length of the first node or of the group's name, targets, codes or length of the image, infos or directives, steps), 3 denies with
;; success; 4 traps; 5 loops for ever; 6 pushes without end; 7 pushes whatever can be seen and passes; 8 amends with its
;; directives as they came, 9 with its infos, and grants; 10 amends, pushes a reason and denies; 11 amends with nothing, then
;; with its directives, and passes; 12 amends without end; 13 denies with the status that `notify` refuses with, 14 with that
;; of `sink.write`; 15 narrows to LOCAL and passes, 16 rewrites with its directives and passes, or both deny with the status that
;; this is refused with.
(component
  (;include call.part;)
  (;include amendment.part;)
  (;include capabilities.part;)
  (core module $m
    (import "amendment" "amend" (func $amend (param i32 i32 i32 i32)))
    (import "amendment" "narrow-range" (func $narrow (param i32 i32)))
    (import "amendment" "rewrite-data" (func $rewrite (param i32 i32 i32 i32 i32)))
    (import "notify" "notify" (func $notify (param i32 i32 i32 i32 i32 i32 i32)))
    (import "sink" "write" (func $write (param i32 i32 i32 i32 i32)))
    (;include push.part;)
    (data (i32.const 32) "test.ask")

    (func $outcome (param $case i32) (param $status i32) (result i32)
      (i32.store8 (i32.const 256) (local.get $case))
      (i32.store (i32.const 260) (local.get $status))
      (i32.const 256))

    (func $push-text (param $at i32) (param $len i32)
      (call $push-value (i32.const 3) (i64.extend_i32_u (local.get $at)) (i64.extend_i32_u (local.get $len)) (i32.const 0)))

    (func $push-targets
      (local $at i32) (local $left i32)
      (call $targets (i32.const 64))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-value (i32.const 21) (i64.load32_u (local.get $at)) (i64.load32_u offset=4 (local.get $at))
          (i32.load offset=8 (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 12)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    ;; one that is not known is pushed as no value
    (func $push-owners
      (local $at i32) (local $left i32)
      (call $owners (i32.const 64))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (if (i32.load8_u (local.get $at))
          (then (call $push-identity (local.get $at)))
          (else (call $push-value (i32.const 0) (i64.const 0) (i64.const 0) (i32.const 0))))
        (local.set $at (i32.add (local.get $at) (i32.const 12)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    (func $push-call
      (call $push-source)
      (call $server (i32.const 64))
      (call $push-identity (i32.const 64))
      (call $push-targets)
      (call $push-owners)
      (call $infos (i32.const 64))
      (call $with-arrays (i32.const 72))
      (call $push-infos (i32.const 64))
      (call $directives (i32.const 64))
      (call $with-arrays (i32.const 72))
      (call $push-infos (i32.const 64))
      (call $push-steps))

    ;; with the content at 64
    (func $amend-with-it
      (call $amend (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.load (i32.const 72)) (i32.load (i32.const 76))))

    (func $judge (param $head i32) (result i32)
      (local $ask i32)
      (call $reset)
      (global.set $arrays-len (i32.const 0))
      (call $get (i32.const 32) (i32.const 8) (i32.const 64))
      ;; option at 64: whether there is one at 64, its case at 72, its payload at 80
      (if (i32.load8_u (i32.const 64)) (then (local.set $ask (i32.load (i32.const 80)))))
      (call $directives (i32.const 64))
      (if (i32.eq (local.get $ask) (i32.const 1)) (then (return (call $outcome (i32.const 1) (i32.const 0)))))
      (if (i32.eq (local.get $ask) (i32.const 2))
        (then (return (call $outcome (i32.const 2) (i32.sub (i32.const 0) (local.get $head))))))
      (if (i32.eq (local.get $ask) (i32.const 3)) (then (return (call $outcome (i32.const 2) (i32.const 0)))))
      (if (i32.eq (local.get $ask) (i32.const 4)) (then unreachable))
      (if (i32.eq (local.get $ask) (i32.const 5)) (then (loop $again (br $again))))
      (if (i32.eq (local.get $ask) (i32.const 6))
        (then (loop $again (call $push-text (i32.const 0) (i32.const 1000)) (br $again))))
      (if (i32.eq (local.get $ask) (i32.const 7)) (then (call $push-call)))
      (if (i32.eq (local.get $ask) (i32.const 8))
        (then (call $amend-with-it) (return (call $outcome (i32.const 1) (i32.const 0)))))
      (if (i32.eq (local.get $ask) (i32.const 9))
        (then
          (call $infos (i32.const 64))
          (call $amend-with-it)
          (return (call $outcome (i32.const 1) (i32.const 0)))))
      (if (i32.eq (local.get $ask) (i32.const 10))
        (then
          (call $amend-with-it)
          (call $push-text (i32.const 32) (i32.const 8))
          (return (call $outcome (i32.const 2) (i32.const -23)))))
      (if (i32.eq (local.get $ask) (i32.const 11))
        (then (call $amend (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)) (call $amend-with-it)))
      (if (i32.eq (local.get $ask) (i32.const 12))
        (then
          (if (i32.eqz (i32.load (i32.const 68))) (then (call $infos (i32.const 64))))
          (loop $again (call $amend-with-it) (br $again))))
      (if (i32.eq (local.get $ask) (i32.const 13))
        (then
          (call $notify (i32.const -4000) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 64))
          (return (call $outcome (i32.const 2) (i32.load (i32.const 72))))))
      (if (i32.eq (local.get $ask) (i32.const 14))
        (then
          (call $write (i32.const 32) (i32.const 4) (i32.const 32) (i32.const 4) (i32.const 64))
          (return (call $outcome (i32.const 2) (i32.load (i32.const 68))))))
      (if (i32.eq (local.get $ask) (i32.const 15))
        (then
          (call $narrow (i32.const 2) (i32.const 64))
          (if (i32.load8_u (i32.const 64)) (then (return (call $outcome (i32.const 2) (i32.load (i32.const 68))))))))
      (if (i32.eq (local.get $ask) (i32.const 16))
        (then
          (call $rewrite (i32.load (i32.const 64)) (i32.load (i32.const 68)) (i32.load (i32.const 72))
            (i32.load (i32.const 76)) (i32.const 96))
          (if (i32.load8_u (i32.const 96)) (then (return (call $outcome (i32.const 2) (i32.load (i32.const 100))))))))
      (call $outcome (i32.const 0) (i32.const 0)))

    ;; digits of one number, the first of which may be a larger one
    (func $digits (param i32 i32 i32 i32 i32) (result i32)
      (local.get 0) (i32.const 10) i32.mul (local.get 1) i32.add (i32.const 10) i32.mul (local.get 2) i32.add
      (i32.const 10) i32.mul (local.get 3) i32.add (i32.const 10) i32.mul (local.get 4) i32.add)
    (func (export "connection") (param $kind i32) (param $targets i32) (param $infos i32) (param $steps i32) (result i32)
      (call $judge (call $digits (i32.const 0) (local.get $kind) (local.get $targets) (local.get $infos)
        (local.get $steps))))
    (func (export "event") (param $code i32) (param $range i32) (param $targets i32) (param $infos i32) (param $steps i32)
      (result i32)
      (call $judge (call $digits (i32.sub (i32.const 0) (local.get $code)) (local.get $range) (local.get $targets)
        (local.get $infos) (local.get $steps))))
    (func (export "registration") (param $codes i32) (param $number i32) (param $directives i32) (param $steps i32)
      (result i32)
      (call $judge (call $digits (i32.const 0) (i32.const 0) (local.get $number) (local.get $directives)
        (local.get $steps))))
    (func (export "job-control") (param $targets i32) (param $directives i32) (param $steps i32) (result i32)
      (call $judge (call $digits (i32.const 0) (i32.const 0) (local.get $targets) (local.get $directives)
        (local.get $steps))))
    (func (export "monitor") (param $targets i32) (param $infos i32) (param $directives i32) (param $steps i32) (result i32)
      (call $judge (call $digits (i32.const 0) (local.get $targets) (local.get $infos) (local.get $directives)
        (local.get $steps))))
    ;; how many nodes, how long the name of the first of them, whether there is an image
    (func (export "provision") (param $nodes i32) (param $count i32) (param $image i32) (param $name i32) (param $len i32)
      (param $directives i32) (param $steps i32) (result i32)
      (call $judge (call $digits (local.get $count) (i32.load offset=4 (local.get $nodes)) (local.get $len)
        (local.get $directives) (local.get $steps))))
    (func (export "log") (param $infos i32) (param $directives i32) (param $steps i32) (result i32)
      (call $judge (call $digits (i32.const 0) (i32.const 0) (local.get $infos) (local.get $directives)
        (local.get $steps))))
    ;; the kind, how long the name is
    (func (export "group") (param $kind i32) (param $named i32) (param $name i32) (param $len i32) (param $targets i32)
      (param $directives i32) (param $steps i32) (result i32)
      (call $judge (call $digits (local.get $kind) (local.get $len) (local.get $targets) (local.get $directives)
        (local.get $steps))))
    ;; procs and directives of the first application, which lie behind its texts
    (func (export "spawn") (param $applications i32) (param $count i32) (param $targets i32) (param $directives i32)
      (param $steps i32) (result i32)
      (call $judge (call $digits (i32.load offset=36 (local.get $applications))
        (i32.load offset=40 (local.get $applications)) (local.get $targets) (local.get $directives) (local.get $steps)))))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "amendment" (instance $amendment)) (with "notify" (instance $notify)) (with "sink" (instance $sink))))
  (;include policies.part;))
