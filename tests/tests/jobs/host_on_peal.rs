//! The host environment of `tests/c/host.c` on Peal's library: its server is a `peal` of its own. Programs print what they print
//! under `peal run`, as far as the server decides, and what they print under the same host environment on the C library, as far
//! as the launcher decides. They do so on both libraries.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    compared_programs::{CONTROL, EVENTS, GROUPS, INVITATIONS, JOBS, SERVICES},
    comparison::{ComparedServer, ProgramComparison},
    libpmix::Release,
    root,
};
use serde::Deserialize;
use std::fs;

/// Contents of `tests/c/host_differences.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    difference: Vec<Difference>,
    uncompared: Vec<Uncompared>,
}

/// Line that no other pair of launcher and server prints, and the reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    program: String,
    line: String,
    reason: String,
}

/// Program that is not compared, and the reason.
#[derive(Deserialize)]
struct Uncompared {
    program: String,
    reason: String,
}

fn table() -> HostTable {
    let path = root().join("tests/c/host_differences.toml");
    let table: HostTable = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let differences = table.difference.iter().map(|one| &one.reason);
    let mut reasons = differences.chain(table.uncompared.iter().map(|one| &one.reason));
    assert!(
        reasons.all(|reason| reason.len() > 40),
        "each entry needs a reason"
    );
    table
}

/// Contents of `tests/c/library_differences.toml`, as far as they matter here.
#[derive(Deserialize)]
struct LibraryTable {
    uncompared: Vec<Uncompared>,
}

/// Returns true for a program that does not come to its end in this host environment on the C library.
fn hangs_in_the_c_host(program: &str) -> bool {
    let path = root().join("tests/c/library_differences.toml");
    let table: LibraryTable = toml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    table
        .uncompared
        .iter()
        .any(|entry| entry.program == program)
}

/// Returns the lines that neither `peal run` nor the C library's server shows.
fn own_lines(run: &ProgramComparison, library: &Release) -> Vec<String> {
    let ours = run.in_host_on_peal(library);
    assert!(
        ours.len() >= run.lines,
        "{} printed next to nothing: {ours:?}",
        run.program
    );
    let mut others = run.on(library, ComparedServer::Peal);
    if !hangs_in_the_c_host(run.program) {
        others.extend(run.in_host_on_the_c_library(library));
    }
    ours.into_iter()
        .filter(|line| !others.contains(line))
        .collect()
}

#[track_caller]
fn compare_all(runs: &[ProgramComparison]) {
    let table = table();
    let mut wrong = Vec::new();
    for run in runs {
        if table
            .uncompared
            .iter()
            .any(|exempt| exempt.program == run.program)
        {
            continue;
        }
        let expected: Vec<&str> = table
            .difference
            .iter()
            .filter(|difference| difference.program == run.program)
            .map(|difference| difference.line.as_str())
            .collect();
        for library in [Release::system(), Release::peal()] {
            let own = own_lines(run, &library).into_iter();
            let of_run = |line: String| format!("{} on {}: {line}", run.program, library.name);
            let unknown = own.filter(|line| !expected.iter().any(|part| line.contains(part)));
            wrong.extend(unknown.map(of_run));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[needs(prepared, libpmix)]
#[test]
fn jobs_run_in_a_host_on_peals_library() {
    compare_all(&JOBS);
}

#[needs(prepared, libpmix)]
#[test]
fn events_are_the_same_in_a_host_on_peals_library() {
    compare_all(&EVENTS);
}

#[needs(prepared, libpmix)]
#[test]
fn services_are_the_same_in_a_host_on_peals_library() {
    compare_all(&SERVICES);
}

#[needs(prepared, libpmix)]
#[test]
fn job_control_is_the_same_in_a_host_on_peals_library() {
    compare_all(&CONTROL);
}

#[needs(prepared, libpmix)]
#[test]
fn groups_are_the_same_in_a_host_on_peals_library() {
    compare_all(&GROUPS);
}

#[needs(prepared, libpmix)]
#[test]
fn invitations_are_the_same_in_a_host_on_peals_library() {
    compare_all(&INVITATIONS);
}
