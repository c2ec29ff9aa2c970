//! Edits to the database: each kind is found and named, and unchanged records are not reported.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
mod support;
use peal_audit::{Finding, Keys, SealPublicKey, Statement, TrailSource, Verified, hash_of, verify};
use peal_store::{Filter, Trail};
use rusqlite::Connection;
use std::path::Path;
use support::{Place, decide, granted, run};

fn key(place: &Place) -> SealPublicKey {
    std::fs::read_to_string(place.path("audit.key.pub"))
        .unwrap()
        .parse()
        .unwrap()
}

fn verified(place: &Place, elsewhere: &[Statement]) -> Verified {
    verify(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &key(place),
        elsewhere,
    )
    .unwrap()
}

fn checkpoints(place: &Place) -> Vec<Statement> {
    let text = std::fs::read_to_string(place.path("checkpoints")).unwrap();
    // As syslog would have it.
    text.lines()
        .map(|line| {
            format!("Nov 22 10:00:00 node peal: {line}")
                .parse()
                .unwrap()
        })
        .collect()
}

fn sql(path: &Path, text: &str) {
    Connection::open(path).unwrap().execute_batch(text).unwrap();
}

/// Writes all hashes anew, as an attacker can.
fn rehash(path: &Path) {
    let rows = {
        let trail = Trail::open_to_read(path).unwrap();
        trail.rows(&Filter::default(), 10_000).unwrap()
    };
    let connection = Connection::open(path).unwrap();
    let mut hash = [0; 32];
    for row in rows {
        hash = hash_of(&hash, &row);
        connection
            .execute(
                "update record set hash = ?1 where seq = ?2",
                (hash.as_slice(), row.seq as i64),
            )
            .unwrap();
    }
    connection
        .execute(
            "update seal set hash = ?1 where kind = 'head'",
            [hash.as_slice()],
        )
        .unwrap();
}

/// A change, the first finding, and its record.
const EDITS: [(&str, &str, &str); 25] = [
    ("a body", "update record set body = x'a0' where seq = 7", "record 7 was altered"),
    (
        "one bit",
        "update record set body = cast(substr(body, 1, length(body) - 1) || x'00' as blob) where seq = 7",
        "record 7 was altered",
    ),
    ("a time", "update record set at = at + 1 where seq = 9", "record 9 was altered"),
    ("a kind", "update record set kind = 'gap' where seq = 3", "record 3 was altered"),
    ("a module", "update record set module = 'other' where seq = 4", "record 4 was altered"),
    ("no module", "update record set module = null where seq = 4", "record 4 was altered"),
    ("a job", "update record set job = 'other' where seq = 5", "record 5 was altered"),
    ("a user", "update record set uid = 0 where seq = 5", "record 5 was altered"),
    ("an outcome", "update record set outcome = 'granted' where outcome like 'denied%'", "was altered"),
    ("a hash", "update record set hash = zeroblob(32) where seq = 6", "record 6 was altered"),
    ("the first", "update record set at = 0 where seq = 1", "record 1 was altered"),
    ("the last", "update record set at = 0 where seq = (select max(seq) from record)", "was altered"),
    ("without one", "delete from record where seq = 8", "record 8 was removed"),
    ("without some", "delete from record where seq between 8 and 11", "records 8 to 11 were removed"),
    ("without the first", "delete from record where seq = 1", "record 1 was removed"),
    ("without the last", "delete from record where seq = (select max(seq) from record)", "was removed"),
    ("without any", "delete from record", "were removed"),
    (
        "moved up",
        "delete from record where seq = 8; update record set seq = seq - 1 where seq > 8",
        "record 8 was altered",
    ),
    (
        "exchanged",
        "update record set seq = -5 where seq = 5; update record set seq = 5 where seq = 6; update record set seq = 6 where seq = -5",
        "record 5 was reordered: its position is 6",
    ),
    (
        "exchanged from afar",
        "update record set seq = -4 where seq = 4; update record set seq = 4 where seq = 12; update record set seq = 12 where seq = -4",
        "record 4 was reordered: its position is 12",
    ),
    (
        "inserted",
        "update record set seq = -seq where seq > 9; update record set seq = 1 - seq where seq < 0;
         insert into record select 10, at, kind, module, job, uid, outcome, body, hash from record where seq = 3",
        "record 10 was inserted",
    ),
    (
        "added",
        "insert into record select (select max(seq) from record) + 1, at, kind, module, job, uid, outcome, body, hash
         from record where seq = 3",
        "was altered",
    ),
    (
        "a seal",
        "update seal set hash = zeroblob(32) where kind = 'checkpoint' and seq = (select min(seq) from seal)",
        "is not signed by this key",
    ),
    ("without seals", "delete from seal", "the seal of the last record"),
    ("a component", "update blob set bytes = x'00' where length(bytes) > 500", "refers to"),
];

