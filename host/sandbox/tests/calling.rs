//! Tests of the data of a handler's call and of its results.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{
    App, Bytes, DataArray, Event, Info, InfoFlags, Range, Scope, Status, Text, Value, code,
    data_type as dt, key,
};
use peal_sandbox::{EventCall, FailureKind, ModuleLimits};
use std::sync::Arc;
use std::thread;
use support::{call, event, handle, info, load, patient, proc, step, traced};

#[test]
fn a_handler_that_does_nothing_returns_its_status() {
    let result = handle(&load("noop", patient()), -1);
    assert_eq!(result.status, Status(-331));
    assert!(result.infos.is_empty() && result.notifications.is_empty() && result.failure.is_none());
}

#[test]
fn a_handler_reads_an_info_and_pushes_a_result() {
    let module = load("answer", patient());
    // a repeated key means the last
    let infos = vec![
        info("test.question", Value::Uint64(1)),
        info("test.question", Value::Uint64(41)),
    ];
    let result = module.handle(call(event(-1, infos)));
    assert_eq!(result.status, code::PMIX_EVENT_PARTIAL_ACTION_TAKEN);
    let mut answer = info("test.answer", Value::Uint64(42));
    answer.flags = InfoFlags::REQUIRED;
    assert_eq!(result.infos, [answer]);
    assert_eq!(
        handle(&module, -1).status,
        code::PMIX_EVENT_NO_ACTION_TAKEN,
        "nothing is left from the call before"
    );
}

fn array(element: peal_model::DataType, items: Vec<Value>) -> Value {
    Value::DataArray(DataArray::new(element, items).unwrap())
}

fn latin1() -> Value {
    Value::String(Some(Text::from_bytes(b"gr\xfc\xdfe")))
}

fn every_kind() -> Vec<Info> {
    let app = App {
        command: Some(Text::from("./app")),
        args: vec![Some(Text::from("app")), None],
        env: Vec::new(),
        cwd: None,
        max_procs: 2,
        infos: vec![info("test.inner", Value::Int(1))],
    };
    let inner = Value::DataArray(DataArray::infos([info(
        "test.deep",
        Value::string("down here"),
    )]));
    let values = [
        Value::Undef,
        Value::Bool(true),
        Value::Byte(200),
        Value::string("grüße"),
        Value::Size(u64::MAX),
        Value::Pid(4711),
        Value::Int(-5),
        Value::Int8(-128),
        Value::Int16(-30000),
        Value::Int32(i32::MIN),
        Value::Int64(i64::MIN),
        Value::Uint(u32::MAX),
        Value::Uint8(255),
        Value::Uint16(65535),
        Value::Uint32(7),
        Value::Uint64(1 << 40),
        Value::Float(1.5),
        Value::Double(-2.25),
        Value::Timeval {
            seconds: -1,
            microseconds: 999_999,
        },
        Value::Time(1_700_000_000),
        Value::Status(Status(-101)),
        Value::Proc(proc("job", 3)),
        Value::Nspace(peal_model::Nspace::new("job").unwrap()),
        Value::Rank(peal_model::rank::PMIX_RANK_WILDCARD),
        Value::Range(Range::Custom),
        Value::ByteObject(Bytes::from(&[0_u8, 255][..])),
        // without a shape of their own
        Value::App(Box::new(app)),
        Value::Scope(Scope::Global),
        Value::Info(Box::new(info("test.boxed", Value::Bool(false)))),
        latin1(),
        // nested
        Value::procs([proc("job", 0), proc("other", 1)]),
        Value::DataArray(DataArray::infos([
            info("test.a", inner.clone()),
            info("test.b", Value::Scope(Scope::Local)),
        ])),
        array(dt::PMIX_DATA_ARRAY, vec![inner.clone(), inner]),
        array(
            dt::PMIX_STRING,
            vec![Value::string("one"), Value::string("two")],
        ),
        array(dt::PMIX_SCOPE, vec![Value::Scope(Scope::Remote)]),
        array(
            dt::PMIX_STRING,
            vec![Value::String(None), Value::string("after a NULL"), latin1()],
        ),
        array(dt::PMIX_STRING, vec![Value::String(None)]),
        // empty ones keep their type
        Value::DataArray(DataArray::procs([])),
        Value::DataArray(DataArray::infos([])),
        array(dt::PMIX_UINT64, Vec::new()),
        array(dt::PMIX_UNDEF, Vec::new()),
        array(
            dt::PMIX_DATA_ARRAY,
            vec![array(dt::PMIX_STRING, Vec::new())],
        ),
        (1..15).fold(array(dt::PMIX_INT, vec![Value::Int(1)]), |inner, _| {
            array(dt::PMIX_DATA_ARRAY, vec![inner])
        }),
    ];
    values
        .into_iter()
        .enumerate()
        .map(|(at, value)| info(&format!("test.{at}"), value))
        .collect()
}

