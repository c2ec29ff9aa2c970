//! Tests of retention: records that are dropped without space, records that stay, and how dropped
//! ones are counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;

use peal_audit::{
    AdmissionDenial, AuditEntry, AuditSettings, AuditTrail, CommitResult, CommitThread,
    DecisionEntry, DecisionKind, Finding, SealPublicKey, TrailReport, TrailRetention, TrailSource,
    Verified, export, hash_of, verify,
};
use peal_core::policy::{DecidedBy, DeniedVerdict, Verdict};
use peal_model::{
    ConnectionKind, ConnectionSubject, Info, Key, PeerInfo, PolicyRequest, PolicySubject,
    UserIdentity, Value, code, key,
};
use peal_store::{Filter, Trail};
use rusqlite::Connection;
use std::{
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};
use support::{Place, decide, denied, granted, job_control, request};

/// A small trail, in bytes.
const SMALL: u64 = 1 << 20;
/// The decisions that must stay.
const DECISIONS: u64 = 20;

fn settings(place: &Place) -> AuditSettings {
    AuditSettings {
        max_bytes: SMALL,
        queue: 100_000,
        ..place.settings()
    }
}

fn key_of(place: &Place) -> SealPublicKey {
    std::fs::read_to_string(place.path("audit.key.pub"))
        .unwrap()
        .parse()
        .unwrap()
}

fn verified(place: &Place) -> Verified {
    verify(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &key_of(place),
        &[],
    )
    .unwrap()
}

fn entries(place: &Place) -> Vec<AuditEntry> {
    let rows = TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .last(&Filter::default(), u32::MAX)
        .unwrap();
    rows.iter()
        .map(|row| AuditEntry::read(&row.body).unwrap())
        .collect()
}

/// The decisions that are there, with these numbers.
fn decided(place: &Place, numbers: impl Fn(u64) -> bool) -> Vec<u64> {
    let number = |entry| match entry {
        AuditEntry::Decision(decision) if numbers(decision.request_number) => {
            Some(decision.request_number)
        }
        _ => None,
    };
    entries(place).into_iter().filter_map(number).collect()
}

/// Denials of root's, each between others, and then far more of what may go than there is room for.
fn flooded(place: &Place) {
    let audit = AuditTrail::open(settings(place)).unwrap();
    let junk = || {
        audit.note(AuditEntry::Refused {
            reasons: vec!["x".repeat(1000)],
        })
    };
    for number in 0..DECISIONS {
        decide(&audit, number, &denied());
        junk();
    }
    for _ in 0..6000 {
        junk();
    }
    assert_eq!(audit.failure(), None);
}

fn sql(place: &Place, text: &str) {
    Connection::open(place.path("audit.db"))
        .unwrap()
        .execute_batch(text)
        .unwrap();
}

#[test]
fn decisions_stay_and_dropped_records_are_counted() {
    let place = Place::new();
    flooded(&place);
    assert_eq!(
        decided(&place, |_| true),
        (0..DECISIONS).collect::<Vec<_>>()
    );
    let found = verified(&place);
    assert_eq!(
        (&found.findings[..], found.begins_after),
        (&[][..], 0),
        "{found:?}"
    );
    let gone: u64 = found.dropped.iter().map(|dropped| dropped.count()).sum();
    assert_eq!(found.records + gone, found.last.unwrap(), "{found:?}");
    assert!(
        gone > 4000 && found.dropped[0].to_string().contains(" of kind refused"),
        "{:?}",
        found.dropped
    );
    let told = entries(&place).into_iter().filter_map(|entry| match entry {
        AuditEntry::Dropped(dropped) => Some(dropped.count()),
        _ => None,
    });
    assert_eq!(told.sum::<u64>(), gone, "the records tell the same");
    let report = TrailReport::of(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &Filter::default(),
    )
    .unwrap();
    assert!(
        report.count("dropped") >= 1
            && peal_audit::page(&report, "test", "").contains(" of kind refused")
    );
}

