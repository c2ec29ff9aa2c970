//! Tests of loading: roles, grants, unknown imports, bytes that are no component.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_declaration::{ModuleDeclaration, add_section};
use peal_sandbox::{
    Capability, Digest, FailureKind, FormatError, Grants, LoadError, MAX_COMPONENT_BYTES, Module,
    ModuleLimits, ProducerTool, Role, Services, inspect,
};
use std::time::Duration;
use support::{component, engine, handle, load, patient};

fn refusal(bytes: &[u8], grants: &Grants) -> LoadError {
    Module::load(engine(), "m", bytes, grants, patient(), Services::default()).unwrap_err()
}

#[test]
fn a_module_needs_no_grant_for_the_call_at_hand() {
    for name in ["noop", "answer"] {
        let module = Module::load(
            engine(),
            name,
            &component(name),
            &Grants::none(),
            patient(),
            Services::default(),
        )
        .unwrap();
        assert!(module.has_role(Role::EventHandler) && !module.has_role(Role::Lifecycle));
        assert_eq!(module.digest(), Digest::of(&component(name)));
    }
}

#[test]
fn a_capability_that_is_not_granted_is_named() {
    let others: Grants = [Capability::Clock, Capability::Notify]
        .into_iter()
        .collect();
    let error = refusal(&component("logging"), &others);
    assert!(
        matches!(
            &error,
            LoadError::NotGranted {
                interface: Capability::Logging,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("peal:pmix/logging"), "{error}");
    let granted: Grants = [Capability::Logging].into_iter().collect();
    Module::load(
        engine(),
        "m",
        &component("logging"),
        &granted,
        patient(),
        Services::default(),
    )
    .unwrap();
}

#[test]
fn each_capability_is_a_grant_and_tenants_get_no_sink_or_state() {
    // imports all three
    let bytes = component("scribe");
    for missing in [Capability::Notify, Capability::Sink, Capability::State] {
        let others: Grants = Capability::ALL
            .into_iter()
            .filter(|capability| *capability != missing)
            .collect();
        let error = refusal(&bytes, &others);
        assert!(
            matches!(&error, LoadError::NotGranted { interface, .. } if *interface == missing),
            "{error}"
        );
    }
    let tenant = Grants::tenant();
    assert!(!tenant.allows(Capability::Sink) && !tenant.allows(Capability::State));
}

#[test]
fn unknown_import_is_named_with_any_grants() {
    let error = refusal(&component("stranger"), &Grants::all());
    assert!(
        matches!(&error, LoadError::UnknownImport { interface, .. } if interface == "wasi:http/types@0.2.0"),
        "{error}"
    );
    let text = r#"(component (import "peal:pmix/clocks@0.1.0" (instance (export "now" (func (result u64))))))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(
        matches!(&error, LoadError::UnknownImport { interface, .. } if interface == "peal:pmix/clocks@0.1.0")
    );
    let text = r#"(component (import "helper" (func)))"#;
    assert!(matches!(
        refusal(&wat::parse_str(text).unwrap(), &Grants::all()),
        LoadError::UnknownImport { .. }
    ));
}

#[test]
fn module_without_role_is_refused_with_its_exports() {
    let text = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) (export "run" (func $f)))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(
        matches!(&error, LoadError::NoRole { exports, .. } if exports == &["run"]),
        "{error}"
    );
    assert!(
        error.to_string().contains("peal:pmix/event-handler"),
        "{error}"
    );
}

#[test]
fn a_role_of_another_shape_does_not_fit() {
    let text = r#"(component (core module $m (func (export "f"))) (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f"))) (instance $h (export "handle" (func $f)))
        (export "peal:pmix/event-handler@0.1.0" (instance $h)))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(!error.to_string().is_empty());
    assert!(
        matches!(error, LoadError::Start { failure, .. } if failure.kind == FailureKind::Unavailable)
    );
    let text =
        r#"(component (instance $h) (export "peal:pmix/event-handler@0.1.0" (instance $h)))"#;
    let error = refusal(&wat::parse_str(text).unwrap(), &Grants::all());
    assert!(
        matches!(&error, LoadError::Unfit { reason, .. } if reason.contains("handle")),
        "{error}"
    );
}

