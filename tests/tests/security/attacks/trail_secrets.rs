//! A secret of one user changes no record about another user, and delays no decision.
use super::{
    ATTACKER, MeasuredTimes, VICTIM, attack_beside,
    trail_flood::{entries, is_sound, rows, server},
};
use peal_audit::AuditEntry;
use peal_needs::needs;
use peal_tests::{
    attacks::trail::SAID,
    daemon::{Daemon, Place},
    finish, run_within,
};
use std::time::Duration;

/// Size of a trail with room for all records.
const LARGE: u64 = 1 << 30;
/// Number of decisions that a victim measures.
const DECISIONS: &str = "300";
/// Time limit of an attack on a busy machine.
const ATTACK: Duration = Duration::from_secs(240);
/// Maximum time of a decision on a busy machine: a search took seconds.
const SOON: u64 = 500_000;

/// Starts a server with a policy, and a job of each user, so that their tools are admitted.
fn policed(place: &Place) -> (Daemon, String) {
    let daemon = server(place, LARGE, true);
    let address = super::address(&daemon);
    (daemon, address)
}

#[needs(prepared, root)]
#[test]
fn secret_of_one_user_stays_in_records_of_others() {
    const SECRET: &str = "correct horse battery staple";
    let place = Place::new();
    let (daemon, address) = policed(&place);
    let told = |uid, args: &[&str]| {
        drop(run_within(ATTACK, &mut attack_beside(uid, args)).expect_status(0))
    };
    told(VICTIM, &["tell-secret", &address, SECRET]);
    told(ATTACKER, &["name-secrets", &address, "deciding"]);
    told(VICTIM, &["decide", &address, "20"]);
    told(VICTIM, &["tell-secret", &address, SECRET]);
    daemon.tell(&["stop", "--wait"]);
    daemon.ends();
    // All records are readable, also by a search for a job.
    let decisions: Vec<_> = entries(&place)
        .into_iter()
        .filter_map(|entry| match entry {
            AuditEntry::Decision(decision) if decision.hook == "event" => Some(decision),
            _ => None,
        })
        .filter(|decision| {
            decision
                .request
                .identity
                .is_some_and(|identity| identity.uid == VICTIM)
        })
        .collect();
    let of_deciding = |decision: &&peal_audit::DecisionEntry| {
        decision
            .request
            .requester
            .as_ref()
            .is_some_and(|proc| proc.nspace.as_str().starts_with("deciding-"))
    };
    let decided: Vec<_> = decisions.iter().filter(of_deciding).collect();
    assert_eq!(decided.len(), 20);
    assert!(
        decided
            .iter()
            .all(|decision| decision.verdict == peal_audit::DecisionKind::Granted)
    );
    let is_there = |info: &peal_model::Info| info.value.as_str() == Some(SAID);
    assert!(
        decided
            .iter()
            .all(|decision| decision.request.subject.infos().iter().any(is_there)),
        "what the victim said is there"
    );
    // The victim's own secret is in none of them.
    assert!(rows(&place).iter().all(|row| {
        !row.body
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes())
    }));
    assert!(is_sound(&place));
}

#[needs(prepared, root)]
#[test]
fn large_secrets_delay_no_decision_of_others() {
    let place = Place::new();
    let (daemon, address) = policed(&place);
    let decide = || attack_beside(VICTIM, &["decide", &address, DECISIONS]);
    let decided = || MeasuredTimes::of(&run_within(ATTACK, &mut decide()).expect_status(0).stdout);
    let before = decided().median;
    for attack in [
        &["large-secrets", &address, "3"][..],
        &["long-handshakes", &address, "30", "20", "6000"],
    ] {
        // A user without a job is refused.
        let uid = if attack[0] == "long-handshakes" {
            ATTACKER - 1
        } else {
            ATTACKER
        };
        let attacking = attack_beside(uid, attack).spawn().unwrap();
        let MeasuredTimes { median, longest } = decided();
        finish(attacking).expect_status(0);
        assert!(
            longest < SOON,
            "{}: a decision took {longest} us, {before} us before",
            attack[0]
        );
        assert!(
            median < 2 * before.max(5_000),
            "{}: {median} us, {before} us before",
            attack[0]
        );
    }
    daemon.tell(&["stop", "--wait"]);
    daemon.ends();
    assert!(is_sound(&place));
}
