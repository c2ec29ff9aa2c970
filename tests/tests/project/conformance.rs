//! The same unmodified C programs under Peal and under a host environment on the C library's own
//! server, and a comparison of their output.
use peal_needs::needs;
use peal_tests::{
    c_program,
    comparison::{PermittedDifference, ProgramComparison, compare_lines},
    daemon::Place,
    finish, root,
};
use rustix::process::Signal;
use serde::Deserialize;
use std::{
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Differences that `tests/c/differences.toml` permits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    difference: Vec<Difference>,
    unsupported: Vec<Unsupported>,
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

/// Program that crashes the C server or gets no answer from it, its output under Peal, and the
/// reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsupported {
    program: String,
    peal: Vec<String>,
    reason: String,
}

const JOBS: [ProgramComparison; 4] = [
    ProgramComparison::new("job", "4", 0, 400),
    ProgramComparison::new("job --status 5", "4", 5, 400),
    ProgramComparison::new("job --abort 1", "4", 7, 40),
    ProgramComparison::new("job --die 2", "4", 137, 40),
];

/// Scenarios of events that C programs receive.
const EVENTS: [ProgramComparison; 16] = [
    ProgramComparison::new("registrations", "2", 0, 35),
    ProgramComparison::new("ranges", "4", 0, 130),
    ProgramComparison::new("contents infos", "2", 0, 12),
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
];

const SERVICES: [ProgramComparison; 1] = [ProgramComparison::new("publish", "2", 0, 20)];

/// Scenarios that the C server does not support.
const UNSUPPORTED: [ProgramComparison; 1] = [ProgramComparison::new("cached manager", "3", 0, 9)];

fn allowed() -> Allowed {
    let text = std::fs::read_to_string(root().join("tests/c/differences.toml")).unwrap();
    let all: Allowed = toml::from_str(&text).unwrap();
    let reasons = all
        .difference
        .iter()
        .map(|one| &one.reason)
        .chain(all.unsupported.iter().map(|one| &one.reason));
    assert!(
        reasons.into_iter().all(|reason| reason.len() > 40),
        "each difference needs a reason"
    );
    all
}

/// Compares both outputs. Each difference that the program is permitted must occur.
#[track_caller]
fn compare_permitted(program: &str, ours: &[String], theirs: Vec<String>) {
    let all = allowed().difference;
    let differences: Vec<PermittedDifference<'_>> = all
        .iter()
        .filter(|difference| difference.program == program)
        .map(|Difference { libpmix, peal, .. }| PermittedDifference { libpmix, peal })
        .collect();
    compare_lines(program, ours, theirs, &differences);
}

fn compare(compared: &ProgramComparison) {
    let (ours, theirs) = compared.under_both();
    compare_permitted(compared.program, &ours, theirs);
}

#[needs(libpmix)]
#[test]
fn a_job_prints_the_same_under_both_servers_however_it_ends() {
    JOBS.iter().for_each(compare);
}

#[needs(libpmix)]
#[test]
fn c_programs_see_the_same_of_events_under_both_servers() {
    EVENTS.iter().for_each(compare);
}

#[needs(libpmix)]
#[test]
fn published_data_are_found_under_both_servers() {
    SERVICES.iter().for_each(compare);
}

#[needs(libpmix)]
#[test]
fn requests_unsupported_by_c_server_are_served() {
    let expected = allowed().unsupported;
    for unsupported in &UNSUPPORTED {
        let ours = unsupported.under_peal();
        let listed = expected
            .iter()
            .find(|listed| listed.program == unsupported.program);
        assert_eq!(
            Some(&ours),
            listed.map(|listed| &listed.peal),
            "{}",
            unsupported.program
        );
    }
}

#[test]
fn differences_table_covers_only_programs_run() {
    let Allowed {
        difference,
        unsupported,
    } = allowed();
    let compared: Vec<&str> = JOBS
        .iter()
        .chain(&EVENTS)
        .chain(&SERVICES)
        .map(|run| run.program)
        .chain([LOST])
        .collect();
    for Difference { program, .. } in difference {
        assert!(
            compared.contains(&&*program),
            "{program} is not compared by any test"
        );
    }
    for Unsupported { program, .. } in unsupported {
        assert!(
            UNSUPPORTED.iter().any(|run| run.program == program),
            "{program} is not run by any test"
        );
    }
}

const LOST: &str = "lost";

/// Waits until this number of procs have printed on this output that they are ready.
fn wait_until_ready(process: &mut Child, procs: usize) {
    let mut lines = vec![0; "rank 0: ready\n".len() * procs];
    process
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut lines)
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&lines).matches(": ready\n").count(),
        procs
    );
}

/// Starts the procs itself: `peal run` reads the output of procs, so that nothing of it is seen
/// when `peal run` is gone.
fn lose_peal(program: &Path) -> Vec<String> {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "lost", "-n", "2"]);
    let mut procs = [0, 1].map(|rank| daemon.proc("lost", rank, program).spawn().unwrap());
    procs.iter_mut().for_each(|proc| wait_until_ready(proc, 1));
    daemon.signal(Signal::KILL);
    procs
        .into_iter()
        .flat_map(|proc| finish(proc).expect_status(0).by_rank())
        .collect()
}

fn lose_the_c_server(host: &Path, program: &Path) -> Vec<String> {
    let mut command = Command::new(host);
    command
        .arg("2")
        .arg(program)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut server = command.spawn().unwrap();
    wait_until_ready(&mut server, 2);
    server.kill().unwrap();
    finish(server).by_rank()
}

#[needs(prepared, libpmix)]
#[test]
fn the_loss_of_its_server_is_an_event_for_a_c_program() {
    let host = c_program("host");
    let program = c_program(LOST);
    let ours = lose_peal(&program);
    assert_eq!(ours.len(), 12, "{ours:?}");
    compare_permitted(LOST, &ours, lose_the_c_server(&host, &program));
}
