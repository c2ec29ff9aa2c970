//! Job records have no entries by users without access to the job, and no user fills the store for
//! the records of other users.
use super::{ATTACKER, VICTIM, attack_beside};
use peal_needs::needs;
use peal_tests::{
    attacks::job_records::ABOUT,
    daemon::{Daemon, Place},
    guest, peal, run, run_within, until,
};
use serde_json::Value;
use std::time::Duration;

/// Number of events on ten connections: one more per connection than a record could have.
const EVENTS: usize = 100_010;

/// Time limit of an attack on a busy machine.
const ATTACK: Duration = Duration::from_secs(300);

/// Starts a server with a job of the attacker, one of the victim, and a channel that writes to job
/// records.
fn server(place: &Place, store: &str) -> (Daemon, String) {
    place.configure(&format!(
        "[store]\npath = {:?}\n{store}\n[[module]]\nname = \"record\"\npath = {:?}\nchannels = [\"job_record\"]\n\
         sinks = [\"job-record\"]\ngrants = [\"sink\", \"clock\"]\n",
        place.path("peal.db"),
        guest("record"),
    ));
    let daemon = place.start();
    let address = super::address(&daemon);
    super::register(&daemon, "own", ATTACKER);
    super::register(&daemon, "victim", VICTIM);
    (daemon, address)
}

/// Returns the entries of a job's record.
fn entries(place: &Place, job: &str) -> Vec<Value> {
    let mut command = peal(["job", "record", job, "-o", "json", "--config"]);
    let printed = run(command.arg(place.path("peal.toml")))
        .expect_status(0)
        .stdout;
    let record: Value = serde_json::from_str(&printed).unwrap();
    record["entries"].as_array().unwrap().clone()
}

fn raise(uid: u32, address: &str, jobs: &str, count: usize, bytes: usize) {
    let args = [
        "raise-about",
        address,
        jobs,
        &count.to_string(),
        &bytes.to_string(),
    ];
    run_within(ATTACK, &mut attack_beside(uid, &args)).expect_status(0);
}

fn is_event(entry: &&Value) -> bool {
    entry["kind"] == "event" && entry["body"]["code"]["number"] == ABOUT.0
}

#[needs(prepared, root)]
#[test]
fn events_of_others_neither_enter_nor_fill_a_job_record() {
    let place = Place::new();
    let (_daemon, address) = server(&place, "");
    raise(ATTACKER, &address, "victim", EVENTS, 0);
    // An event of the job's own user finds the record unchanged.
    raise(VICTIM, &address, "victim", 1, 0);
    until("the victim's event is recorded", || {
        !entries(&place, "victim").is_empty()
    });
    let found = entries(&place, "victim");
    assert_eq!(found.iter().filter(is_event).count(), 1);
    assert!(
        found.iter().all(|entry| entry["kind"] != "gap"),
        "{found:?}"
    );
}

#[needs(prepared, root)]
#[test]
fn user_cannot_fill_the_store_for_records_of_others() {
    let place = Place::new();
    let (_daemon, address) = server(&place, "max_bytes = 4194304");
    raise(ATTACKER, &address, "own,victim", 200, 64 << 10);
    let gap = |entries: &[Value]| {
        entries
            .iter()
            .filter_map(|entry| entry["body"]["entries"].as_u64())
            .sum::<u64>()
    };
    until(
        "all events about the attacker's job are written or counted",
        || {
            let own = entries(&place, "own");
            own.iter().filter(is_event).count() as u64 + gap(&own) == 200
        },
    );
    assert!(
        gap(&entries(&place, "own")) > 0,
        "the attacker's record is full"
    );
    assert!(entries(&place, "victim").is_empty());
    let log = ["log", &address, "victim", "pmix.log.jrec", "16"];
    let logged = run(&mut attack_beside(VICTIM, &log))
        .expect_status(0)
        .stdout;
    assert_eq!(
        logged.lines().last(),
        Some("PMIX_SUCCESS (0) 16"),
        "{logged}"
    );
    let logs = entries(&place, "victim")
        .iter()
        .filter(|entry| entry["kind"] == "log")
        .count();
    assert_eq!(logs, 16);
}