#[test]
fn every_kind_of_value_goes_in_and_comes_out_unharmed() {
    let infos = every_kind();
    let result = load("echo", patient()).handle(call(event(-1, infos.clone())));
    assert_eq!(result.failure, None);
    for (got, sent) in result.infos.iter().zip(&infos) {
        assert_eq!(got, sent);
    }
    assert_eq!(
        (result.status, result.infos.len()),
        (Status(43), infos.len())
    );
}

#[test]
fn values_without_counterpart_are_shown_as_contract_defines() {
    let mut flagged = info("test.flags", Value::String(None));
    flagged.flags = InfoFlags(0b11111 | 1 << 20);
    let result = load("echo", patient()).handle(call(event(-1, vec![flagged])));
    assert_eq!(result.infos[0].value, Value::Undef, "a NULL string");
    assert_eq!(
        result.infos[0].flags,
        InfoFlags(0b11111),
        "unknown flags are not shown"
    );
}

#[test]
fn a_handler_sees_targets_source_and_credentials() {
    let module = load("echo", patient());
    let targets = Value::procs([proc("job", 0), proc("job", 1)]);
    let result = module.handle(call(event(
        -2,
        vec![Info::new(key::PMIX_EVENT_CUSTOM_RANGE, targets.clone())],
    )));
    assert_eq!(result.infos, [info("test.echo", targets)]);

    let source = Some(proc("job", 7));
    let event = Event {
        code: Status(-4),
        source,
        range: Range::Local,
        infos: Vec::new(),
    };
    let mut call = call(event);
    call.identity = Some(peal_model::UserIdentity {
        uid: 1000,
        gid: 100,
    });
    let values: Vec<Value> = module
        .handle(call)
        .infos
        .into_iter()
        .map(|info| info.value)
        .collect();
    assert_eq!(
        values,
        [
            Value::Proc(proc("job", 7)),
            Value::Uint32(1000),
            Value::Uint32(100)
        ]
    );
    assert!(
        handle(&module, -4).infos.is_empty(),
        "the resource manager has neither"
    );
}

#[test]
fn a_handler_sees_the_steps_before_it() {
    let module = load("echo", patient());
    let nested = Value::DataArray(DataArray::infos([info(
        "test.deep",
        Value::Scope(Scope::Local),
    )]));
    let mut call = call(event(-3, Vec::new()));
    Arc::make_mut(&mut call.steps).push(step("first", -331, Vec::new()));
    Arc::make_mut(&mut call.steps).push(step(
        "",
        -1_000_001,
        vec![info("test.pushed", nested.clone())],
    ));
    let result = module.handle(call.clone());
    let values: Vec<Value> = result.infos.into_iter().map(|info| info.value).collect();
    let status = |code| Value::Status(Status(code));
    assert_eq!(
        values,
        [
            Value::string("first"),
            status(-331),
            Value::string(""),
            status(-1_000_001),
            nested
        ]
    );
    assert_eq!(result.status, Status(2));
    assert_eq!(
        Arc::strong_count(&call.steps),
        1,
        "the sandbox keeps nothing of the call"
    );
    assert_eq!(Arc::strong_count(&call.event), 1);
}

#[test]
fn impossible_value_is_a_failure_with_the_reason() {
    let module = load("echo", patient());
    for (code, kind, reason) in [
        (-5, FailureKind::Trapped, "array 77"),
        (-6, FailureKind::Trapped, "value 77"),
        (-7, FailureKind::Trapped, "mixed types"),
        (-10, FailureKind::Trapped, "array 0"),
        (-8, FailureKind::Output, "nested more than"),
    ] {
        let result = module.handle(call(event(code, every_kind())));
        let failure = result.failure.unwrap();
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.reason.contains(reason), "{failure}");
        assert!(result.infos.is_empty());
    }
}

#[test]
fn an_array_within_arrays_counts_as_often_as_it_is_there() {
    // ten levels of two each are over a thousand arrays, made of ten
    let limits = |output| ModuleLimits {
        output_bytes: output,
        ..patient()
    };
    let failure = load("echo", limits(20_000))
        .handle(call(event(-9, Vec::new())))
        .failure
        .unwrap();
    assert_eq!(failure.kind, FailureKind::Output, "{failure}");
    assert_eq!(
        load("echo", limits(1_000_000))
            .handle(call(event(-9, Vec::new())))
            .failure,
        None
    );
}

#[test]
fn all_infos_are_one_host_call_at_any_depth() {
    // Reading is one call and pushing each info is one; with none left over, nothing else can have
    // been asked.
    let infos = every_kind();
    let host_calls = u32::try_from(infos.len()).unwrap() + 1;
    let result = load(
        "echo",
        ModuleLimits {
            host_calls,
            ..patient()
        },
    )
    .handle(call(event(-1, infos.clone())));
    assert_eq!(result.failure, None);
    assert_eq!(result.infos, infos);
}