#[test]
fn bytes_other_than_a_component_are_named_by_kind() {
    let format = |bytes: &[u8]| match refusal(bytes, &Grants::all()) {
        LoadError::Format { reason, .. } => reason,
        other => panic!("{other}"),
    };
    assert_eq!(
        format(&wat::parse_str("(module)").unwrap()),
        FormatError::CoreModule
    );
    assert_eq!(format(b"(component)"), FormatError::Text);
    assert_eq!(format(b"  ;; a comment\n(component)"), FormatError::Text);
    assert_eq!(
        format(b"\x7fELF\x02\x01\x01\x00\x00"),
        FormatError::NotWasm {
            start: b"\x7fELF\x02\x01\x01\x00".to_vec()
        }
    );
    assert_eq!(format(b""), FormatError::NotWasm { start: Vec::new() });
    let whole = component("noop");
    assert!(matches!(
        format(&whole[..whole.len() - 10]),
        FormatError::Damaged { .. }
    ));
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
    let starting = |memory: &str, start: &str, limits: ModuleLimits| {
        let handler = include_str!("wat/handler.part");
        let text = format!(
            r#"(component
                (core module $m {memory} (func $start {start}) (start $start)
                    (func (export "handle") (param i64 i32 i32 i32 i32 i32) (result i32) unreachable))
                (core instance $i (instantiate $m))
                {handler})"#
        );
        match Module::load(
            engine(),
            "m",
            &wat::parse_str(&text).unwrap(),
            &Grants::none(),
            limits,
            Services::default(),
        ) {
            Err(LoadError::Start { failure, .. }) => failure,
            other => panic!("{other:?}"),
        }
    };
    let hasty = ModuleLimits {
        call_time: Duration::from_millis(20),
        ..ModuleLimits::default()
    };
    let trapped = starting("", "unreachable", patient());
    assert_eq!(trapped.kind, FailureKind::Trapped);
    assert_eq!(trapped.backtrace, ["start"]);
    assert_eq!(
        starting("", "(loop $again (br $again))", hasty).kind,
        FailureKind::Timeout
    );
    assert_eq!(
        starting("(memory 2000)", "", patient()).kind,
        FailureKind::Memory
    );
}

#[test]
fn exports_that_are_no_role_are_listed_and_never_called() {
    let module = load("extra", patient());
    assert_eq!(
        module.inspection().other_exports,
        ["other:language/runtime@1.0.0", "run"]
    );
    assert!(handle(&module, -1).failure.is_none());
}

#[test]
fn inspect_runs_no_code() {
    let bytes = component("extra");
    let found = inspect(&bytes).unwrap();
    assert_eq!(found.size, bytes.len());
    assert_eq!(
        found.roles.iter().copied().collect::<Vec<_>>(),
        [Role::EventHandler]
    );
    assert!(found.capabilities.is_empty() && found.unknown_imports.is_empty());
    let tool = |name: &str, version: &str| ProducerTool {
        name: name.into(),
        version: version.into(),
    };
    assert!(found.producers.language.contains(&tool("WAT", "1")));
    assert!(found.producers.sdk.contains(&tool("peal-sdk", "0.1.0")));
    assert!(
        found
            .producers
            .processed_by
            .contains(&tool("by-hand", "0.1"))
    );

    let json = serde_json::to_value(inspect(&component("managed")).unwrap()).unwrap();
    assert_eq!(
        json["roles"],
        serde_json::json!(["event-handler", "lifecycle"])
    );
    assert_eq!(json["capabilities"], serde_json::json!(["logging"]));
    assert_eq!(json["digest"].as_str().unwrap().len(), 64);

    let json = serde_json::to_value(inspect(&component("judge")).unwrap()).unwrap();
    assert_eq!(
        json["roles"],
        serde_json::json!([
            "connection-policy",
            "event-policy",
            "job-control-policy",
            "monitor-policy",
            "provision-policy",
            "log-policy",
            "group-policy",
            "spawn-policy"
        ])
    );
    assert_eq!(
        json["capabilities"],
        serde_json::json!(["notify", "sink", "state"])
    );
    let json = serde_json::to_value(inspect(&component("scribe")).unwrap()).unwrap();
    assert_eq!(json["roles"], serde_json::json!(["log-channel"]));

    let stranger = inspect(&component("stranger")).unwrap();
    assert_eq!(stranger.unknown_imports, ["wasi:http/types@0.2.0"]);
}

/// A component that nests `levels` others. Each instantiates the one before it `times` times.
fn bomb(levels: usize, times: usize) -> Vec<u8> {
    let level = |inner: usize| {
        let instances = format!("(instance (instantiate $c{inner}))").repeat(times);
        format!(
            "(component $c{} (alias outer $root $c{inner} (component $c{inner})) {instances})",
            inner + 1
        )
    };
    let nested: String = (0..levels).map(level).collect();
    let text =
        format!("(component $root (component $c0) {nested} (instance (instantiate $c{levels})))");
    wat::parse_str(text).unwrap()
}

