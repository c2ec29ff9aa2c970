;; An event policy that grants every request.
(component
  (core module $m
    (memory (export "memory") 1)
    (func $grant (result i32)
      (i32.store8 (i32.const 0) (i32.const 1))
      (i32.const 0))
    (func (export "decide") (param i32 i32 i32 i32 i32) (result i32) (call $grant))
    (func (export "decide-registration") (param i32 i32 i32 i32) (result i32) (call $grant))
    ;; all codes are written to 1024, and are not read
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
  (core instance $i (instantiate $m))
  (alias core export $i "memory" (core memory $memory))
  (type $outcome' (variant (case "pass") (case "grant") (case "deny" s32)))
  (type $range' (enum "undef" "rm" "local" "namespace" "session" "global" "custom" "proc-local"))
  (type $head' (record (field "code" s32) (field "range" $range') (field "targets" u32) (field "infos" u32)
    (field "previous" u32)))
  (type $registration' (record (field "codes" (list s32)) (field "directives" u32) (field "previous" u32)))
  (func $decide-registration (param "request" $registration') (result $outcome')
    (canon lift (core func $i "decide-registration") (memory $memory) (realloc (core func $i "realloc"))))
  (func $decide (param "request" $head') (result $outcome') (canon lift (core func $i "decide") (memory $memory)))
  (instance $policy
    (export "policy-outcome" (type $outcome'))
    (export "range" (type $range'))
    (export "request-head" (type $head'))
    (export "registration-head" (type $registration'))
    (export "decide" (func $decide))
    (export "decide-registration" (func $decide-registration)))
  (export "peal:pmix/event-policy@0.1.0" (instance $policy)))
