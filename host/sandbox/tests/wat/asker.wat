;; Asks its server for something, once or as often as the tag says: code -1 for control of job:1 by one directive, -2 for one info to
;; be logged with one directive, -3 for what job:1 uses, which it pushes; -4 as -1 and then traps. Returns the status with which the last
;; was refused, else 0.
(component
  (;include call.part;)
  (import "peal:pmix/job-control@0.1.0" (instance $control
    (export "request" (func (param "targets" (list $proc)) (param "directives" $content)
      (result (result u64 (error s32)))))))
  (import "peal:pmix/log-request@0.1.0" (instance $report
    (export "submit" (func (param "data" $content) (param "directives" $content) (result (result (error s32)))))))
  (import "peal:pmix/resource-usage@0.1.0" (instance $usage
    (export "query" (func (param "procs" (list $proc)) (result (result $content (error s32)))))))
  (core func $control (canon lower (func $control "request") (memory $memory)))
  (core func $report (canon lower (func $report "submit") (memory $memory)))
  (core func $usage (canon lower (func $usage "query") (memory $memory) (realloc $realloc)))
  (core module $m
    (import "own" "control" (func $control (param i32 i32 i32 i32 i32 i32 i32)))
    (import "own" "report" (func $report (param i32 i32 i32 i32 i32 i32 i32 i32 i32)))
    (import "own" "usage" (func $usage (param i32 i32 i32)))
    (;include push.part;)
    (data (i32.const 1100) "test.infojob")
    ;; one info at 1128: key, flags, value boolean true
    (data (i32.const 1128) "\4c\04\00\00\09\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01")
    ;; one proc at 1200: namespace, rank 1
    (data (i32.const 1200) "\55\04\00\00\03\00\00\00\01\00\00\00")

    (func $once (param $code i32) (result i32)
      (if (i32.eq (local.get $code) (i32.const -2))
        (then
          (call $report (i32.const 1128) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 1128) (i32.const 1)
            (i32.const 0) (i32.const 0) (i32.const 1300))
          (return (select (i32.load (i32.const 1304)) (i32.const 0) (i32.load8_u (i32.const 1300))))))
      (if (i32.eq (local.get $code) (i32.const -3))
        (then
          (call $usage (i32.const 1200) (i32.const 1) (i32.const 1300))
          (if (i32.load8_u (i32.const 1300)) (then (return (i32.load (i32.const 1304)))))
          (call $with-arrays (i32.const 1312))
          (call $push-infos (i32.const 1304))
          (return (i32.const 0))))
      (call $control (i32.const 1200) (i32.const 1) (i32.const 1128) (i32.const 1) (i32.const 0) (i32.const 0)
        (i32.const 1304))
      (select (i32.load (i32.const 1312)) (i32.const 0) (i32.load8_u (i32.const 1304))))

    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (local $status i32)
      (call $reset)
      (global.set $arrays-len (i32.const 0))
      (loop $again
        (local.set $status (call $once (local.get $code)))
        (local.set $tag (i32.sub (local.get $tag) (i32.const 1)))
        (br_if $again (i32.gt_s (local.get $tag) (i32.const 0))))
      (if (i32.eq (local.get $code) (i32.const -4)) (then unreachable))
      (local.get $status)))
  (core instance $i (instantiate $m (with "libc" (instance $libc)) (with "call" (instance $call))
    (with "own" (instance (export "control" (func $control)) (export "report" (func $report))
      (export "usage" (func $usage))))))
  (;include handler.part;))
