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
    held_for_one_user(&[
        ("published", "published_items"),
        ("lookup", "pending_lookups"),
        ("monitor", "monitors"),
        ("group", "groups"),
        ("checkpoint", "job_control_requests"),
    ]);
}

#[needs(prepared, root)]
#[test]
fn groups_whose_procs_never_call_leave_room_for_others() {
    held_for_one_user(&[("partial-group", "groups")]);
}

/// Lets an attacker request more of each resource than its share, and the victim one. Names each
/// resource once: the server may still hold what an attacker had when the next one starts.
#[track_caller]
fn held_for_one_user(kinds: &[(&str, &str)]) {
    let place = Place::new();
    place.configure(
        "[publish]\nmax_items_per_user = 8\nmax_pending_lookups_per_user = 8\n\
         [group]\nmax_per_user = 8\n[server]\nmax_monitors_total = 16\n\
         [job_control]\nmax_requests = 16\n",
    );
    let daemon = place.start();
    let address = address(&daemon);
    let job = format!("job-of-{ATTACKER}");
    for (kind, resource) in kinds {
        let mut attacker = Attacker::start(&["hold", &address, &job, kind, "12"]);
        let refused = attacker.line();
        assert!(
            refused.starts_with("PMIX_ERR_OUT_OF_RESOURCE "),
            "{kind}: {refused}"
        );
        assert_eq!(attackers(&daemon, resource), 8, "{kind}");
        assert!(refusals(&daemon, ATTACKER, resource) > 0, "{kind}");
        succeeds(kind, &address);
        assert_eq!(refusals(&daemon, VICTIM, resource), 0, "{kind}");
    }
}

#[needs(prepared, root)]
#[test]
fn spilled_events_of_one_user_leave_room_for_others() {
    const SHARE: u64 = 1 << 20;
    // Three times the share.
    kept_for_one_user(
        &format!("max_memory_bytes = 65536\nmax_spill_bytes = {}", 2 * SHARE),
        ["96", "32768"],
        ("spilled_bytes", SHARE),
    );
}

#[needs(prepared, root)]
#[test]
fn index_of_retained_events_of_one_user_leaves_room_for_others() {
    const SHARE: u64 = 1 << 16;
    // Each event is for one proc, so three thousand take more than the share.
    kept_for_one_user(
        &format!(
            "max_index_bytes = {}\nmax_index_bytes_per_user = {SHARE}",
            3 * SHARE
        ),
        ["3000", "16"],
        ("retained_index_bytes", SHARE),
    );
}

/// Raises this number of events of this size about the attacker's job, and a few about the victim's, while
/// no proc of either is there to take them.
#[track_caller]
fn kept_for_one_user(settings: &str, attack: [&str; 2], (resource, share): (&str, u64)) {
    let place = Place::new();
    place.configure(&format!("[events]\n{settings}\n"));
    let daemon = place.start();
    let address = address(&daemon);
    let raise = |uid: u32, [count, bytes]: [&str; 2]| {
        let args = [
            "raise-about",
            &address,
            &format!("job-of-{uid}"),
            count,
            bytes,
        ];
        run_within(PATIENCE, &mut attack_beside(uid, &args)).expect_status(0);
    };
    raise(ATTACKER, attack);
    let held = attackers(&daemon, resource);
    // The entry of the index with which a user reaches the share is kept.
    assert!((share / 2..=share + 256).contains(&held), "{held}");
    assert!(refusals(&daemon, ATTACKER, resource) > 0);
    raise(VICTIM, ["4", attack[1]]);
    assert_eq!(refusals(&daemon, VICTIM, resource), 0);
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