#[test]
fn removed_record_is_distinguished_from_dropped_ones() {
    for (what, edit, wanted) in [
        (
            "a decision",
            "delete from record where seq = 4",
            "record 4 was removed",
        ),
        (
            "another",
            "delete from record where seq between 6 and 8",
            "record 6 was removed",
        ),
        (
            "one altered",
            "update record set outcome = 'granted' where seq = 4",
            "record 4 was altered",
        ),
        (
            "the statement",
            "delete from dropped",
            "record 1 was removed",
        ),
        (
            "a statement of one's own",
            "update dropped set body = x'a0'",
            "is not signed by this key",
        ),
        (
            "one without its signature",
            "update dropped set signature = zeroblob(64)",
            "is not signed by this key",
        ),
    ] {
        let place = Place::new();
        flooded(&place);
        sql(&place, edit);
        let findings = verified(&place).findings;
        let all = format!(
            "{:?}",
            findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        let is_found = findings
            .iter()
            .any(|finding| finding.to_string().contains(wanted))
            || wanted == "record 1 was removed" && matches!(findings[0], Finding::Removed { .. });
        assert!(is_found, "{what}: {all}");
    }
}

#[test]
fn decisions_between_dropped_ones_cannot_be_rewritten() {
    let place = Place::new();
    flooded(&place);
    // The hash of a decision that stays is written anew with it.
    let seq = {
        let trail = Trail::open_to_read(&place.path("audit.db")).unwrap();
        let filter = Filter {
            kinds: vec!["decision".to_owned()],
            ..Filter::default()
        };
        trail.rows(&filter, 10).unwrap()[3].seq
    };
    sql(
        &place,
        &format!("update record set outcome = 'granted' where seq = {seq}"),
    );
    rehash(&place.path("audit.db"), seq, &place);
    let findings = verified(&place).findings;
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, Finding::Rewritten { .. })),
        "{findings:?}"
    );
}

/// Writes the hash of a record anew, from that of the dropped one before.
fn rehash(path: &Path, seq: u64, place: &Place) {
    // As somebody would who has kept the records that were dropped: any hash that fits what follows
    // it will do here.
    let statement = || {
        let trail = Trail::open_to_read(path).unwrap();
        trail.dropped().unwrap()
    };
    let text = statement()
        .iter()
        .map(|rows| peal_audit::readable(&rows.body).unwrap())
        .collect::<Vec<_>>();
    let mut runs = text
        .iter()
        .flat_map(|range| range["runs"].as_array().unwrap().clone());
    let run = runs
        .rfind(|run| run["to"].as_u64() == Some(seq - 1))
        .unwrap();
    let before: peal_sandbox::Digest = run["hash"].as_str().unwrap().parse().unwrap();
    let row = TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .row(seq)
        .unwrap()
        .unwrap();
    let hash = hash_of(&before.0, &row);
    let connection = Connection::open(path).unwrap();
    connection
        .execute(
            "update record set hash = ?1 where seq = ?2",
            (hash.as_slice(), seq as i64),
        )
        .unwrap();
}

#[test]
fn exported_trail_lists_dropped_records() {
    let place = Place::new();
    flooded(&place);
    let mut text = Vec::new();
    export(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &Filter::default(),
        &mut text,
    )
    .unwrap();
    let exported = place.path("trail.jsonl");
    std::fs::write(&exported, &text).unwrap();
    let elsewhere = verify(&TrailSource::open(&exported).unwrap(), &key_of(&place), &[]).unwrap();
    assert_eq!(elsewhere, verified(&place));
}