#[test]
fn component_expanding_without_bounds_is_refused_uncompiled() {
    let bytes = bomb(30, 2);
    assert!(bytes.len() < 2000, "{} bytes", bytes.len());
    let error = refusal(&bytes, &Grants::all());
    let reason = FormatError::TooMany {
        what: "component instances",
        count: 62,
        limit: 48,
    };
    assert!(
        matches!(&error, LoadError::Format { reason: found, .. } if *found == reason),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("at least 62 component instances; the limit is 48"),
        "{error}"
    );
    assert!(
        inspect(&bomb(48, 1)).is_err(),
        "49 instances, one in the other"
    );
    assert!(inspect(&bomb(47, 1)).is_ok());
    assert!(inspect(&bomb(4, 2)).is_ok(), "31 instances");
}

#[test]
fn a_component_is_made_of_no_more_parts_than_it_may_be() {
    let made_of = |part: &str, times: usize| {
        let text = format!("(component (core module $m) {})", part.repeat(times));
        inspect(&wat::parse_str(text).unwrap()).map(drop)
    };
    let too_many = |what, count| {
        Err(FormatError::TooMany {
            what,
            count,
            limit: 64,
        })
    };
    assert_eq!(made_of("(core instance (instantiate $m))", 64), Ok(()));
    assert_eq!(
        made_of("(core instance (instantiate $m))", 65),
        too_many("core instances", 65)
    );
    assert_eq!(made_of("(core module)", 63), Ok(()));
    assert_eq!(made_of("(core module)", 64), too_many("core modules", 65));
    assert_eq!(made_of("(component)", 64), Ok(()));
    assert_eq!(
        made_of("(component)", 65),
        too_many("nested components", 65)
    );
}

#[test]
fn core_instances_count_as_often_as_they_come_to_be() {
    let text =
        "(component (component $c (core module $m) (core instance (instantiate $m)) (core instance (instantiate $m))
        (core instance (instantiate $m))) (export $again \"c\" (component $c)) INSTANCES)";
    let made = |times| {
        let instances = "(instance (instantiate $again))".repeat(times);
        inspect(&wat::parse_str(text.replace("INSTANCES", &instances)).unwrap()).map(drop)
    };
    assert_eq!(made(21), Ok(()));
    assert_eq!(
        made(22),
        Err(FormatError::TooMany {
            what: "core instances",
            count: 66,
            limit: 64
        })
    );
}

#[test]
fn components_that_are_handed_around_are_refused() {
    let imported = r#"(component (component (import "c" (component))))"#;
    let taken_out = r#"(component (component $c (component $d) (export "d" (component $d)))
        (instance $i (instantiate $c)) (alias export $i "d" (component $d)))"#;
    for text in [imported, taken_out] {
        let error = inspect(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(
            matches!(error, FormatError::HandedComponent { .. }),
            "{error}"
        );
    }
}

#[test]
fn core_modules_that_are_handed_around_are_refused() {
    let imported = r#"(component (component (import "m" (core module))))"#;
    let taken_out = r#"(component (component $c (core module $d) (export "d" (core module $d)))
        (instance $i (instantiate $c)) (alias export $i "d" (core module $d)))"#;
    for text in [imported, taken_out] {
        let error = inspect(&wat::parse_str(text).unwrap()).unwrap_err();
        assert!(matches!(error, FormatError::HandedModule { .. }), "{error}");
    }
}

