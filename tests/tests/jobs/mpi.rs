//! Unmodified Open MPI programs of 4.1 and 5.0 under `peal run`: output and exit status are the
//! same as under the launcher of their own release.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use peal_needs::needs;
use peal_tests::{
    Done, guest,
    mpi::{OpenMpi, SUITE_LIMIT, all_is_tried, counted, doing, mpi4py, run_under_its_own},
    program, run, run_within,
};
use std::{fs, path::PathBuf, time::Duration};

/// Argument of the program, number of ranks, and exit status.
const TABLE: [(&str, u32, i32); 10] = [
    ("hello", 1, 0),
    ("hello", 3, 0),
    ("ring", 1, 0),
    ("ring", 4, 0),
    ("collectives", 3, 0),
    ("names", 2, 0),
    ("names", 5, 0),
    ("spawn", 2, 0),
    ("abort", 3, 17),
    ("die", 3, 137),
];

/// Runs with more ranks, which take other launchers minutes on two cores: expected text, and number
/// of lines with it.
const WIDE: [(&str, u32, usize, &str); 4] = [
    ("hello", 32, 32, "hello from 31 of 32"),
    ("ring", 16, 1, "ring of 16: 120"),
    (
        "collectives",
        8,
        9,
        "7: sum 36 seed 42 dealt 1 half 16 of 4",
    ),
    ("names", 8, 9, "7: connected to 4"),
];

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn open_mpi_programs_equal_runs_under_own_launcher() {
    for mpi in OpenMpi::both() {
        for (what, procs, status) in TABLE {
            let program = doing(what);
            let ours = run(&mut mpi.under_peal(procs, &[], &program)).expect_status(status);
            let theirs = theirs(&mpi, procs, &program).expect_status(status);
            assert_eq!(ours.stdout, theirs.stdout, "{} {what} on {procs}", mpi.name);
            assert!(
                !ours.stdout.is_empty(),
                "{} {what} on {procs} prints nothing",
                mpi.name
            );
        }
    }
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn many_ranks_find_each_other() {
    for mpi in OpenMpi::both() {
        for (what, procs, lines, line) in WIDE {
            let program = doing(what);
            let done = run(&mut mpi.under_peal(procs, &[], &program)).expect_status(0);
            let count = done.stdout.lines().count();
            let is_there = done.stdout.lines().any(|printed| printed == line);
            assert!(
                count == lines && is_there,
                "{} {what} on {procs}: {}",
                mpi.name,
                done.stdout
            );
        }
    }
}

#[needs(prepared, openmpi4, openmpi5, hwloc)]
#[test]
fn ranks_get_topology_unless_they_are_to_discover_it() {
    let cache = tempfile::tempdir().unwrap();
    for mpi in OpenMpi::both() {
        for (source, is_shared) in [("launcher", true), ("procs", false)] {
            let setting = format!("run.topology={source}");
            // Open MPI says with this which way it takes.
            let mut command = mpi.under_peal(1, &["--set", &setting], doing("hello"));
            command
                .env("OMPI_MCA_hwloc_base_verbose", "1")
                .env("OPAL_MCA_hwloc_base_verbose", "1")
                .env("XDG_CACHE_HOME", cache.path());
            let done = run(&mut command).expect_status(0);
            let said = |text| done.stderr.contains(text);
            assert_eq!(
                (
                    said("loading topology from XML"),
                    said("discovering topology")
                ),
                (is_shared, !is_shared),
                "{} {source}: {}",
                mpi.name,
                done.stderr
            );
        }
    }
    assert_eq!(
        fs::read_dir(cache.path().join("peal/topology"))
            .unwrap()
            .count(),
        1
    );
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn starts_in_a_row_hang_never() {
    let starts = if all_is_tried() { 100 } else { 15 };
    for mpi in OpenMpi::both() {
        let program = doing("hello");
        for start in 0..starts {
            let done = run_within(
                Duration::from_secs(20),
                &mut mpi.under_peal(2, &[], &program),
            );
            let expected = "hello from 0 of 2\nhello from 1 of 2\n";
            assert_eq!(
                done.expect_status(0).stdout,
                expected,
                "{} start {start}",
                mpi.name
            );
        }
    }
}

/// Runs tests of `mpi4py` under Peal and under the launcher of that release. Compares the passed
/// and the failed tests.
fn compare_suite(mpi: &OpenMpi, modules: &str, procs: u32) {
    let suite = mpi4py(modules);
    let ours = run_within(SUITE_LIMIT, &mut mpi.under_peal(procs, &[], &suite)).expect_status(0);
    assert!(
        ours.stderr.contains("\nOK"),
        "{} {modules} on {procs}:\n{}",
        mpi.name,
        ours.stderr
    );
    let ours = counted(&ours);
    let theirs = theirs(mpi, procs, &suite).expect_status(0);
    assert!(
        ours.len() > 1 && ours == counted(&theirs),
        "{} {modules} on {procs}: {ours:?}",
        mpi.name
    );
}

/// Time limit of a run under the release's own launcher.
const OWN_LIMIT: Duration = Duration::from_secs(150);

/// Runs the program under the release's own launcher.
fn theirs(mpi: &OpenMpi, procs: u32, program: &[PathBuf]) -> Done {
    run_under_its_own(mpi, procs, program, OWN_LIMIT)
}

/// Point-to-point, collectives, communicators.
const PLAIN: &str = "test_(p2p|cco|comm)";

#[needs(prepared, openmpi4, openmpi5, mpi4py)]
#[test]
fn mpi4py_tests_pass_as_under_own_launcher() {
    for mpi in OpenMpi::both() {
        for procs in if all_is_tried() {
            [2, 4].as_slice()
        } else {
            &[2]
        } {
            compare_suite(&mpi, PLAIN, *procs);
        }
    }
}

/// With Open MPI 4.1 these hang under its own `mpirun`, and pass under Peal. Each starts procs,
/// which takes a second.
#[needs(prepared, openmpi4, openmpi5, mpi4py)]
#[test]
fn the_tests_of_mpi4py_about_spawning_pass() {
    let (modules, class, tests) = match all_is_tried() {
        true => ("test_(spawn|dynproc)", "test", "48"),
        false => ("test_spawn", "SpawnSingleWorld", "8"),
    };
    for mpi in OpenMpi::both() {
        let mut suite = mpi4py(modules);
        suite.extend(["-k".into(), class.into()]);
        let done = run_within(SUITE_LIMIT, &mut mpi.under_peal(2, &[], &suite)).expect_status(0);
        assert!(
            done.stderr.contains("\nOK"),
            "{}:\n{}",
            mpi.name,
            done.stderr
        );
        assert!(
            counted(&done).contains(&("Ran ", tests.into())),
            "{}:\n{}",
            mpi.name,
            done.stderr
        );
    }
}

/// The launcher of Open MPI 5.0 hangs here.
#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn aborting_child_job_ends_its_parent() {
    for mpi in OpenMpi::both() {
        let program = doing("spawn abort");
        let done = run(&mut mpi.under_peal(2, &[], &program)).expect_status(23);
        assert!(
            done.stderr.contains("rank 1 of the spawned job"),
            "{}: {}",
            mpi.name,
            done.stderr
        );
    }
}

/// Runs an MPI job of which the last rank dies while the others work for this number of seconds. A
/// component logs the death and decides about the job. The event that would end a rank of Open MPI
/// 4.1 is withheld from the ranks.
fn mourned(mpi: &OpenMpi, job: &str, on_abort: &str, seconds: &str) -> Done {
    let doing = doing(&format!("die {seconds}"));
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("peal.toml");
    let module = |name: &str, rest: &str| {
        format!(
            "[[module]]\nname = {name:?}\npath = {:?}\n{rest}\n",
            guest(name)
        )
    };
    let log_abort = module(
        "log-abort",
        &format!("grants = [\"log-request\"]\nconfig = {{ job = {job:?} }}"),
    );
    let stdio = module(
        "stdio",
        "channels = [\"stderr\"]\nsinks = [\"stderr\"]\ngrants = [\"sink\"]",
    );
    fs::write(&config, log_abort + &stdio).unwrap();
    let options = [
        "--events",
        "--on-abort",
        on_abort,
        "--config",
        config.to_str().unwrap(),
    ];
    let attach = [
        "attach".into(),
        "--handler".into(),
        guest("complete"),
        "--".into(),
    ];
    let attached = std::iter::once(program("peal")).chain(attach).chain(doing);
    run(&mut mpi.under_peal(4, &options, attached)).expect_status(137)
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn a_handler_has_the_others_go_on_when_a_rank_is_killed() {
    for mpi in OpenMpi::both() {
        let done = mourned(&mpi, "continue", "terminate", "1");
        let both = "last words of 3\nthe other 3 have worked on: sum 3\n";
        assert_eq!(done.stdout, both, "{}: {}", mpi.name, done.stderr);
        assert!(
            done.stderr
                .contains("continues: handler \"log-abort\" of the site requests no termination"),
            "{}",
            done.stderr
        );
        let line = "@1:3 has ended abnormally (exit status 137): the others are to go on\n";
        assert!(done.stderr.contains(line), "{}: {}", mpi.name, done.stderr);
    }
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn a_handler_has_the_job_end_when_a_rank_is_killed() {
    for mpi in OpenMpi::both() {
        let done = mourned(&mpi, "terminate", "continue", "50");
        assert_eq!(
            done.stdout, "last words of 3\n",
            "{}: {}",
            mpi.name, done.stderr
        );
        assert!(
            done.stderr
                .contains("will end: handler \"log-abort\" of the site requests termination"),
            "{}",
            done.stderr
        );
        let lines: Vec<&str> = done
            .stderr
            .lines()
            .filter(|line| line.contains("has ended abnormally"))
            .collect();
        assert!(
            lines.len() == 1
                && lines[0]
                    .ends_with(":3 has ended abnormally (exit status 137): the job is to end"),
            "{lines:?}"
        );
    }
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn nothing_is_left_behind_a_rank_that_is_killed() {
    for mpi in OpenMpi::both() {
        let program = doing("die");
        let marks = tempfile::tempdir().unwrap();
        let mark = marks.path().join("mark").display().to_string();
        let mut command = mpi.under_peal(4, &["-x", &format!("PEAL_TEST_MARK={mark}")], &program);
        let done = run(&mut command).expect_status(137);
        assert_eq!(
            done.stdout, "last words of 3\n",
            "{}: the output of the dead rank is not lost",
            mpi.name
        );
        let left: Vec<_> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read(entry.ok()?.path().join("environ")).ok())
            .filter(|environ| String::from_utf8_lossy(environ).contains(&mark))
            .collect();
        assert!(
            left.is_empty(),
            "{}: {} processes are left",
            mpi.name,
            left.len()
        );
    }
}
