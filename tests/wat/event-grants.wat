;; An event policy that grants whatever it is asked about.
(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "decide") (param i32 i32 i32 i32 i32) (result i32)
      (i32.store8 (i32.const 0) (i32.const 1))
      (i32.const 0)))
  (core instance $i (instantiate $m))
  (alias core export $i "memory" (core memory $memory))
  (type $outcome' (variant (case "pass") (case "grant") (case "deny" s32)))
  (type $range' (enum "undef" "rm" "local" "namespace" "session" "global" "custom" "proc-local"))
  (type $head' (record (field "code" s32) (field "range" $range') (field "targets" u32) (field "infos" u32)
    (field "steps" u32)))
  (func $decide (param "request" $head') (result $outcome') (canon lift (core func $i "decide") (memory $memory)))
  (instance $policy
    (export "outcome" (type $outcome'))
    (export "range" (type $range'))
    (export "request-head" (type $head'))
    (export "decide" (func $decide)))
  (export "peal:pmix/event-policy@0.1.0" (instance $policy)))
