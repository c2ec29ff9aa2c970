//! Unmodified C programs on Peal's `libpmix.so.2`: they print the same as on the C library, except for
//! the table of differences. Both run under `peal run`.
use peal_needs::needs;
use peal_tests::{
    comparison::{PermittedDifference, ProgramComparison, compare_lines},
    libpmix::Release,
    root,
};
use serde::Deserialize;

/// Differences that `tests/c/library_differences.toml` permits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    difference: Vec<Difference>,
}

/// Permitted difference, and its reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    program: String,
    libpmix: String,
    peal: String,
    reason: String,
}

/// Begin, data, fences, events and the end of a job.
const JOBS: [ProgramComparison; 5] = [
    ProgramComparison::new("job", "4", 0, 400),
    ProgramComparison::new("job --abort 1", "4", 7, 40),
    ProgramComparison::new("job --die 2", "4", 137, 40),
    ProgramComparison::new("cycle 10", "4", 0, 4),
    ProgramComparison::new("qualified", "2", 0, 4),
];

/// Events of every range and code, and those that are kept for later registrations.
const EVENTS: [ProgramComparison; 16] = [
    ProgramComparison::new("registrations", "2", 0, 35),
    ProgramComparison::new("ranges", "4", 0, 130),
    ProgramComparison::new("contents codes", "2", 0, 30),
    ProgramComparison::new("cached order", "3", 0, 27),
    ProgramComparison::new("cached once", "3", 0, 12),
    ProgramComparison::new("cached overlap", "3", 0, 9),
    ProgramComparison::new("cached unkept", "3", 0, 6),
    ProgramComparison::new("cached heard", "3", 0, 9),
    ProgramComparison::new("cached back", "3", 0, 12),
    ProgramComparison::new("cached targets", "3", 0, 9),
    ProgramComparison::new("cached others", "3", 0, 9),
    ProgramComparison::new("cached refused", "3", 0, 10),
    ProgramComparison::new("cached affected", "3", 0, 9),
    ProgramComparison::new("cached own", "3", 0, 6),
    ProgramComparison::new("cached default", "3", 0, 9),
    ProgramComparison::new("cached manager", "3", 0, 9),
];

/// Published data, job control, monitoring and spawned jobs.
const SERVICES: [ProgramComparison; 11] = [
    ProgramComparison::new("publish", "2", 0, 20),
    ProgramComparison::new("control signal", "3", 0, 3),
    ProgramComparison::new("control terminate 1", "3", 0, 2),
    // One proc: what several log has no order among them.
    ProgramComparison::new("control log", "1", 0, 2),
    ProgramComparison::new("control unknown", "3", 0, 1),
    ProgramComparison::new("monitor once", "2", 0, 8),
    ProgramComparison::new("monitor mistakes", "2", 0, 5),
    ProgramComparison::new("monitor usage", "2", 0, 6),
    ProgramComparison::new("rfc_monitor", "2", 0, 4),
    ProgramComparison::new("checkpoint", "2", 0, 5),
    ProgramComparison::new("spawn -- 2 /bin/echo hi", "1", 0, 5),
];

/// Groups that their members construct, with members that are late, die or leave. Of invitations only
/// those that all accept: the library of an inviting proc decides about the others, and Peal's ends
/// what the C library leaves to the program.
const GROUPS: [ProgramComparison; 11] = [
    ProgramComparison::new("group whole", "4", 0, 92),
    ProgramComparison::new("group part", "4", 0, 16),
    ProgramComparison::new("group several", "4", 0, 22),
    ProgramComparison::new("group mistakes", "4", 0, 28),
    ProgramComparison::new("group late 1", "4", 0, 16),
    ProgramComparison::new("group dies 1", "4", 137, 16),
    ProgramComparison::new("group tolerant 1", "4", 137, 19),
    ProgramComparison::new("group mourned 1", "4", 137, 21),
    ProgramComparison::new("group leaves 1", "4", 0, 23),
    ProgramComparison::new("group named", "4", 0, 23),
    ProgramComparison::new("invite accept", "4", 0, 23),
];