/// The engine's own data of an instance are not counted as memory, so they are bounded before.
#[test]
fn engine_memory_beside_linear_memory_is_bounded() {
    const LIMIT: u64 = 8 << 20;
    let made_of = |parts: &str, instances: usize| {
        let instances = "(core instance (instantiate $m))".repeat(instances);
        inspect(
            &wat::parse_str(format!("(component (core module $m {parts}) {instances})")).unwrap(),
        )
        .map(drop)
    };
    let segment = |items: usize| format!("(func $f) (elem func {})", "$f ".repeat(items));
    let passive = format!("(elem funcref {})", "(ref.null func)".repeat(100_000));
    for (parts, instances, fits) in [
        (segment(100_000), 1, true),
        (segment(100_000), 2, false),
        (segment(3_000), 50, true),
        (segment(3_000), 64, false),
        (passive.clone(), 0, true),
        (passive, 2, false),
        ("(global i32 (i32.const 0))".repeat(100_000), 1, true),
        ("(global i32 (i32.const 0))".repeat(100_000), 2, false),
        (r#"(import "a" "a" (func))"#.repeat(270_000), 0, true),
    ] {
        match made_of(&parts, instances) {
            Ok(()) => assert!(fits, "{instances} of {}", &parts[..40]),
            Err(FormatError::Bookkeeping { bytes, limit }) => {
                assert!(
                    !fits && bytes > LIMIT && limit == LIMIT,
                    "{instances} of {}: {bytes}",
                    &parts[..40]
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
    // Also where it is instantiated further in, and as often as that comes to be.
    let text = format!(
        "(component $root (core module $m {}) (component $c (alias outer $root $m (core module $n))
         (core instance (instantiate $n))) (instance (instantiate $c)) (instance (instantiate $c)))",
        segment(100_000)
    );
    let error = inspect(&wat::parse_str(text).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("an instance would take at least 9600"),
        "{error}"
    );
    assert!(
        error.ends_with("functions; the limit is 8388608"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let mut bytes = component("noop");
    bytes.resize(MAX_COMPONENT_BYTES + 1, 0);
    assert_eq!(
        inspect(&bytes).unwrap_err(),
        FormatError::TooLarge {
            size: MAX_COMPONENT_BYTES + 1
        }
    );
}

#[test]
fn a_component_has_no_more_memories_and_tables_than_it_may() {
    let starting = |part: &str, times: usize| {
        let text =
            component_text().replace("PARTS", &format!("(core module $p {part})\n").repeat(1));
        let text = text.replace(
            "INSTANCES",
            &"(core instance (instantiate $p))\n".repeat(times),
        );
        Module::load(
            engine(),
            "m",
            &wat::parse_str(text).unwrap(),
            &Grants::none(),
            patient(),
            Services::default(),
        )
        .map(drop)
    };
    for (part, most) in [
        ("(memory 1)", 8),
        ("(table 1 funcref) (table 1 funcref)", 32),
    ] {
        starting(part, most).unwrap();
        let error = starting(part, most + 1).unwrap_err();
        assert!(
            matches!(error, LoadError::Unfit { .. } | LoadError::Start { .. }),
            "{error}"
        );
    }
}

fn component_text() -> String {
    let handler = include_str!("wat/handler.part");
    format!(
        r#"(component PARTS INSTANCES
            (core module $m (func (export "handle") (param i64 i32 i32 i32 i32 i32) (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            {handler})"#
    )
}

#[test]
fn names_from_a_component_are_shown_plainly_and_cut() {
    let exports: String = (0..200)
        .map(|at| format!("(export \"p:q/{}{at}\" (instance $i))", "x".repeat(200)))
        .collect();
    let error = refusal(
        &wat::parse_str(format!("(component (instance $i) {exports})")).unwrap(),
        &Grants::all(),
    );
    assert!(matches!(error, LoadError::NoRole { .. }));
    assert!((1024..1300).contains(&error.to_string().len()), "{error}");
}

#[test]
fn declaration_is_read_once_and_malformed_one_refused() {
    let declaration = ModuleDeclaration {
        name: "noop".to_owned(),
        description: "It does nothing.".to_owned(),
        ..ModuleDeclaration::default()
    };
    let plain = component("noop");
    assert_eq!(inspect(&plain).unwrap().declaration, None);
    let mut declared = plain.clone();
    add_section(&mut declared, &declaration).unwrap();
    let found = inspect(&declared).unwrap();
    assert_eq!(found.declaration.as_ref(), Some(&declaration));
    Module::load(
        engine(),
        "m",
        &declared,
        &Grants::none(),
        patient(),
        Services::default(),
    )
    .unwrap();
    let mut twice = declared.clone();
    add_section(&mut twice, &declaration).unwrap();
    assert_eq!(inspect(&twice), Err(FormatError::Declarations));
    // Text of an author ends no line of a file that is written from it.
    let unsafe_text = ModuleDeclaration {
        description: "first\nsecond".to_owned(),
        ..declaration
    };
    let mut forged = plain;
    add_section(&mut forged, &unsafe_text).unwrap();
    let error = inspect(&forged).unwrap_err().to_string();
    assert!(error.contains("should be one line"), "{error}");
    let late = declared.len() - 1;
    declared[late] = b'!';
    let error = inspect(&declared).unwrap_err().to_string();
    assert!(
        error.contains("invalid declaration of its module"),
        "{error}"
    );
}
