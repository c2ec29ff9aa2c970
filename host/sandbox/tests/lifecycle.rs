//! The lifecycle role: init with settings, registrations or a refusal, and stop.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]
mod support;
use peal_model::{DataArray, Status, Value};
use peal_sandbox::{FailureKind, InitError, Limits};
use support::{handle, info, load, patient, traced};

fn settings() -> Vec<peal_model::Info> {
    let nested = Value::DataArray(DataArray::infos([info("inner", Value::Int(1))]));
    vec![info("threshold", Value::Uint64(3)), info("rules", nested)]
}

#[test]
fn init_returns_what_the_module_wishes_to_register() {
    let module = load("managed", patient());
    let [wish] = &module.init(&settings()).unwrap()[..] else { panic!("one registration") };
    assert_eq!(wish.name.as_deref(), Some("managed"));
    assert_eq!(wish.codes, [Status(-1), Status(-2)]);
    assert_eq!(wish.directives, settings(), "nested settings are read in init as an event's infos are in handle");
    assert_eq!(handle(&module, 0).status, Status(11), "the instance that was asked stays");
    assert!(matches!(module.init(&settings()), Err(InitError::Repeated { .. })));
}

#[test]
fn a_module_may_refuse_to_start() {
    let module = load("managed", patient());
    let error = module.init(&[]).unwrap_err();
    assert!(matches!(&error, InitError::Refused { reason, .. } if reason == "no settings\\n!"), "{error}");
    assert_eq!(handle(&module, 0).failure.unwrap().kind, FailureKind::Unavailable);
    assert!(module.init(&settings()).is_ok(), "it may be asked again");
}

#[test]
fn no_event_comes_before_init() {
    let result = handle(&load("managed", patient()), 0);
    assert_eq!(result.status, Status::PEAL_ERR_HANDLER_UNAVAILABLE);
    assert!(result.failure.unwrap().reason.contains("init"));
}

#[test]
fn each_later_instance_gets_the_settings_first() {
    let module = load("managed", patient());
    module.init(&settings()).unwrap();
    assert_eq!(handle(&module, 0).status, Status(11));
    assert!(handle(&module, -1).failure.is_some(), "that instance is gone");
    assert_eq!(handle(&module, 0).status, Status(11), "init was called in the new one");
    assert_eq!(handle(&module, 0).status, Status(12));
}

#[test]
fn an_instance_is_told_when_it_is_no_longer_needed() {
    let module = load("managed", Limits { max_calls: 3, ..patient() });
    module.init(&settings()).unwrap();
    let stopped = |code| traced(|| handle(&module, code)).1.contains("stopped");
    assert!(!stopped(0));
    assert!(stopped(0), "retired after three calls, init among them");

    handle(&module, 0);
    let ((), trace) = traced(|| module.stop());
    assert_eq!(trace.matches("stopped").count(), 1, "{trace}");
    let result = handle(&module, 0);
    assert_eq!(result.status, Status::PEAL_ERR_HANDLER_UNAVAILABLE);
    assert!(result.failure.unwrap().reason.contains("stopped"));
}

#[test]
fn an_instance_that_was_never_used_is_not_stopped() {
    let module = load("managed", patient());
    let ((), trace) = traced(|| module.stop());
    assert!(!trace.contains("stopped"), "{trace}");
}

#[test]
fn a_module_without_the_role_wishes_nothing() {
    let module = load("noop", patient());
    assert!(module.init(&settings()).unwrap().is_empty());
    assert!(handle(&module, 0).failure.is_none());
}
