;; A job-control policy that never answers.
(component
  (core module $m
    (memory (export "memory") 1)
    (func (export "decide") (param i32 i32 i32) (result i32) (loop $again (br $again)) unreachable))
  (core instance $i (instantiate $m))
  (alias core export $i "memory" (core memory $memory))
  (type $outcome' (variant (case "pass") (case "grant") (case "deny" s32)))
  (type $head' (record (field "targets" u32) (field "directives" u32) (field "previous" u32)))
  (func $decide (param "request" $head') (result $outcome') (canon lift (core func $i "decide") (memory $memory)))
  (instance $policy
    (export "policy-outcome" (type $outcome'))
    (export "request-head" (type $head'))
    (export "decide" (func $decide)))
  (export "peal:pmix/job-control-policy@0.1.0" (instance $policy)))
