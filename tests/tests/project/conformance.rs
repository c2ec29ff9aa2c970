//! The same unmodified C programs under Peal and under a host environment on the C library's own
//! server, and a comparison of their output.
use peal_needs::needs;
use peal_tests::{
    compared_programs::{CONTROL, EVENTS, JOBS, SERVICES},
    comparison::{ComparedServer, PermittedDifference, ProgramComparison, compare_lines},
    libpmix::Release,
    root, server_loss,
};
use serde::Deserialize;

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

/// Program that crashes the C server or gets no answer from it, and the reason. Its output under Peal,
/// unless another test has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsupported {
    program: String,
    peal: Option<Vec<String>>,
    reason: String,
}

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
fn compare_permitted(program: &str, ours: &[String], theirs: &[String]) {
    let all = allowed().difference;
    let differences: Vec<PermittedDifference<'_>> = all
        .iter()
        .filter(|difference| difference.program == program)
        .map(|Difference { libpmix, peal, .. }| PermittedDifference { libpmix, peal })
        .collect();
    compare_lines(program, ours, theirs, &differences);
}

/// Compares programs under both servers, except those that the C server does not support.
#[track_caller]
fn compare_all(runs: &[ProgramComparison]) {
    let unsupported = allowed().unsupported;
    let is_supported = |run: &&ProgramComparison| {
        let mut names = unsupported.iter().map(|listed| &listed.program);
        !names.any(|name| name == run.program)
    };
    for run in runs.iter().filter(is_supported) {
        let (ours, theirs) = run.under_both();
        compare_permitted(run.program, &ours, &theirs);
    }
}

/// Returns the programs that are run under both servers.
fn runs() -> Vec<ProgramComparison> {
    [&JOBS[..], &EVENTS, &SERVICES, &CONTROL].concat()
}

#[needs(libpmix)]
#[test]
fn a_job_prints_the_same_under_both_servers_however_it_ends() {
    compare_all(&JOBS);
}

#[needs(libpmix)]
#[test]
fn c_programs_see_the_same_of_events_under_both_servers() {
    compare_all(&EVENTS);
}

#[needs(libpmix)]
#[test]
fn services_are_the_same_under_both_servers() {
    compare_all(&SERVICES);
    compare_all(&CONTROL);
}

#[needs(libpmix)]
#[test]
fn requests_unsupported_by_c_server_are_served() {
    for Unsupported { program, peal, .. } in allowed().unsupported {
        let runs = runs();
        let run = runs.iter().find(|run| run.program == program);
        if let (Some(run), Some(expected)) = (run, peal) {
            assert_eq!(run.under_peal(), expected, "{program}");
        }
    }
}

#[test]
fn differences_table_covers_only_programs_run() {
    let Allowed {
        difference,
        unsupported,
    } = allowed();
    let runs = runs();
    let programs: Vec<&str> = runs.iter().map(|run| run.program).chain([LOST]).collect();
    let named = difference.iter().map(|one| &one.program);
    for program in named.chain(unsupported.iter().map(|one| &one.program)) {
        assert!(
            programs.contains(&&**program),
            "{program} is not compared by any test"
        );
    }
}

const LOST: &str = "lost";

#[needs(prepared, libpmix)]
#[test]
fn the_loss_of_its_server_is_an_event_for_a_c_program() {
    let lose = |server| server_loss::lose(server, &Release::system());
    let ours = lose(ComparedServer::Peal);
    assert_eq!(ours.len(), 12, "{ours:?}");
    compare_permitted(LOST, &ours, &lose(ComparedServer::CLibrary));
}
