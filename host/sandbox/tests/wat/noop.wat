;; The smallest event-handler: imports nothing, looks at nothing, returns PMIX_EVENT_NO_ACTION_TAKEN.
(component
  (core module $m
    (func (export "handle") (param $registration i64) (param $tag i32) (param $code i32) (param $range i32) (param $infos i32)
      (param $steps i32) (result i32)
      (i32.const -331)))
  (core instance $i (instantiate $m))
  (;include handler.part;))
