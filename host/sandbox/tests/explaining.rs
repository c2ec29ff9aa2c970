//! Exceptions of guests: the text of a guest about its failure is in the failure, in the trace and
//! in the record.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_sandbox::{
    CallEnd, CallFailure, CallRecord, Capability, FailureKind, Grants, Module, ModuleLimits,
    Recorder, Services,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{component, engine, handle, patient, traced};

/// The text of `thrower.wat`, as it may appear in a line.
const TEXT: &str = "ValueError: rank 7\\n2026-01-01 WARN forged\\u{1b}[2J";

fn thrower(limits: ModuleLimits) -> Module {
    Module::load(
        engine(),
        "thrower",
        &component("thrower"),
        &Grants::none(),
        limits,
        Services::default(),
    )
    .unwrap()
}

fn failure(module: &Module, code: i32) -> CallFailure {
    handle(module, code).failure.unwrap()
}

#[test]
fn described_exception_is_the_reason_without_any_grant() {
    let (failed, trace) = traced(|| failure(&thrower(patient()), -1));
    assert_eq!(failed.kind, FailureKind::Trapped);
    assert_eq!(
        failed.to_string(),
        format!("the call failed: {TEXT} (in module.py:12 in handle)")
    );
    assert!(
        trace.contains(TEXT) && trace.contains("backtrace=\"module.py:12 in handle\""),
        "{trace}"
    );
    assert_eq!(
        trace.lines().count(),
        1,
        "no line of the guest's own: {trace}"
    );
}

#[test]
fn exception_without_places_keeps_the_backtrace() {
    let failed = failure(&thrower(patient()), -2);
    assert_eq!(
        (failed.reason, failed.backtrace[0].as_str()),
        (format!("the call failed: {TEXT}"), "stumble")
    );
}

#[test]
fn exception_of_a_returning_call_is_forgotten() {
    let module = thrower(patient());
    assert_eq!(handle(&module, -3).failure, None);
    let failed = failure(&module, -7);
    assert!(
        failed.reason.contains("unreachable") && !failed.reason.contains("ValueError"),
        "{failed}"
    );
}

#[test]
fn exception_before_another_end_follows_it_in_the_reason() {
    let limits = ModuleLimits {
        call_time: Duration::from_millis(100),
        failures: 0,
        ..ModuleLimits::default()
    };
    let late = failure(&thrower(limits), -4);
    assert_eq!(late.kind, FailureKind::Timeout);
    assert!(
        late.reason
            .ends_with(&format!("(limits.call_time_ms); before that: {TEXT}")),
        "{late}"
    );
    let divided = failure(&thrower(patient()), -6);
    assert!(
        divided
            .reason
            .contains("divide by zero; before that: ValueError"),
        "{divided}"
    );
}

#[test]
fn long_exception_is_cut() {
    let failed = failure(&thrower(patient()), -5);
    assert!(
        failed.reason.len() < 4200 && failed.reason.ends_with('…'),
        "{}",
        failed.reason.len()
    );
    assert_eq!(failed.backtrace.len(), 16);
}

#[test]
fn standard_error_of_wasi_explains_a_trap() {
    let grants = [Capability::Wasi].into_iter().collect();
    let module = Module::load(
        engine(),
        "worldly",
        &component("worldly"),
        &grants,
        patient(),
        Services::default(),
    )
    .unwrap();
    let (failed, trace) = traced(|| failure(&module, -3));
    assert_eq!(failed.reason, "the call failed: a line of the worldly");
    assert!(trace.contains("a line of the worldly"), "{trace}");
    let flooded = failure(&module, -4);
    assert!(
        flooded.reason.len() < 4200 && flooded.reason.ends_with("a line of the worldly"),
        "{flooded}"
    );
    assert_eq!(
        handle(&module, 0).failure,
        None,
        "streams that were taken can be had again"
    );
}

#[derive(Default)]
struct Records(Mutex<Vec<CallRecord>>);

impl Recorder for Records {
    fn samples(&self, _instance: u64) -> bool {
        true
    }

    fn record(&self, record: CallRecord) {
        self.0.lock().unwrap().push(record);
    }
}

#[test]
fn record_of_a_failed_call_has_the_exception() {
    let records = Arc::new(Records::default());
    let services = Services {
        recorder: Some(records.clone()),
        ..Services::default()
    };
    let module = Module::load(
        engine(),
        "thrower",
        &component("thrower"),
        &Grants::none(),
        patient(),
        services,
    )
    .unwrap();
    handle(&module, -1);
    let records = records.0.lock().unwrap();
    let last = records.last().unwrap();
    assert_eq!(last.host_calls[0].request.name(), "exception.describe");
    let CallEnd::Failed(failed) = &last.end else {
        panic!("{:?}", last.end)
    };
    assert!(failed.reason.contains(TEXT), "{failed}");
}
