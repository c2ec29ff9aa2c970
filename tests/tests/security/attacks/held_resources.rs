//! Resources that the server holds for one user leave room for other users: published values, waiting lookups,
//! groups, monitors, spilled events, and work that blocks threads.
use super::{
    ATTACKER, VICTIM, address, attack_beside,
    beside::{Attacker, attackers, stat},
};
use peal_needs::needs;
use peal_tests::{
    attacks::job_records::ABOUT,
    daemon::{Daemon, Place},
    run_within,
};
use std::time::Duration;

/// Time limit of a program on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn refusals(daemon: &Daemon, uid: u32, resource: &str) -> u64 {
    let uid = uid.to_string();
    let labels = [("resource", resource), ("uid", uid.as_str())];
    stat(daemon, "peal_user_refusals", &labels)
}

/// Runs the victim, which must print `PMIX_SUCCESS (0)`.
#[track_caller]
fn succeeds(kind: &str, address: &str) {
    let job = format!("job-of-{VICTIM}");
    let mut victim = attack_beside(VICTIM, &["request", address, &job, kind]);
    let told = run_within(PATIENCE, &mut victim).expect_status(0).stdout;
    assert_eq!(told, "PMIX_SUCCESS (0)\n", "{kind}");
}

#[needs(prepared, root)]
#[test]
fn resources_held_for_one_user_leave_room_for_others() {
    let place = Place::new();
    place.configure(
        "[publish]\nmax_items_per_user = 8\nmax_pending_lookups_per_user = 8\n\
         [group]\nmax_per_user = 8\n[server]\nmax_monitors_total = 16\n",
    );
    let daemon = place.start();
    let address = address(&daemon);
    let job = format!("job-of-{ATTACKER}");
    for (kind, resource) in [
        ("published", "published_items"),
        ("lookup", "pending_lookups"),
        ("monitor", "monitors"),
        ("group", "groups"),
    ] {
        let mut attacker = Attacker::start(&["hold", &address, &job, kind, "12"]);
        let refused = attacker.line();
        assert!(
            refused.starts_with("PMIX_ERR_OUT_OF_RESOURCE "),
            "{kind}: {refused}"
        );
        assert_eq!(attackers(&daemon, resource), 8, "{kind}");
        succeeds(kind, &address);
        assert_eq!(refusals(&daemon, VICTIM, resource), 0, "{kind}");
    }
}

#[needs(prepared, root)]
#[test]
fn spilled_events_of_one_user_leave_room_for_others() {
    const SHARE: u64 = 1 << 20;
    let place = Place::new();
    place.configure(&format!(
        "[events]\nmax_memory_bytes = 65536\nmax_spill_bytes = {}\n",
        2 * SHARE
    ));
    let daemon = place.start();
    let address = address(&daemon);
    let raise = |uid: u32, count: u32| {
        let (job, count) = (format!("job-of-{uid}"), count.to_string());
        let args = ["raise-about", &address, &job, &count, "32768"];
        run_within(PATIENCE, &mut attack_beside(uid, &args)).expect_status(0);
    };
    // Three times the share: no proc of the job is there to take them.
    raise(ATTACKER, 96);
    let spilled = attackers(&daemon, "spilled_bytes");
    assert!((SHARE / 2..=SHARE).contains(&spilled), "{spilled}");
    assert!(refusals(&daemon, ATTACKER, "spilled_bytes") > 0);
    raise(VICTIM, 4);
    assert_eq!(refusals(&daemon, VICTIM, "spilled_bytes"), 0);
    let mut late = attack_beside(VICTIM, &["receive-about"]);
    late.envs(daemon.environment(&format!("job-of-{VICTIM}"), 0));
    let told = run_within(PATIENCE, &mut late).expect_status(0).stdout;
    assert_eq!(told.trim(), ABOUT.to_string());
}

#[needs(prepared, root)]
#[test]
fn blocking_work_of_one_user_delays_no_other() {
    let place = Place::new();
    place.configure("[server]\nmax_blocking_threads = 2\nmax_blocking_threads_per_user = 1\n");
    let daemon = place.start();
    let address = address(&daemon);
    let job = format!("job-of-{ATTACKER}");
    let mut attacker = Attacker::start(&["query-flood", &address, &job, "2000"]);
    assert_eq!(attacker.line(), "PMIX_SUCCESS (0)");
    succeeds("query", &address);
    assert!(
        attacker.is_running(),
        "the attack ended before the work of the victim"
    );
}
