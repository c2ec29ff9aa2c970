//! Recorded entries, and failures to record them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_audit::{
    AuditEntry, AuditSettings, AuditTrail, CommitResult, CommitThread, DecisionEntry, DecisionKind,
    GapReason, TrailSource,
};
use peal_core::choice::RecordFailurePolicy;
use peal_model::{DataArray, Info, Key, Value, key};
use peal_sandbox::{CallRecord, HostCallRequest, ModuleLimits, PolicyCall, Services};
use peal_store::{Filter, TrailRow};
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use support::{Place, component, decide, denied, event, granted, job_control, limits, recorded};

fn rows(place: &Place) -> Vec<TrailRow> {
    TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .last(&Filter::default(), 100_000)
        .unwrap()
}

fn entries(place: &Place) -> Vec<AuditEntry> {
    rows(place)
        .iter()
        .map(|row| AuditEntry::read(&row.body).unwrap())
        .collect()
}

fn calls(place: &Place) -> Vec<CallRecord> {
    let call = |entry| {
        if let AuditEntry::Call(call) = entry {
            Some(call.record)
        } else {
            None
        }
    };
    entries(place).into_iter().filter_map(call).collect()
}

fn info(key: &str, value: Value) -> Info {
    Info::new(Key::new(key).unwrap(), value)
}

#[test]
fn a_call_is_recorded_with_all_that_one_looks_for() {
    let place = Place::new();
    let audit = place.audit();
    let module = recorded(
        &audit,
        "echo",
        &component("echo"),
        limits(),
        Services::default(),
    );
    let wanted = event(
        -1,
        vec![
            info("test.a", Value::Uint64(u64::MAX)),
            info("test.b", Value::Double(f64::NAN)),
        ],
    );
    let result = module.handle(wanted.clone());
    assert_eq!(result.failure, None);
    drop((module, audit));
    let found = rows(&place);
    let kinds: Vec<&str> = found.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["began", "call", "call", "ended"],
        "the start of its instance, then the call"
    );
    let row = &found[2];
    assert_eq!(
        (row.module.as_deref(), row.job.as_deref(), row.uid),
        (Some("echo"), Some("job"), Some(1000))
    );
    assert!(row.body.len() < 1024, "{} bytes", row.body.len());
    let records = calls(&place);
    assert_eq!(
        (records[0].number, records[1].number, records[0].instance),
        (0, 1, records[1].instance)
    );
    let peal_sandbox::CallSubject::Event(call) = &records[1].subject else {
        panic!("{records:?}")
    };
    assert_eq!(
        (call.registration, call.event.infos[0].value.clone()),
        (1, Value::Uint64(u64::MAX))
    );
    assert!(matches!(call.event.infos[1].value, Value::Double(number) if number.is_nan()));
    assert!(
        records[1]
            .host_calls
            .iter()
            .any(|call| call.request == HostCallRequest::Infos),
        "{records:?}"
    );
    assert!(records[1].usage.fuel.unwrap() > 0);
}

#[test]
fn a_small_call_takes_a_kibibyte_of_the_database_at_most() {
    let place = Place::new();
    let made = 5000;
    let size_after = |calls: u64| {
        let audit = AuditTrail::open(AuditSettings {
            queue: 100_000,
            checkpoint_records: 1000,
            ..place.settings()
        })
        .unwrap();
        let module = recorded(
            &audit,
            "echo",
            &component("echo"),
            limits(),
            Services::default(),
        );
        for _ in 0..calls {
            let infos = vec![
                info("test.a", Value::Uint64(7)),
                info("test.b", Value::string("small")),
            ];
            assert_eq!(module.handle(event(-1, infos)).failure, None);
        }
        assert_eq!(audit.health().lost, 0);
        drop((module, audit));
        // The last one who closes it leaves all of it in one file.
        assert!(!place.path("audit.db-wal").exists());
        place.path("audit.db").metadata().unwrap().len()
    };
    // The component and the beginning are there already.
    let before = size_after(1);
    let each = (size_after(made) - before) / made;
    assert!(each <= 1024, "{each} bytes for each call");
}