#[test]
fn every_edit_is_found() {
    let place = Place::new();
    run(&place);
    let whole = verified(&place, &checkpoints(&place));
    assert_eq!(whole.findings, []);
    assert!(whole.records >= 24 && whole.seals > 6, "{whole:?}");
    for (what, edit, wanted) in EDITS {
        let other = Place::new();
        for name in ["audit.db", "audit.key.pub"] {
            std::fs::copy(place.path(name), other.path(name)).unwrap();
        }
        sql(&other.path("audit.db"), edit);
        let findings = verified(&other, &[]).findings;
        let first = findings
            .first()
            .unwrap_or_else(|| panic!("{what}: nothing is found"))
            .to_string();
        assert!(first.contains(wanted), "{what}: {first}; {findings:?}");
    }
}

#[test]
fn rewritten_hashes_are_detected_by_seals() {
    let place = Place::new();
    run(&place);
    sql(
        &place.path("audit.db"),
        "update record set outcome = 'granted' where seq = 12",
    );
    rehash(&place.path("audit.db"));
    let findings = verified(&place, &[]).findings;
    let rewritten: Vec<&Finding> = findings
        .iter()
        .filter(|finding| matches!(finding, Finding::Rewritten { .. }))
        .collect();
    // Where seals stand depends on the groups in which records were written.
    assert!(
        matches!(
            rewritten[0],
            Finding::Rewritten {
                after: ..12,
                to: 12..
            }
        ),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, Finding::Unsealed { kind: "head", .. })),
        "{findings:?}"
    );
}

#[test]
fn rewriting_with_key_is_detected_by_external_checkpoints() {
    let place = Place::new();
    run(&place);
    let elsewhere = checkpoints(&place);
    // Root makes another trail with the same key.
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(place.path(name));
    }
    run(&place);
    assert_eq!(verified(&place, &[]).findings, []);
    let findings = verified(&place, &elsewhere).findings;
    assert!(
        matches!(findings.first(), Some(Finding::Rewritten { after: 0, .. })),
        "{findings:?}"
    );
    // Or one that ends earlier.
    for name in ["audit.db", "audit.db-wal", "audit.db-shm"] {
        let _ = std::fs::remove_file(place.path(name));
    }
    drop(place.audit());
    let findings = verified(&place, &elsewhere).findings;
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, Finding::Removed { .. })),
        "{findings:?}"
    );
}

#[test]
fn trail_of_another_server_is_not_accepted_as_own() {
    let place = Place::new();
    run(&place);
    let other = Keys::of(&[7; 32]).public();
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let findings = verify(&source, &other, &[]).unwrap().findings;
    assert!(
        findings
            .iter()
            .all(|finding| matches!(finding, Finding::Unsealed { .. })),
        "{findings:?}"
    );
    assert!(findings.len() > 3);
}

#[test]
fn a_trail_that_was_cut_off_is_not_gone_on_with() {
    let place = Place::new();
    run(&place);
    sql(&place.path("audit.db"), "delete from record where seq > 10");
    let error = peal_audit::AuditTrail::open(place.settings())
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("ends with 10"), "{error}");
}

#[test]
fn exported_trail_verifies_and_changes_are_detected() {
    let place = Place::new();
    run(&place);
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let mut text = Vec::new();
    peal_audit::export(&source, &Filter::default(), &mut text).unwrap();
    let exported = place.path("trail.jsonl");
    std::fs::write(&exported, &text).unwrap();
    let whole = verify(
        &TrailSource::open(&exported).unwrap(),
        &key(&place),
        &checkpoints(&place),
    )
    .unwrap();
    assert_eq!(whole, verified(&place, &checkpoints(&place)));
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("\"seq\":9,"))
        .collect();
    std::fs::write(&exported, lines.join("\n")).unwrap();
    let findings = verify(&TrailSource::open(&exported).unwrap(), &key(&place), &[])
        .unwrap()
        .findings;
    assert_eq!(findings, [Finding::Removed { from: 9, to: 9 }]);
    std::fs::write(&exported, "{\"seal\":\"nonsense\"}").unwrap();
    let error = TrailSource::open(&exported).err().unwrap().to_string();
    assert!(
        error.contains("line 1") && error.contains("should be a seal"),
        "{error}"
    );
}

