//! Open MPI programs of 4.1 and 5.0, unmodified, under `peal run`: what they print and how they end is what it is under the launcher of
//! their own release.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use peal_tests::{
    Done,
    mpi::{OpenMpi, doing, mpi4py},
    run, run_within,
};
use std::{fs, time::Duration};

/// What the program does, on how many ranks, and the exit status.
const TABLE: [(&str, u32, i32); 16] = [
    ("hello", 1, 0),
    ("hello", 2, 0),
    ("hello", 32, 0),
    ("ring", 1, 0),
    ("ring", 4, 0),
    ("ring", 16, 0),
    ("collectives", 1, 0),
    ("collectives", 3, 0),
    ("collectives", 8, 0),
    ("names", 2, 0),
    ("names", 5, 0),
    ("spawn", 1, 0),
    ("spawn", 4, 0),
    ("spawn abort", 2, 23),
    ("abort", 3, 17),
    ("die", 3, 137),
];

#[test]
fn open_mpi_programs_do_the_same_under_peal_as_under_their_own_launcher() {
    for mpi in OpenMpi::all() {
        for (what, procs, status) in TABLE {
            let Some(program) = doing(what) else { return };
            let ours = run(&mut mpi.under_peal(procs, &[], &program)).expect_status(status);
            let theirs = run(&mut mpi.under_its_own(procs, &program)).expect_status(status);
            let lines = |done: &Done| done.stdout.lines().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(lines(&ours), lines(&theirs), "{} {what} on {procs}", mpi.name);
            let prints = !what.contains("spawn abort");
            assert!(!prints || !ours.stdout.is_empty(), "{} {what} on {procs} prints nothing", mpi.name);
        }
    }
}

#[test]
fn a_hundred_starts_in_a_row_hang_never() {
    for mpi in OpenMpi::all() {
        let Some(program) = doing("hello") else { return };
        for start in 0..100 {
            let done = run_within(Duration::from_secs(20), &mut mpi.under_peal(2, &[], &program));
            assert_eq!(
                done.expect_status(0).stdout,
                "hello from 0 of 2\nhello from 1 of 2\n",
                "{} start {start}",
                mpi.name
            );
        }
    }
}

/// Runs tests of `mpi4py` under Peal and under the launcher of that release, and compares what passes and what fails.
fn compare_suite(mpi: &OpenMpi, modules: &str, procs: u32) {
    let Some(suite) = mpi4py(modules) else { return };
    let limit = Duration::from_secs(150);
    let ours = run_within(limit, &mut mpi.under_peal(procs, &[], &suite)).expect_status(0);
    let theirs = run_within(limit, &mut mpi.under_its_own(procs, &suite)).expect_status(0);
    for done in [&ours, &theirs] {
        assert!(done.stderr.contains("\nOK"), "{} {modules} on {procs}:\n{}", mpi.name, done.stderr);
    }
    assert_eq!(counted(&ours), counted(&theirs), "{} {modules} on {procs}", mpi.name);
}

/// How many tests each rank ran and skipped. All pass, or the exit status says so.
fn counted(done: &Done) -> Vec<String> {
    let said = |line: &&str| line.starts_with("Ran ") || line.starts_with("OK");
    let without_time = |line: &str| line.split(" in ").next().unwrap_or(line).to_owned();
    let mut lines: Vec<String> = done.stderr.lines().filter(said).map(without_time).collect();
    lines.sort();
    lines.dedup();
    lines
}

/// Point-to-point, collectives, communicators.
const PLAIN: &str = "test_(p2p|cco|comm)";

#[test]
fn the_tests_of_mpi4py_pass_as_they_do_under_the_release_s_own_launcher() {
    for mpi in OpenMpi::all() {
        for procs in [2, 4] {
            compare_suite(&mpi, PLAIN, procs);
        }
    }
}

/// With Open MPI 4.1 these hang under its own `mpirun`, and pass under Peal.
#[test]
fn the_tests_of_mpi4py_about_spawning_pass() {
    for mpi in OpenMpi::all() {
        let Some(suite) = mpi4py("test_(spawn|dynproc)") else { return };
        let done = run_within(Duration::from_secs(150), &mut mpi.under_peal(2, &[], &suite)).expect_status(0);
        assert!(done.stderr.contains("\nOK"), "{}:\n{}", mpi.name, done.stderr);
        assert!(counted(&done).iter().any(|line| line == "Ran 48 tests"), "{}:\n{}", mpi.name, done.stderr);
    }
}

#[test]
fn nothing_is_left_behind_a_rank_that_is_killed() {
    for mpi in OpenMpi::all() {
        let Some(program) = doing("die") else { return };
        let marks = tempfile::tempdir().unwrap();
        let mark = marks.path().join("mark").display().to_string();
        let mut command = mpi.under_peal(4, &["-x", &format!("PEAL_TEST_MARK={mark}")], &program);
        let done = run(&mut command).expect_status(137);
        assert_eq!(done.stdout, "last words of 3\n", "{}: the output of who dies is not lost", mpi.name);
        let left: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read(entry.ok()?.path().join("environ")).ok())
            .filter(|environ| String::from_utf8_lossy(environ).contains(&mark))
            .collect();
        assert!(left.is_empty(), "{}: {} processes are left", mpi.name, left.len());
    }
}