#[test]
fn secrets_carried_by_guests_are_nowhere_in_database() {
    const SECRET: &str = "correct horse battery staple";
    let place = Place::new();
    let audit = place.audit();
    let module = recorded(
        &audit,
        "echo",
        &component("echo"),
        limits(),
        Services::default(),
    );
    let credential = || Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET));
    let nested = DataArray::infos([Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET))]);
    for infos in [
        vec![Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET))],
        vec![info("test.nested", Value::DataArray(nested))],
        // Under another name, within something longer.
        vec![
            credential(),
            info("test.other", Value::string(&format!("it is {SECRET}!"))),
        ],
        vec![
            info("test.bytes", Value::ByteObject(SECRET.as_bytes().into())),
            credential(),
        ],
    ] {
        assert_eq!(module.handle(event(-1, infos)).failure, None);
    }
    let carried = job_control(vec![Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET))]);
    let (tell, told) = mpsc::channel();
    audit.decide(
        DecisionEntry::new(1, carried, &granted()),
        CommitThread::Thread,
        move |safe| tell.send(safe).unwrap(),
    );
    assert_eq!(
        told.recv_timeout(Duration::from_secs(60)),
        Ok(CommitResult::Yes)
    );
    drop((module, audit));
    for file in std::fs::read_dir(place.0.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(
            !bytes
                .windows(SECRET.len())
                .any(|window| window == SECRET.as_bytes()),
            "{}",
            path.display()
        );
    }
    let text = format!("{:?}", calls(&place));
    assert!(text.matches("secret:").count() >= 6, "{text}");
}

#[test]
fn a_run_that_does_not_end_leaves_a_gap() {
    let place = Place::new();
    let audit = place.audit();
    decide(&audit, 1, &granted());
    let copy = place.as_if_killed();
    drop(audit);
    drop(copy.audit());
    let found = entries(&copy);
    assert!(
        matches!(
            found[2],
            AuditEntry::Gap {
                calls: None,
                reason: GapReason::Crash
            }
        ),
        "{found:?}"
    );
    assert!(
        matches!(
            (&found[3], &found[4]),
            (AuditEntry::Began { .. }, AuditEntry::Ended)
        ),
        "{found:?}"
    );
    assert!(
        !entries(&place)
            .iter()
            .any(|entry| matches!(entry, AuditEntry::Gap { .. })),
        "this one ended in good order"
    );
}

/// In a database that is too small for the component, calls of its module cannot be recorded.
fn too_small(place: &Place, on_failure: RecordFailurePolicy) -> (AuditTrail, peal_sandbox::Module) {
    let audit = AuditTrail::open(AuditSettings {
        max_bytes: 1 << 17,
        on_failure,
        ..place.settings()
    })
    .unwrap();
    // A custom section makes it large.
    let mut bytes = component("judge");
    let padding = vec![0; 1 << 20];
    bytes.push(0);
    let mut size = (padding.len() + 2) as u32;
    loop {
        let rest = size >> 7;
        bytes.push(if rest > 0 {
            (size & 0x7f) as u8 | 0x80
        } else {
            size as u8
        });
        size = rest;
        if size == 0 {
            break;
        }
    }
    bytes.extend([1, b'x']);
    bytes.extend(padding);
    let module = recorded(&audit, "judge", &bytes, limits(), Services::default());
    (audit, module)
}