fn allowed() -> Vec<Difference> {
    let path = root().join("tests/c/library_differences.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let Allowed { difference } = toml::from_str(&text).unwrap();
    assert!(
        difference.iter().all(|one| one.reason.len() > 40),
        "each difference needs a reason"
    );
    difference
}

#[track_caller]
fn compare(compared: &ProgramComparison) {
    let ours = compared.on(&Release::peal());
    let theirs = compared.on(&Release::system());
    assert!(
        ours.len() >= compared.lines,
        "{} printed next to nothing: {ours:?}",
        compared.program
    );
    let all = allowed();
    let differences: Vec<PermittedDifference<'_>> = all
        .iter()
        .filter(|difference| difference.program == compared.program)
        .map(|Difference { libpmix, peal, .. }| PermittedDifference { libpmix, peal })
        .collect();
    compare_lines(compared.program, &ours, theirs, &differences);
}

#[needs(prepared, libpmix)]
#[test]
fn jobs_print_the_same_on_both_libraries() {
    JOBS.iter().for_each(compare);
}

#[needs(prepared, libpmix)]
#[test]
fn events_are_the_same_on_both_libraries() {
    EVENTS.iter().for_each(compare);
}

#[needs(prepared, libpmix)]
#[test]
fn services_are_the_same_on_both_libraries() {
    SERVICES.iter().for_each(compare);
}

#[needs(prepared, libpmix)]
#[test]
fn groups_are_the_same_on_both_libraries() {
    GROUPS.iter().for_each(compare);
}

/// Status of each step of `misuse`.
const MISUSED: [&str; 48] = [
    "before init: initialized 0, fence -31, get -31, commit -31, finalize -31",
    "init: 0",
    "init again: 0",
    "finalize once: 0",
    "put of no key: -27",
    "put of no value: -27",
    "put of no scope: -27",
    "get of nothing: -27",
    "get without callback: -27",
    "fence without callback: -27",
    "fence of lost procs: -27",
    "fence of lost infos: -27",
    "no handler: -27",
    "unknown handler: -46",
    "no range: -27",
    "lookup of nothing: -27",
    "publish of nothing: -27",
    "spawn of nothing: -27",
    "connect of nobody: -27",
    "peers without place: -27",
    "nodes without place: -27",
    "query of nothing: -27",
    "log of nothing: -27",
    "monitor of nothing: -27",
    "group of nobody: -27",
    "join of nothing: -27",
    "credential without place: -27",
    "no credential: -27",
    "unknown pull: -46",
    "servers of a proc: -47",
    "register: 0",
    "notify: 0",
    "fence in a handler: -15",
    "get in a handler: -15",
    "finalize in a handler: -15",
    "notify in a handler: 0",
    "deregister in a handler: 0",
    "fence begins: 0",
    "fence by callback: 0",
    "threads that failed: 0",
    "in a child: initialized 0, fence -31, get -31, commit -31, finalize -31",
    "the child ends: 0",
    "fence: 0",
    "finalize: 0",
    "after finalize: initialized 0, fence -31, get -31, commit -31, finalize -31",
    "init anew: 0",
    "fence: 0",
    "finalize: 0",
];

/// The C library crashes or hangs on some of these.
#[needs(prepared, libpmix)]
#[test]
fn misuse_and_threads_and_forks_get_statuses() {
    let printed = ProgramComparison::new("misuse", "2", 0, 0).on(&Release::peal());
    let of = |rank: u32| MISUSED.map(|line| format!("rank {rank}: {line}"));
    // The handler prints on the progress thread, beside the main thread.
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    assert_eq!(sorted(printed), sorted([of(0), of(1)].concat()));
}

#[test]
fn library_differences_cover_only_programs_run() {
    let runs = [&JOBS[..], &EVENTS, &SERVICES, &GROUPS].concat();
    for Difference { program, .. } in allowed() {
        assert!(
            runs.iter().any(|run| run.program == program),
            "{program} is not compared by any test"
        );
    }
}
