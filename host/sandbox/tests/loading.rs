//! What loads and what does not, and why: roles, grants, unknown imports, bytes that are no component.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail")]
mod support;
use peal_sandbox::{
    Capability, Digest, FailureKind, FormatError, Grants, Limits, LoadError, Module, Role, Tool, inspect,
};
use std::time::Duration;
use support::{component, engine, handle, load, patient};

fn refusal(bytes: &[u8], grants: &Grants) -> LoadError {
    Module::load(engine(), "m", bytes, grants, patient()).unwrap_err()
}

#[test]
fn a_module_needs_no_grant_for_the_call_at_hand() {
    for name in ["noop", "answer"] {
        let module = Module::load(engine(), name, &component(name), &Grants::none(), patient()).unwrap();
        assert!(module.has_role(Role::EventHandler) && !module.has_role(Role::Lifecycle));
        assert_eq!(module.digest(), Digest::of(&component(name)));
    }
}

#[test]
fn a_capability_that_is_not_granted_is_named() {
    let others: Grants = [Capability::Clock, Capability::Notify].into_iter().collect();
    let error = refusal(&component("logging"), &others);
    assert!(matches!(&error, LoadError::NotGranted { interface: Capability::Logging, .. }), "{error}");
    assert!(error.to_string().contains("peal:pmix/logging"), "{error}");
    let granted: Grants = [Capability::Logging].into_iter().collect();
    Module::load(engine(), "m", &component("logging"), &granted, patient()).unwrap();
}

#[test]
fn an_import_that_peal_does_not_offer_is_named_whatever_is_granted() {
    let error = refusal(&component("stranger"), &Grants::all());
    assert!(
        matches!(&error, LoadError::UnknownImport { interface, .. } if interface == "wasi:random/random@0.2.0"),
        "{error}"
    );
    let text = r#"(component (import "peal:pmix/clock@0.9.0" (instance (export "now" (func (result u64))))))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(matches!(&error, LoadError::UnknownImport { interface, .. } if interface == "peal:pmix/clock@0.9.0"));
    let text = r#"(component (import "helper" (func)))"#;
    assert!(matches!(refusal(&wat::parse_str(text).unwrap(), &Grants::all()), LoadError::UnknownImport { .. }));
}

#[test]
fn a_module_without_a_role_is_refused_with_what_it_exports() {
    let text = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) (export "run" (func $f)))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(matches!(&error, LoadError::NoRole { exports, .. } if exports == &["run"]), "{error}");
    assert!(error.to_string().contains("peal:pmix/event-handler"), "{error}");
}

#[test]
fn a_role_of_another_shape_does_not_fit() {
    let text = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) (instance $h (export "handle" (func $f)))
        (export "peal:pmix/event-handler@0.1.0" (instance $h)))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(!error.to_string().is_empty());
    assert!(matches!(error, LoadError::Start { failure, .. } if failure.kind == FailureKind::Unavailable));
    let text = r#"(component (instance $h) (export "peal:pmix/event-handler@0.1.0" (instance $h)))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(matches!(&error, LoadError::Unfit { reason, .. } if reason.contains("handle")), "{error}");
}

#[test]
fn bytes_that_are_no_component_are_called_what_they_are() {
    let format = |bytes: &[u8]| match refusal(bytes, &Grants::all()) {
        LoadError::Format { reason, .. } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(format(&wat::parse_str("(module)").unwrap()), FormatError::CoreModule);
    assert_eq!(format(b"(component)"), FormatError::Text);
    assert_eq!(format(b"  ;; a comment\n(component)"), FormatError::Text);
    assert_eq!(
        format(b"\x7fELF\x02\x01\x01\x00\x00"),
        FormatError::NotWasm { start: b"\x7fELF\x02\x01\x01\x00".to_vec() }
    );
    assert_eq!(format(b""), FormatError::NotWasm { start: Vec::new() });
    let whole = component("noop");
    assert!(matches!(format(&whole[..whole.len() - 10]), FormatError::Damaged { .. }));
}

#[test]
fn no_prefix_and_no_changed_byte_of_a_component_does_harm() {
    let whole = component("answer");
    for end in 0..whole.len() {
        let _ = inspect(&whole[..end]);
    }
    for at in 8..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x41;
        let _ = inspect(&changed);
    }
}

#[test]
fn a_module_that_cannot_start_does_not_load() {
    let starting = |memory: &str, start: &str, limits: Limits| {
        let handler = include_str!("wat/handler.part");
        let text = format!(
            r#"(component
                (core module $m {memory} (func $start {start}) (start $start)
                    (func (export "handle") (param i64 i32 i32 i32 i32) (result i32) unreachable))
                (core instance $i (instantiate $m))
                {handler})"#
        );
        match Module::load(engine(), "m", &wat::parse_str(&text).unwrap(), &Grants::none(), limits) {
            Err(LoadError::Start { failure, .. }) => failure,
            other => panic!("{other:?}"),
        }
    };
    let hasty = Limits { call_time: Duration::from_millis(20), ..Limits::default() };
    let trapped = starting("", "unreachable", patient());
    assert_eq!(trapped.kind, FailureKind::Trapped);
    assert_eq!(trapped.backtrace, ["start"]);
    assert_eq!(starting("", "(loop $again (br $again))", hasty).kind, FailureKind::Timeout);
    assert_eq!(starting("(memory 2000)", "", patient()).kind, FailureKind::Memory);
}

#[test]
fn exports_that_are_no_role_are_listed_and_never_called() {
    let module = load("extra", patient());
    assert_eq!(module.inspection().other_exports, ["other:language/runtime@1.0.0", "run"]);
    assert!(handle(&module, -1).failure.is_none());
}

#[test]
fn inspect_tells_without_running_anything() {
    let bytes = component("extra");
    let found = inspect(&bytes).unwrap();
    assert_eq!(found.size, bytes.len());
    assert_eq!(found.roles.iter().copied().collect::<Vec<_>>(), [Role::EventHandler]);
    assert!(found.capabilities.is_empty() && found.unknown_imports.is_empty());
    let tool = |name: &str, version: &str| Tool { name: name.into(), version: version.into() };
    assert!(found.producers.language.contains(&tool("WAT", "1")));
    assert!(found.producers.sdk.contains(&tool("peal-sdk", "0.1.0")));
    assert!(found.producers.processed_by.contains(&tool("by-hand", "0.1")));

    let json = serde_json::to_value(inspect(&component("managed")).unwrap()).unwrap();
    assert_eq!(json["roles"], serde_json::json!(["event-handler", "lifecycle"]));
    assert_eq!(json["capabilities"], serde_json::json!(["logging"]));
    assert_eq!(json["digest"].as_str().unwrap().len(), 64);

    let stranger = inspect(&component("stranger")).unwrap();
    assert_eq!(stranger.unknown_imports, ["wasi:random/random@0.2.0"]);
}
