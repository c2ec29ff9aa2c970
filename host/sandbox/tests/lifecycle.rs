//! The lifecycle role: init with settings, registrations or a refusal, and stop.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_model::{DataArray, Scope, Status, Value};
use peal_sandbox::{FailureKind, InitError, ModuleLimits, RegistrationLimitError};
use support::{handle, info, load, patient, traced};

fn settings() -> Vec<peal_model::Info> {
    let nested = Value::DataArray(DataArray::infos([info("inner", Value::Int(1))]));
    vec![
        info("threshold", Value::Uint64(3)),
        info("rules", nested),
        info("scope", Value::Scope(Scope::Local)),
    ]
}

#[test]
fn init_returns_registrations_of_module() {
    let module = load("managed", patient());
    let [wish] = &module.init(&settings()).unwrap()[..] else {
        panic!("one registration")
    };
    assert_eq!((wish.tag, wish.name.as_deref()), (7, Some("managed")));
    assert_eq!(wish.codes, [Status(-1), Status(-2)]);
    assert_eq!(
        wish.directives,
        settings(),
        "nested settings are read in init as an event's infos are in handle"
    );
    assert_eq!(
        handle(&module, 0).status,
        Status(11),
        "the instance that was asked stays"
    );
    assert!(matches!(
        module.init(&settings()),
        Err(InitError::Repeated { .. })
    ));
}

#[test]
fn a_module_may_refuse_to_start() {
    let module = load("managed", patient());
    let error = module.init(&[]).unwrap_err();
    assert!(
        matches!(&error, InitError::Refused { reason, .. } if reason == "no settings\\n!"),
        "{error}"
    );
    assert_eq!(
        handle(&module, 0).failure.unwrap().kind,
        FailureKind::Unavailable
    );
    assert!(module.init(&settings()).is_ok(), "it may be asked again");
}

#[test]
fn no_event_comes_before_init() {
    let result = handle(&load("managed", patient()), 0);
    assert_eq!(result.status, Status::PEAL_ERR_MODULE_UNAVAILABLE);
    assert!(result.failure.unwrap().reason.contains("init"));
}

#[test]
fn each_later_instance_gets_the_settings_first() {
    let module = load("managed", patient());
    module.init(&settings()).unwrap();
    assert_eq!(handle(&module, 0).status, Status(11));
    assert!(
        handle(&module, -1).failure.is_some(),
        "that instance is gone"
    );
    assert_eq!(
        handle(&module, 0).status,
        Status(11),
        "init was called in the new one"
    );
    assert_eq!(handle(&module, 0).status, Status(12));
}

#[test]
fn instance_is_stopped_when_no_longer_needed() {
    let module = load(
        "managed",
        ModuleLimits {
            calls_per_instance: 3,
            ..patient()
        },
    );
    module.init(&settings()).unwrap();
    let stopped = |code| traced(|| handle(&module, code)).1.contains("stopped");
    assert!(!stopped(0));
    assert!(stopped(0), "retired after three calls, init among them");

    handle(&module, 0);
    let ((), trace) = traced(|| module.stop());
    assert_eq!(trace.matches("stopped").count(), 1, "{trace}");
    let result = handle(&module, 0);
    assert_eq!(result.status, Status::PEAL_ERR_MODULE_UNAVAILABLE);
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

/// Returns the result of an init that requests a number of registrations, each with a number of
/// codes and a name of a number of such bytes.
fn wishing(
    registrations: u32,
    codes: u32,
    name: u32,
    byte: u8,
    limits: ModuleLimits,
) -> Result<usize, InitError> {
    let numbers = [registrations, codes, name, u32::from(byte)];
    let settings: Vec<_> = numbers
        .into_iter()
        .map(|number| info("number", Value::Uint32(number)))
        .collect();
    load("wishful", limits)
        .init(&settings)
        .map(|wishes| wishes.len())
}

#[test]
fn a_module_cannot_wish_more_than_it_may_have() {
    let refused = |error: InitError| match error {
        InitError::RegistrationLimit { reason, .. } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(wishing(64, 4, 511, b'x', patient()).unwrap(), 64);
    let error = wishing(65, 0, 0, 0, patient()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("65 registrations; the limit is 64"),
        "{error}"
    );
    assert_eq!(
        refused(error),
        RegistrationLimitError::Registrations {
            count: 65,
            limit: 64
        }
    );
    let error = wishing(2, 129, 0, 0, patient()).map_err(refused);
    assert_eq!(
        error,
        Err(RegistrationLimitError::Codes {
            count: 258,
            limit: 256
        })
    );
    let error = wishing(1, 0, 512, b'x', patient()).map_err(refused);
    assert_eq!(
        error,
        Err(RegistrationLimitError::LongName {
            at: 0,
            len: 512,
            limit: 511
        })
    );
    let error = wishing(1, 0, 1, 0x1b, patient()).map_err(refused);
    assert_eq!(
        error,
        Err(RegistrationLimitError::UnplainName {
            at: 0,
            name: r"\u{1b}".into()
        })
    );
}

#[test]
fn requested_registrations_count_as_output() {
    let limits = ModuleLimits {
        output_bytes: 10_000,
        ..patient()
    };
    assert!(wishing(3, 0, 500, b'x', limits).is_ok());
    let error = wishing(40, 0, 500, b'x', limits).unwrap_err();
    assert!(
        matches!(&error, InitError::Failed { failure, .. } if failure.kind == FailureKind::Output),
        "{error}"
    );
}
