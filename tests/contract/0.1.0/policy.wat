;; As it was when 0.1.0 was the contract: it loads for ever. Never changed.
;; Fills every policy role. What it says is asked for by the value of `test.ask`: 0 passes, 1 grants, 2 denies with the head's
;; numbers as digits of a negative status (event code, kind or range, targets or codes, infos or directives, steps), 3 denies with
;; success; 4 traps; 5 loops for ever; 6 pushes without end; 7 pushes whatever can be seen and passes; 8 amends with its
;; directives as they came, 9 with its infos, and grants; 10 amends, pushes a reason and denies; 11 amends with nothing, then
;; with its directives, and passes; 12 amends without end; 13 denies with the status that `notify` refuses with, 14 with that
;; of `sink.write`; 15 narrows to LOCAL and passes, or denies with the status that this is refused with.
(component
    ;; The types of the contract and the whole of `call`, with a memory and an allocator to lower it with. The core
  ;; functions are in the instance $call: source credentials server targets owners infos directives get steps push.
  ;; In memory a value takes 24 bytes (case at 0, payload at 8), an info 40 (key 0, flags 8, value 16), an array 16 (element
  ;; at 0, case at 4, list at 8), content 16 (infos, arrays).
  (import "peal:pmix/types@0.1.0" (instance $types
    (type $proc' (record (field "nspace" string) (field "rank" u32)))
    (export "proc" (type $proc (eq $proc')))
    (type $range' (enum "undef" "rm" "local" "namespace" "session" "global" "custom" "proc-local"))
    (export "range" (type $range (eq $range')))
    (type $flags' (flags "required" "array-end" "required-processed" "qualifier" "persistent"))
    (export "info-flags" (type $flags (eq $flags')))
    (type $opaque' (record (field "data-type" u16) (field "handle" u32)))
    (export "opaque" (type $opaque (eq $opaque')))
    (type $value' (variant
      (case "undef") (case "boolean" bool) (case "byte" u8) (case "text" string) (case "size" u64) (case "pid" u32)
      (case "int" s32) (case "int8" s8) (case "int16" s16) (case "int32" s32) (case "int64" s64) (case "uint" u32)
      (case "uint8" u8) (case "uint16" u16) (case "uint32" u32) (case "uint64" u64) (case "float32" f32)
      (case "float64" f64) (case "timeval" (tuple s64 s64)) (case "time" u64) (case "status" s32) (case "proc" $proc)
      (case "nspace" string) (case "rank" u32) (case "range" $range) (case "bytes" (list u8)) (case "array" u32)
      (case "other" $opaque)))
    (export "value" (type $value (eq $value')))
    (type $info' (record (field "key" string) (field "flags" $flags) (field "value" $value)))
    (export "info" (type $info (eq $info')))
    (type $items' (variant (case "infos" (list $info)) (case "procs" (list $proc)) (case "values" (list $value))))
    (export "array-items" (type $items (eq $items')))
    (type $array' (record (field "element" u16) (field "items" $items)))
    (export "array" (type $array (eq $array')))
    (type $content' (record (field "infos" (list $info)) (field "arrays" (list $array))))
    (export "flat-infos" (type $content (eq $content')))
    (type $found' (record (field "value" $value) (field "arrays" (list $array))))
    (export "flat-value" (type $found (eq $found')))
    (type $identity' (record (field "uid" u32) (field "gid" u32)))
    (export "user-identity" (type $identity (eq $identity')))
    (type $step' (record (field "name" string) (field "status" s32) (field "infos" (list $info))))
    (export "chain-result" (type $step (eq $step')))
    (type $chain' (record (field "results" (list $step)) (field "arrays" (list $array))))
    (export "chain-results" (type $chain (eq $chain')))
    (type $registration' (record
      (field "tag" u32) (field "name" (option string)) (field "codes" (list s32)) (field "directives" $content)))
    (export "registration" (type $registration (eq $registration')))))
  (alias export $types "proc" (type $proc))
  (alias export $types "range" (type $range))
  (alias export $types "info" (type $info))
  (alias export $types "array" (type $array))
  (alias export $types "flat-infos" (type $content))
  (alias export $types "flat-value" (type $found))
  (alias export $types "user-identity" (type $identity))
  (alias export $types "chain-results" (type $chain))
  (alias export $types "registration" (type $registration))
  (import "peal:pmix/call@0.1.0" (instance $imported-call
    (export "source" (func (result (option $proc))))
    (export "credentials" (func (result (option $identity))))
    (export "server-identity" (func (result (option $identity))))
    (export "targets" (func (result (list $proc))))
    (export "target-owners" (func (result (list (option $identity)))))
    (export "infos" (func (result $content)))
    (export "directives" (func (result $content)))
    (export "get" (func (param "key" string) (result (option $found))))
    (export "previous-results" (func (result $chain)))
    (export "push" (func (param "info" $info) (param "arrays" (list $array))))))
  (core module $libc-module
    (memory (export "memory") 1)
    (global $heap (mut i32) (i32.const 4096))
    ;; never frees; `reset` starts over, with what was used cleared
    (func (export "reset")
      (memory.fill (i32.const 4096) (i32.const 0) (i32.sub (global.get $heap) (i32.const 4096)))
      (global.set $heap (i32.const 4096)))
    (func (export "realloc") (param $old i32) (param $old-size i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
      (global.set $heap (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (global.get $heap) (i32.shl (memory.size) (i32.const 16)))
        (then (if (i32.eq (i32.const -1) (memory.grow
            (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16)))))
          (then unreachable))))
      (memory.copy (local.get $at) (local.get $old) (local.get $old-size))
      (local.get $at)))
  (core instance $libc (instantiate $libc-module))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
  (core func $source (canon lower (func $imported-call "source") (memory $memory) (realloc $realloc)))
  (core func $credentials (canon lower (func $imported-call "credentials") (memory $memory)))
  (core func $server (canon lower (func $imported-call "server-identity") (memory $memory)))
  (core func $targets (canon lower (func $imported-call "targets") (memory $memory) (realloc $realloc)))
  (core func $owners (canon lower (func $imported-call "target-owners") (memory $memory) (realloc $realloc)))
  (core func $infos (canon lower (func $imported-call "infos") (memory $memory) (realloc $realloc)))
  (core func $directives (canon lower (func $imported-call "directives") (memory $memory) (realloc $realloc)))
  (core func $get (canon lower (func $imported-call "get") (memory $memory) (realloc $realloc)))
  (core func $steps (canon lower (func $imported-call "previous-results") (memory $memory) (realloc $realloc)))
  (core func $push (canon lower (func $imported-call "push") (memory $memory)))
  (core instance $call
    (export "source" (func $source)) (export "credentials" (func $credentials)) (export "server-identity" (func $server))
    (export "targets" (func $targets)) (export "target-owners" (func $owners)) (export "infos" (func $infos))
    (export "directives" (func $directives)) (export "get" (func $get)) (export "previous-results" (func $steps))
    (export "push" (func $push)))
    ;; The amendment; its core functions are in the instance $amendment. Wants call.part before it.
  (import "peal:pmix/amendment@0.1.0" (instance $imported-amendment
    (export "amend" (func (param "directives" $content)))
    (export "narrow-range" (func (param "range" $range) (result (result (error s32)))))))
  (core func $amend (canon lower (func $imported-amendment "amend") (memory $memory)))
  (core func $narrow (canon lower (func $imported-amendment "narrow-range") (memory $memory)))
  (core instance $amendment (export "amend" (func $amend)) (export "narrow-range" (func $narrow)))
    ;; What a component may be granted; the core functions are in the instances $notify, $sink and $state. Wants call.part
  ;; before it.
  (import "peal:pmix/notify@0.1.0" (instance $imported-notify
    (export "notify" (func (param "code" s32) (param "range" $range) (param "infos" $content)
      (result (result u64 (error s32)))))))
  (import "peal:pmix/sink@0.1.0" (instance $imported-sink
    (export "names" (func (result (list string))))
    (export "write" (func (param "sink" string) (param "bytes" (list u8)) (result (result (error s32)))))))
  (import "peal:pmix/state@0.1.0" (instance $imported-state
    (export "get" (func (param "key" string) (result (result (option (list u8)) (error s32)))))
    (export "set" (func (param "key" string) (param "value" (list u8)) (result (result (error s32)))))
    (export "delete" (func (param "key" string) (result (result (error s32)))))
    (export "keys" (func (param "prefix" string) (result (result (list string) (error s32)))))))
  (core func $notify (canon lower (func $imported-notify "notify") (memory $memory)))
  (core func $names (canon lower (func $imported-sink "names") (memory $memory) (realloc $realloc)))
  (core func $write (canon lower (func $imported-sink "write") (memory $memory)))
  (core func $state-get (canon lower (func $imported-state "get") (memory $memory) (realloc $realloc)))
  (core func $state-set (canon lower (func $imported-state "set") (memory $memory)))
  (core func $state-delete (canon lower (func $imported-state "delete") (memory $memory)))
  (core func $state-keys (canon lower (func $imported-state "keys") (memory $memory) (realloc $realloc)))
  (core instance $notify (export "notify" (func $notify)))
  (core instance $sink (export "names" (func $names)) (export "write" (func $write)))
  (core instance $state (export "get" (func $state-get)) (export "set" (func $state-set))
    (export "delete" (func $state-delete)) (export "keys" (func $state-keys)))
  (core module $m
    (import "amendment" "amend" (func $amend (param i32 i32 i32 i32)))
    (import "amendment" "narrow-range" (func $narrow (param i32 i32)))
    (import "notify" "notify" (func $notify (param i32 i32 i32 i32 i32 i32 i32)))
    (import "sink" "write" (func $write (param i32 i32 i32 i32 i32)))
        ;; Imports of the core module of a component that reads its call and pushes what it read under `test.echo`, and how.
    ;; Uses the memory up to 128. Wants call.part before the core module.
    (import "libc" "memory" (memory 1))
    (import "libc" "reset" (func $reset))
    (import "call" "source" (func $source (param i32)))
    (import "call" "credentials" (func $credentials (param i32)))
    (import "call" "server-identity" (func $server (param i32)))
    (import "call" "targets" (func $targets (param i32)))
    (import "call" "target-owners" (func $owners (param i32)))
    (import "call" "infos" (func $infos (param i32)))
    (import "call" "directives" (func $directives (param i32)))
    (import "call" "get" (func $get (param i32 i32 i32)))
    (import "call" "previous-results" (func $steps (param i32)))
    (import "call" "push" (func $push (param i32 i32 i32 i32 i64 i64 i32 i32 i32)))
    (data (i32.const 16) "test.echo")

    (global $arrays (mut i32) (i32.const 0))
    (global $arrays-len (mut i32) (i32.const 0))

    ;; what is pushed from now on comes with the arrays of this list
    (func $with-arrays (param $list i32)
      (global.set $arrays (i32.load (local.get $list)))
      (global.set $arrays-len (i32.load offset=4 (local.get $list))))

    (func $push-value (param $case i32) (param $a i64) (param $b i64) (param $c i32)
      (call $push (i32.const 16) (i32.const 9) (i32.const 0) (local.get $case) (local.get $a) (local.get $b)
        (local.get $c) (global.get $arrays) (global.get $arrays-len)))

    (func $push-info (param $at i32)
      (local $case i32) (local $a i64) (local $b i64)
      (local.set $case (i32.load8_u offset=16 (local.get $at)))
      ;; 64 bits wide: size int64 uint64 float64 timeval time
      (if (i32.and (i32.shr_u (i32.const 0xe8410) (local.get $case)) (i32.const 1))
        (then
          (local.set $a (i64.load offset=24 (local.get $at)))
          (local.set $b (i64.load offset=32 (local.get $at))))
        (else
          (local.set $a (i64.load32_u offset=24 (local.get $at)))
          (local.set $b (i64.load32_u offset=28 (local.get $at)))))
      (call $push (i32.load (local.get $at)) (i32.load offset=4 (local.get $at)) (i32.load8_u offset=8 (local.get $at))
        (local.get $case) (local.get $a) (local.get $b) (i32.load offset=32 (local.get $at))
        (global.get $arrays) (global.get $arrays-len)))

    (func $push-infos (param $list i32)
      (local $at i32) (local $left i32)
      (local.set $at (i32.load (local.get $list)))
      (local.set $left (i32.load offset=4 (local.get $list)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-info (local.get $at))
        (local.set $at (i32.add (local.get $at) (i32.const 40)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    (func $push-steps
      (local $at i32) (local $left i32)
      (call $steps (i32.const 64))
      (call $with-arrays (i32.const 72))
      (local.set $at (i32.load (i32.const 64)))
      (local.set $left (i32.load (i32.const 68)))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (call $push-value (i32.const 3) (i64.load32_u (local.get $at)) (i64.load32_u offset=4 (local.get $at)) (i32.const 0))
        (call $push-value (i32.const 20) (i64.load32_u offset=8 (local.get $at)) (i64.const 0) (i32.const 0))
        (call $push-infos (i32.add (local.get $at) (i32.const 12)))
        (local.set $at (i32.add (local.get $at) (i32.const 20)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))

    ;; user and group at this place, if there are any
    (func $push-identity (param $at i32)
      (if (i32.load8_u (local.get $at))
        (then
          (call $push-value (i32.const 14) (i64.load32_u offset=4 (local.get $at)) (i64.const 0) (i32.const 0))
          (call $push-value (i32.const 14) (i64.load32_u offset=8 (local.get $at)) (i64.const 0) (i32.const 0)))))

    (func $push-source
      (call $source (i32.const 64))
      (if (i32.load8_u (i32.const 64))
        (then (call $push-value (i32.const 21) (i64.load32_u (i32.const 68)) (i64.load32_u (i32.const 72))
          (i32.load (i32.const 76)))))
      (call $credentials (i32.const 64))
      (call $push-identity (i32.const 64)))
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
      (if (i32.eq (local.get $ask) (i32.const 12)) (then (loop $again (call $amend-with-it) (br $again))))
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
        (local.get $steps)))))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "amendment" (instance $amendment)) (with "notify" (instance $notify)) (with "sink" (instance $sink))))
    ;; Exports `connection`, `event`, `registration` and `job-control` of the core instance $i as the roles of policies. Each returns where its
  ;; outcome lies: the case at 0, the status at 4. Wants call.part before it.
  (type $outcome' (variant (case "pass") (case "grant") (case "deny" s32)))
  (type $kind' (enum "client" "tool"))
  (type $range'' (enum "undef" "rm" "local" "namespace" "session" "global" "custom" "proc-local"))
  (type $connection' (record (field "kind" $kind') (field "targets" u32) (field "infos" u32) (field "previous" u32)))
  (type $event' (record (field "code" s32) (field "range" $range'') (field "targets" u32) (field "infos" u32)
    (field "previous" u32)))
  (type $registration' (record (field "codes" (list s32)) (field "directives" u32) (field "previous" u32)))
  (type $job-control' (record (field "targets" u32) (field "directives" u32) (field "previous" u32)))
  (func $decide-connection (param "request" $connection') (result $outcome')
    (canon lift (core func $i "connection") (memory $memory)))
  (func $decide-event (param "request" $event') (result $outcome') (canon lift (core func $i "event") (memory $memory)))
  (func $decide-registration (param "request" $registration') (result $outcome')
    (canon lift (core func $i "registration") (memory $memory) (realloc $realloc)))
  (func $decide-job-control (param "request" $job-control') (result $outcome')
    (canon lift (core func $i "job-control") (memory $memory)))
  (instance $connection-policy
    (export "policy-outcome" (type $outcome'))
    (export "connection-kind" (type $kind'))
    (export "request-head" (type $connection'))
    (export "decide" (func $decide-connection)))
  (instance $event-policy
    (export "policy-outcome" (type $outcome'))
    (export "range" (type $range''))
    (export "request-head" (type $event'))
    (export "registration-head" (type $registration'))
    (export "decide" (func $decide-event))
    (export "decide-registration" (func $decide-registration)))
  (instance $job-control-policy
    (export "policy-outcome" (type $outcome'))
    (export "request-head" (type $job-control'))
    (export "decide" (func $decide-job-control)))
  (export "peal:pmix/connection-policy@0.1.0" (instance $connection-policy))
  (export "peal:pmix/event-policy@0.1.0" (instance $event-policy))
  (export "peal:pmix/job-control-policy@0.1.0" (instance $job-control-policy)))