/// A decision about a request of this user, of some size.
fn decide_for(audit: &AuditTrail, uid: u32, number: u64) -> CommitResult {
    let infos = vec![Info::new(
        Key::new("test.bytes").unwrap(),
        Value::ByteObject(vec![7; 8000].into()),
    )];
    let asked = PolicyRequest {
        identity: Some(UserIdentity { uid, gid: 100 }),
        ..PolicyRequest::clone(&job_control(infos))
    };
    let (tell, told) = mpsc::channel();
    audit.decide(
        DecisionEntry::new(number, Arc::new(asked), &granted()),
        CommitThread::Caller,
        move |safe| tell.send(safe).unwrap(),
    );
    told.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn trail_that_may_drop_nothing_denies_as_on_a_full_disk() {
    let place = Place::new();
    let audit = AuditTrail::open(settings(&place)).unwrap();
    let first_denied = (0..2000).find(|number| decide_for(&audit, 0, *number) == CommitResult::No);
    assert!(
        first_denied.is_some_and(|number| number > 50),
        "{first_denied:?}"
    );
    let failure = audit.failure().unwrap().to_string();
    assert!(
        failure.contains("decisions stay for 7days (audit.decision_days)"),
        "{failure}"
    );
    assert_eq!(decide_for(&audit, 0, 1_000_000), CommitResult::No);
    drop(audit);
    let found = verified(&place);
    assert_eq!(
        (&found.findings[..], found.begins_after),
        (&[][..], 0),
        "no decision went"
    );
    // Where decisions need not stay so long, it goes on.
    let retention = TrailRetention {
        decision_age: Duration::ZERO,
        call_age: Duration::ZERO,
        ..TrailRetention::default()
    };
    let audit = AuditTrail::open(AuditSettings {
        retention,
        ..settings(&place)
    })
    .unwrap();
    assert_eq!(decide_for(&audit, 0, 1_000_001), CommitResult::Yes);
    drop(audit);
    let found = verified(&place);
    assert!(
        found.findings.is_empty() && found.begins_after > 0,
        "{found:?}"
    );
}

#[test]
fn user_filling_room_of_decisions_is_denied_and_others_are_not() {
    let place = Place::new();
    // Large beside the journal, so that there is something left when it is seen that it is full.
    let audit = AuditTrail::open(AuditSettings {
        max_bytes: 8 * SMALL,
        ..settings(&place)
    })
    .unwrap();
    let is_denied = |number: &u64| decide_for(&audit, 1000, *number) == CommitResult::No;
    assert!(
        (0..3000).any(|number| is_denied(&number)),
        "the user may take all of the room"
    );
    assert_eq!(audit.failure(), None, "the trail can be written");
    for uid in [1001, 0] {
        assert_eq!(
            decide_for(&audit, uid, 5000 + u64::from(uid)),
            CommitResult::Yes,
            "user {uid}"
        );
    }
    assert_eq!(decide_for(&audit, 1000, 6000), CommitResult::No);
    let decisions = &audit.used().decisions;
    let own = decisions.by_user()[&1000];
    assert!(
        own.bytes >= decisions.share() && own.refused >= 2,
        "{own:?}"
    );
    let other = decisions.by_user()[&1001];
    assert!(other.bytes > 0 && other.refused == 0, "{other:?}");
    drop(audit);
    assert_eq!(decided(&place, |number| number >= 5000), [6001, 5000]);
    let counted = entries(&place).into_iter().any(|entry| {
        matches!(entry, AuditEntry::Refusals(group) if group.uid == Some(1000) && group.example.cause.as_deref().unwrap().contains("no room"))
    });
    assert!(counted, "what was not recorded is counted");
}

/// Rules by which calls stay for an hour.
fn calls_stay() -> TrailRetention {
    TrailRetention {
        call_age: Duration::from_secs(3600),
        ..TrailRetention::default()
    }
}

#[test]
fn calls_younger_than_their_minimum_age_are_not_dropped() {
    let place = Place::new();
    let audit = AuditTrail::open(AuditSettings {
        retention: calls_stay(),
        ..settings(&place)
    })
    .unwrap();
    let reasons = vec!["x".repeat(1000)];
    // About no user, so that no share ends it before.
    for _ in 0..4000 {
        audit.note(AuditEntry::Refused {
            reasons: reasons.clone(),
        });
    }
    let is_denied = |number| decide_for(&audit, 0, number) == CommitResult::No;
    assert!((100..400).any(is_denied), "there is no end of the room");
    let failure = audit.failure().unwrap().to_string();
    assert!(failure.contains("audit.min_call_age_ms"), "{failure}");
    drop(audit);
    let found = verified(&place);
    assert_eq!((found.dropped.len(), found.begins_after), (0, 0));
    assert!(matches!(entries(&place)[1], AuditEntry::Refused { .. }));
    // Where they need not stay, it goes on.
    let audit = AuditTrail::open(settings(&place)).unwrap();
    for number in 2..20 {
        assert_eq!(decide_for(&audit, 0, number), CommitResult::Yes);
    }
    drop(audit);
    let found = verified(&place);
    assert!(found.findings.is_empty() && !found.dropped.is_empty());
}

#[test]
fn user_filling_room_of_calls_is_left_out_and_others_are_not() {
    let place = Place::new();
    let audit = AuditTrail::open(AuditSettings {
        max_bytes: 8 * SMALL,
        retention: calls_stay(),
        ..settings(&place)
    })
    .unwrap();
    let module = |kind| {
        let services = peal_sandbox::Services::default();
        support::recorded(
            &audit,
            kind,
            &support::component(kind),
            support::limits(),
            services,
        )
    };
    let (handler, policy) = (module("echo"), module("judge"));
    let identity = |uid| Some(UserIdentity { uid, gid: 100 });
    let bytes = || {
        vec![Info::new(
            Key::new("test.bytes").unwrap(),
            Value::ByteObject(vec![7; 8000].into()),
        )]
    };
    let handle = |uid| {
        handler.handle(peal_sandbox::EventCall {
            identity: identity(uid),
            ..support::event(-1, bytes())
        });
    };
    let judge = |uid| {
        let asked = PolicyRequest {
            identity: identity(uid),
            ..PolicyRequest::clone(&job_control(Vec::new()))
        };
        policy.decide(peal_sandbox::PolicyCall {
            number: 1,
            request: Arc::new(asked),
            steps: Arc::default(),
        });
    };
    assert!(
        (0..5000).any(|_| {
            handle(1000);
            audit.health().lost > 0
        }),
        "the user may take all of the room"
    );
    assert_eq!(audit.failure(), None, "the trail can be written");
    // Nothing is decided of whose proof there is no record.
    judge(1000);
    assert_eq!(decide_for(&audit, 1000, 1000), CommitResult::No);
    for uid in [1001, 0] {
        handle(uid);
        judge(uid);
        assert_eq!(
            decide_for(&audit, uid, u64::from(uid)),
            CommitResult::Yes,
            "user {uid}"
        );
    }
    let calls = &audit.used().calls;
    let own = calls.by_user()[&1000];
    assert!(own.bytes >= calls.share() && own.refused > 0, "{own:?}");
    let other = calls.by_user()[&1001];
    assert!(other.bytes > 0 && other.refused == 0, "{other:?}");
    drop((handler, policy, audit));
    // The next run begins with what the trail has.
    let audit = AuditTrail::open(AuditSettings {
        max_bytes: 8 * SMALL,
        retention: calls_stay(),
        ..settings(&place)
    })
    .unwrap();
    assert!(audit.used().calls.by_user()[&1000].bytes > 0);
    drop(audit);
    let found = verified(&place);
    assert_eq!((found.dropped.len(), found.begins_after), (0, 0));
    let mut calls = std::collections::BTreeMap::<_, usize>::new();
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    for row in source.last(&Filter::default(), u32::MAX).unwrap() {
        if row.kind == "call" {
            *calls.entry(row.uid).or_default() += 1;
        }
    }
    let of = |uid| calls.get(&Some(uid)).copied();
    assert_eq!((of(1001), of(0)), (Some(2), Some(2)), "{calls:?}");
    let gaps = entries(&place)
        .into_iter()
        .filter(|entry| matches!(entry, AuditEntry::Gap { calls: Some(_), .. }));
    assert!(gaps.count() > 0, "what was left out is counted");
}

#[test]
fn flood_of_refusals_is_counted_and_costs_few_records() {
    const REFUSALS: u64 = 50_000;
    let place = Place::new();
    let audit = AuditTrail::open(AuditSettings {
        refusal_interval: Duration::from_millis(100),
        ..settings(&place)
    })
    .unwrap();
    for number in 0..REFUSALS {
        audit.refuse(AdmissionDenial {
            uid: Some(1000),
            reason: format!("malformed: {}", "x".repeat(10_000)),
            hook: Some("connection".to_owned()),
            from: Some(format!("127.0.0.1:{number}")),
            cause: Some("malformed handshake".to_owned()),
            ..AdmissionDenial::default()
        });
    }
    drop(audit);
    let found = entries(&place);
    let counts = found.iter().map(|entry| match entry {
        AuditEntry::Denied(denial) => {
            assert!(denial.reason.len() < 400, "{} bytes", denial.reason.len());
            1
        }
        AuditEntry::Refusals(group) => {
            assert!(
                (group.uid, group.first <= group.last) == (Some(1000), true),
                "{group:?}"
            );
            group.count
        }
        _ => 0,
    });
    assert_eq!(counts.sum::<u64>(), REFUSALS);
    let report = TrailReport::of(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &Filter::default(),
    )
    .unwrap();
    assert_eq!(report.timeline.sum().denied, REFUSALS);
    // One in an interval, of which there are as many as the machine takes.
    let bytes: usize = found
        .iter()
        .filter(|entry| matches!(entry, AuditEntry::Refusals(_)))
        .count();
    assert!((bytes as u64) < REFUSALS / 100, "{bytes} records");
}

#[test]
fn infos_of_handshake_are_neither_kept_nor_secrets() {
    const SAID: &str = "what a stranger says";
    let place = Place::new();
    let audit = place.audit();
    let infos = vec![
        Info::new(key::PMIX_CREDENTIAL, Value::string(SAID)),
        Info::new(
            Key::new("test.large").unwrap(),
            Value::string(&SAID.repeat(10_000)),
        ),
    ];
    let connection = PolicySubject::Connection(ConnectionSubject {
        kind: ConnectionKind::Tool,
        peer: PeerInfo {
            pid: Some(1),
            release: "4.2.2".to_owned(),
        },
        infos,
    });
    let reasons = vec![Info::new(
        Key::new("why").unwrap(),
        Value::string(&"no".repeat(10_000)),
    )];
    let by = DecidedBy::Policy("gate".to_owned());
    let no = Verdict::Denied(DeniedVerdict {
        by,
        status: code::PMIX_ERR_NO_PERMISSIONS,
        reasons,
    });
    for (number, verdict) in [(1, &granted()), (2, &no), (3, &no), (4, &no)] {
        let (tell, told) = mpsc::channel();
        let decision = DecisionEntry::new(number, request(connection.clone()), verdict);
        audit.decide(decision, CommitThread::Caller, move |safe| {
            tell.send(safe).unwrap()
        });
        assert_eq!(
            told.recv_timeout(Duration::from_secs(60)),
            Ok(CommitResult::Yes)
        );
    }
    drop(audit);
    let rows = TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .last(&Filter::default(), 100)
        .unwrap();
    for row in &rows {
        assert!(
            row.body.len() < 2000
                && !row
                    .body
                    .windows(SAID.len())
                    .any(|part| part == SAID.as_bytes()),
            "{row:?}"
        );
    }
    let found = entries(&place);
    let decisions: Vec<&DecisionEntry> = found
        .iter()
        .filter_map(|entry| {
            if let AuditEntry::Decision(decision) = entry {
                Some(decision)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        (decisions.len(), decisions[0].verdict),
        (2, DecisionKind::Granted)
    );
    let facts = decisions[1].handshake.as_ref().unwrap();
    assert_eq!(facts.infos[1].key, "test.large");
    assert!(
        facts.infos[1].bytes > 200_000 && facts.others == 0,
        "{facts:?}"
    );
    let again = found
        .iter()
        .any(|entry| matches!(entry, AuditEntry::Refusals(group) if group.count == 2));
    assert!(again, "{found:?}");
}