#[test]
fn unrecordable_decision_is_denied_or_traced_as_configured() {
    for (on_failure, safe) in [
        (RecordFailurePolicy::Deny, CommitResult::No),
        (RecordFailurePolicy::Continue, CommitResult::Yes),
    ] {
        let place = Place::new();
        let (audit, module) = too_small(&place, on_failure);
        let call = PolicyCall {
            number: 1,
            request: job_control(Vec::new()),
            steps: Arc::default(),
        };
        module.decide(call);
        // The decision itself could be recorded; that a policy was called could not.
        assert_eq!(decide(&audit, 1, &granted()), safe, "{on_failure:?}");
        // Whether it was this one's call that is missing need not be known at once.
        decide(&audit, 2, &granted());
        assert_eq!(
            decide(&audit, 3, &granted()),
            CommitResult::Yes,
            "{on_failure:?}: no call is missing for this one"
        );
        assert!(audit.health().lost >= 1, "{:?}", audit.health());
        drop((module, audit));
        let found = entries(&place);
        let gap = found.iter().any(|entry| {
            matches!(
                entry,
                AuditEntry::Gap {
                    calls: Some(1..),
                    reason: GapReason::NotWritten
                }
            )
        });
        assert!(gap, "{found:?}");
        let rulings: Vec<bool> = found
            .iter()
            .filter_map(|entry| {
                if let AuditEntry::Decision(decision) = entry {
                    Some(decision.verdict)
                } else {
                    None
                }
            })
            .map(|ruling| ruling == DecisionKind::Granted)
            .collect();
        assert_eq!(rulings.last(), Some(&true));
        // One whose write failed as a whole is not there at all.
        let as_told = rulings.iter().filter(|granted| !**granted).count();
        assert!(
            on_failure == RecordFailurePolicy::Continue || as_told <= 2,
            "{rulings:?}"
        );
    }
}

#[test]
fn calls_without_room_are_counted_at_their_gap() {
    let place = Place::new();
    let audit = AuditTrail::open(AuditSettings {
        queue: 1,
        ..place.settings()
    })
    .unwrap();
    let module = recorded(
        &audit,
        "echo",
        &component("echo"),
        limits(),
        Services::default(),
    );
    let big = || vec![info("test.big", Value::ByteObject(vec![7; 20_000].into()))];
    let made = 400;
    for _ in 0..made {
        assert_eq!(module.handle(event(-1, big())).failure, None);
    }
    decide(&audit, 1, &denied());
    drop((module, audit));
    let missing: u64 = entries(&place)
        .iter()
        .filter_map(|entry| match entry {
            AuditEntry::Gap {
                calls,
                reason: GapReason::Overload,
            } => *calls,
            _ => None,
        })
        .sum();
    // The start of the instance is a call as well.
    assert_eq!(calls(&place).len() as u64 + missing, made + 1);
    assert!(missing > 0);
}

#[test]
fn handler_instances_are_sampled_and_policy_instances_all_kept() {
    let place = Place::new();
    let audit = AuditTrail::open(AuditSettings {
        handlers: 4.try_into().unwrap(),
        ..place.settings()
    })
    .unwrap();
    let limits = ModuleLimits {
        calls_per_instance: 3,
        ..limits()
    };
    let handler = recorded(
        &audit,
        "echo",
        &component("echo"),
        limits,
        Services::default(),
    );
    let policy = recorded(
        &audit,
        "judge",
        &component("judge"),
        limits,
        Services::default(),
    );
    for number in 1..=240 {
        assert_eq!(handler.handle(event(-1, Vec::new())).failure, None);
        let asked = job_control(Vec::new());
        policy.decide(PolicyCall {
            number,
            request: asked,
            steps: Arc::default(),
        });
    }
    drop((handler, policy, audit));
    let (mut handlers, mut policies): (BTreeMap<u64, Vec<u64>>, u64) = Default::default();
    for row in rows(&place) {
        let AuditEntry::Call(call) = AuditEntry::read(&row.body).unwrap() else {
            continue;
        };
        let record = &call.record;
        match row.module.as_deref() {
            Some("echo") => handlers
                .entry(record.instance)
                .or_default()
                .push(record.number),
            _ => policies += u64::from(record.number > 0),
        }
    }
    assert_eq!(policies, 240);
    // 80 instances served the handler.
    assert!((10..40).contains(&handlers.len()), "{}", handlers.len());
    assert!(
        handlers.values().all(|numbers| *numbers == [0, 1, 2, 3]),
        "{handlers:?}"
    );
}