#[test]
fn a_value_is_found_with_its_arrays() {
    let nested = Value::DataArray(DataArray::infos([info(
        "test.deep",
        Value::procs([proc("job", 1)]),
    )]));
    let infos = vec![
        info("test.other", nested.clone()),
        info("test.echo", nested.clone()),
    ];
    let result = load("echo", patient()).handle(call(event(-11, infos)));
    assert_eq!(
        result.infos,
        [info("test.echo", nested)],
        "{:?}",
        result.failure
    );
}

#[test]
fn handler_gets_the_tag_of_its_registration() {
    let call = EventCall {
        tag: 77,
        ..call(event(-12, Vec::new()))
    };
    assert_eq!(load("echo", patient()).handle(call).status, Status(77));
}

/// Call for which the guest does something this many times.
fn times(tag: u32, event: Event) -> EventCall {
    EventCall { tag, ..call(event) }
}

#[test]
fn notify_is_queued_until_the_handler_has_returned() {
    let module = load("notify", patient());
    let result = module.handle(times(2, event(-2, Vec::new())));
    assert_eq!(result.status, Status(0));
    let [first, second] = &result.notifications[..] else {
        panic!("{result:?}")
    };
    assert!(first.request < second.request);
    assert_eq!((first.code, first.range), (Status(-4000), Range::Session));
    assert_eq!(first.infos, [info("test.info", Value::Bool(true))]);

    let trapped = handle(&module, -1);
    assert!(
        trapped.failure.is_some() && trapped.notifications.is_empty(),
        "a failed handler raises nothing"
    );

    let local = Event {
        range: Range::ProcLocal,
        ..event(-2, Vec::new())
    };
    let refused = module.handle(call(local));
    assert_eq!(refused.status, code::PMIX_ERR_BAD_PARAM);
    assert!(refused.notifications.is_empty());
}

#[test]
fn a_call_raises_no_more_events_than_it_may() {
    let module = load(
        "notify",
        ModuleLimits {
            raised_events: 3,
            ..patient()
        },
    );
    let result = module.handle(times(3, event(-2, Vec::new())));
    assert_eq!((result.status, result.notifications.len()), (Status(0), 3));
    let result = module.handle(times(4, event(-2, Vec::new())));
    assert_eq!(
        result.status,
        code::PMIX_ERR_OUT_OF_RESOURCE,
        "the fourth is refused"
    );
    assert_eq!(
        (result.failure, result.notifications.len()),
        (None, 3),
        "and the others are raised"
    );
}

#[test]
fn logging_goes_to_the_trace_and_cannot_forge_lines() {
    let module = load("logging", patient());
    for (range, level) in [
        (Range::Undef, "ERROR"),
        (Range::Rm, "WARN"),
        (Range::Local, "INFO"),
        (Range::Session, "TRACE"),
    ] {
        let (result, trace) = traced(|| {
            module.handle(call(Event {
                range,
                ..event(-1, Vec::new())
            }))
        });
        assert_eq!(result.failure, None);
        assert_eq!(trace.lines().count(), 1, "{trace}");
        assert!(
            trace.contains(level)
                && trace.contains("peal::guest")
                && trace.contains("module=\"logging\""),
            "{trace}"
        );
        assert!(trace.contains(r"one\nERROR two\u{1b}[31m"), "{trace}");
    }
}

#[test]
fn a_flood_of_messages_is_cut() {
    let module = load("logging", patient());
    let (result, trace) = traced(|| module.handle(times(4900, event(-1, Vec::new()))));
    assert_eq!(result.failure, None, "the guest is none the wiser");
    let lines = trace.lines().count();
    assert!((100..4000).contains(&lines), "{lines} lines");
    let other = load("logging", patient());
    let ((), trace) = traced(|| drop(handle(&other, -1)));
    assert_eq!(
        trace.lines().count(),
        1,
        "another module has its own allowance"
    );
}

#[test]
fn clock_does_not_advance_during_a_call() {
    assert_eq!(handle(&load("clock", patient()), -1).status, Status(1));
}

#[test]
fn threads_share_a_module() {
    let module = load("answer", patient());
    thread::scope(|scope| {
        for n in 0..4_u64 {
            let module = &module;
            scope.spawn(move || {
                for m in 0..50 {
                    let question = n * 1000 + m;
                    let call: EventCall = call(event(
                        -1,
                        vec![info("test.question", Value::Uint64(question))],
                    ));
                    assert_eq!(
                        module.handle(call.clone()).infos[0].value,
                        Value::Uint64(question + 1)
                    );
                }
            });
        }
    });
}