#[test]
fn a_trail_goes_on_where_it_ended_and_the_oldest_go() {
    let place = Place::new();
    run(&place);
    let before = verified(&place, &[]).last.unwrap();
    run(&place);
    let after = verified(&place, &checkpoints(&place));
    assert_eq!((after.findings.len(), after.last), (0, Some(2 * before)));
    // A day that is over at once.
    let mut settings = place.settings();
    settings.retention.keep = Some(std::time::Duration::ZERO);
    let audit = peal_audit::AuditTrail::open(settings).unwrap();
    for number in 0..1200 {
        decide(&audit, number, &granted());
    }
    drop(audit);
    let kept = verified(&place, &[]);
    assert_eq!(kept.findings, []);
    assert!(
        kept.first.unwrap() > before && kept.records < 1200,
        "{kept:?}"
    );
    // An anchor of one's own is not believed.
    sql(
        &place.path("audit.db"),
        "delete from record where seq < (select min(seq) from record) + 5",
    );
    assert!(matches!(
        verified(&place, &[]).findings[..],
        [Finding::Removed { .. }]
    ));
}

/// Compares the trail of a place with lines that are stored elsewhere.
fn sealed(place: &Place, lines: &[String]) -> peal_audit::SealedTrail {
    let source = TrailSource::open(&place.path("audit.db")).unwrap();
    let text = std::fs::read_to_string(place.path("audit.key.pub")).unwrap();
    peal_audit::verify_sealed(&source, &text.parse().unwrap(), lines).unwrap()
}

/// Runs a trail, and returns the checkpoints that its receiver got.
fn run_received(place: &Place) -> Vec<String> {
    let received = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = received.clone();
    let mut settings = place.settings();
    settings.checkpoints.receiver = Some(peal_audit::CheckpointReceiver::new(move |seal| {
        lines.lock().unwrap().push(seal.to_string());
    }));
    let trail = peal_audit::AuditTrail::open(settings).unwrap();
    (0..20).for_each(|_| {
        trail.note(peal_audit::AuditEntry::Refused {
            reasons: Vec::new(),
        })
    });
    trail.seal();
    drop(trail);
    std::mem::take(&mut *received.lock().unwrap())
}

fn remove_database(place: &Place) {
    for name in [
        "audit.db",
        "audit.db-wal",
        "audit.db-shm",
        "audit.db-tail",
        "audit.db-tail2",
    ] {
        let _ = std::fs::remove_file(place.path(name));
    }
}

#[test]
fn stored_seals_reveal_each_way_to_lose_a_trail() {
    let place = Place::new();
    let lines = run_received(&place);
    // That of before the end, and that of `Ended`.
    assert!(lines.len() >= 2, "{lines:?}");
    let kept = sealed(&place, &lines);
    assert!(kept.is_intact(), "{:?}", kept.contradictions());
    assert_eq!(kept.own, lines.len() as u64);
    // A younger trail with the same key.
    remove_database(&place);
    drop(place.audit());
    let cut = sealed(&place, &lines);
    assert!(!cut.is_intact());
    let told = cut.contradictions();
    assert!(
        told.iter().any(|line| line.contains("were removed")),
        "{told:?}"
    );
    // A trail with another key.
    remove_database(&place);
    std::fs::remove_file(place.path("audit.key")).unwrap();
    drop(place.audit());
    let replaced = sealed(&place, &lines);
    let count = lines.len();
    let told = replaced.contradictions();
    assert!(
        told.first().is_some_and(|line| line.starts_with(&format!(
            "the trail was replaced: {count} stored seals are, up to record 2"
        ))),
        "{told:?}"
    );
    assert_eq!(replaced.own, 0);
    let junk = sealed(&place, &["peal-audit 2 checkpoint 1 2".to_owned()]);
    assert_eq!(
        junk.contradictions(),
        ["1 line stored under its name is no seal"]
    );
}
