//! Refused requests do not push decisions out of the audit trail.
use super::{ATTACKER, VICTIM, attack_beside};
use peal_audit::{AuditEntry, TrailSource, verify};
use peal_model::Hook;
use peal_needs::needs;
use peal_store::{Filter, TrailRow};
use peal_tests::{
    attacks::trail::SAID,
    daemon::{Daemon, Place},
    guest, peal, run, run_within,
};
use std::time::Duration;

/// Time limit of a flood on a busy machine.
const FLOOD: Duration = Duration::from_secs(600);
/// Size of a small trail in bytes, which one record for each refusal would fill.
const SMALL: u64 = 2 << 20;
const JUNK: u64 = 12_000;
/// Number of refused handshakes that would have filled such a trail many times.
const HANDSHAKES: u64 = 400;
/// Maximum number of records by refusals of one user in one second: for each cause the first
/// refusal and a group, and with a policy its calls.
const EACH_SECOND: u64 = 6;

/// Starts a server with a small trail, with or without a policy.
pub(super) fn server(place: &Place, max_bytes: u64, policy: bool) -> Daemon {
    let dir = place.path("").display().to_string();
    let path = guest("same-user").display().to_string();
    let module = if policy {
        format!("[[module]]\nname = \"same-user\"\npath = \"{path}\"\n")
    } else {
        String::new()
    };
    // The test needs many refusals; by default their pace is bounded.
    place.configure(&format!(
        "[server]\nmax_refusal_delay_ms = 0\n[audit]\npath = \"{dir}audit.db\"\non_failure = \"deny\"\nmax_bytes = {max_bytes}\n{module}"
    ));
    place.start()
}

pub(super) fn rows(place: &Place) -> Vec<TrailRow> {
    TrailSource::open(&place.path("audit.db"))
        .unwrap()
        .last(&Filter::default(), u32::MAX)
        .unwrap()
}

pub(super) fn entries(place: &Place) -> Vec<AuditEntry> {
    rows(place)
        .iter()
        .map(|row| AuditEntry::read(&row.body).unwrap())
        .collect()
}

/// True if the whole trail is unchanged since it was written.
pub(super) fn is_sound(place: &Place) -> bool {
    let key = std::fs::read_to_string(place.path("audit.db.key.pub"))
        .unwrap()
        .parse()
        .unwrap();
    let verified = verify(
        &TrailSource::open(&place.path("audit.db")).unwrap(),
        &key,
        &[],
    )
    .unwrap();
    verified.findings.is_empty()
}

/// Returns the number of the attacker's refusals, and the number of their records.
fn refusals(entries: &[AuditEntry]) -> (u64, u64) {
    let count = |entry: &AuditEntry| match entry {
        AuditEntry::Denied(denial) if denial.uid == Some(ATTACKER) => Some(1),
        AuditEntry::Refusals(group) if group.uid == Some(ATTACKER) => Some(group.count),
        _ => None,
    };
    let counts: Vec<u64> = entries.iter().filter_map(count).collect();
    (counts.iter().sum(), counts.len() as u64)
}

/// Causes a denial for a tool of root, which must stay on record. Only the victim has a job, so
/// that no policy admits the attacker.
fn denial_of_root(daemon: &Daemon) {
    let job = format!("job-of-{VICTIM}");
    super::register(daemon, &job, VICTIM);
    // It is a client of another user's job, which even root may not be.
    run(&mut attack_beside(
        0,
        &["claim", &super::address_of(daemon), &job],
    ))
    .expect_status(0);
}

fn is_denied_to_root(entry: &AuditEntry) -> bool {
    match entry {
        AuditEntry::Denied(denial) => denial.uid == Some(0),
        AuditEntry::Decision(decision) => {
            let uid = decision.request.identity.map(|identity| identity.uid);
            uid == Some(0)
                && decision.hook == Hook::Connection.name()
                && decision.verdict != peal_audit::DecisionKind::Granted
        }
        _ => false,
    }
}

#[needs(prepared, root)]
#[test]
fn flood_of_junk_is_counted_and_pushes_nothing_out() {
    let place = Place::new();
    let daemon = server(&place, SMALL, false);
    denial_of_root(&daemon);
    let address = super::address_of(&daemon);
    let start = std::time::Instant::now();
    let flood = run_within(
        FLOOD,
        &mut attack_beside(ATTACKER, &["junk", &address, &JUNK.to_string()]),
    );
    let seconds = start.elapsed().as_secs() + 2;
    assert_eq!(
        flood.expect_status(0).stdout.lines().last(),
        Some(JUNK.to_string().as_str())
    );
    daemon.tell(&["stop", "--wait"]);
    daemon.ends();
    let found = entries(&place);
    assert!(
        found.iter().any(is_denied_to_root),
        "the denial of root is there"
    );
    let (count, records) = refusals(&found);
    assert_eq!(count, JUNK, "all are counted");
    assert!(
        records <= EACH_SECOND * seconds,
        "{records} records in {seconds} s"
    );
    assert!(is_sound(&place));
}

#[needs(prepared, root)]
#[test]
fn refused_handshakes_leave_no_infos_and_push_nothing_out() {
    let place = Place::new();
    let daemon = server(&place, SMALL, true);
    denial_of_root(&daemon);
    let address = super::address_of(&daemon);
    let long_handshakes = [
        "long-handshakes",
        &address,
        &HANDSHAKES.to_string(),
        "20",
        "6000",
    ];
    let start = std::time::Instant::now();
    run_within(FLOOD, &mut attack_beside(ATTACKER, &long_handshakes)).expect_status(0);
    let seconds = start.elapsed().as_secs() + 2;
    daemon.tell(&["stop", "--wait"]);
    daemon.ends();
    let found = entries(&place);
    assert!(
        found.iter().any(is_denied_to_root),
        "the denial of root is there"
    );
    let of_attacker: Vec<TrailRow> = rows(&place)
        .into_iter()
        .filter(|row| row.uid == Some(ATTACKER))
        .collect();
    assert!(
        of_attacker.len() as u64 <= EACH_SECOND * seconds,
        "{} records in {seconds} s",
        of_attacker.len()
    );
    for row in &of_attacker {
        let is_said = row
            .body
            .windows(SAID.len())
            .any(|part| part == SAID.as_bytes());
        assert!(
            row.body.len() < 4096 && !is_said,
            "record {} has {} bytes",
            row.seq,
            row.body.len()
        );
    }
    assert!(
        !found
            .iter()
            .any(|entry| matches!(entry, AuditEntry::Dropped(_))),
        "there was room for all"
    );
    assert!(is_sound(&place));
    let audit = |args: &[&str]| {
        run(peal(["audit"])
            .args(args)
            .arg("--config")
            .arg(place.path("peal.toml")))
    };
    let listed = audit(&["list", "--kind", "refusals"])
        .expect_status(0)
        .stdout;
    assert!(listed.contains("times within"), "{listed}");
}
