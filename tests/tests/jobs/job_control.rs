//! `PMIx_Job_control` of an unmodified `libpmix` program under `peal run`, and its effects on the
//! procs.
use peal_needs::needs;
use peal_tests::{Done, c_program, peal, run};

/// Runs the program with this action as a job of three procs.
fn control(more: &[&str], action: &[&str]) -> Done {
    let program = c_program("control");
    run(peal(["run", "-n", "3"])
        .args(more)
        .arg("--")
        .arg(program)
        .args(action))
}

#[needs(prepared, libpmix)]
#[test]
fn signal_reaches_the_procs_that_are_named_and_no_other() {
    let done = control(&[], &["signal"]);
    let lines = done.expect_status(0).by_rank();
    assert_eq!(
        lines,
        [
            "rank 0: signal: SUCCESS (0)",
            "rank 1: got SIGUSR1",
            "rank 2: got SIGUSR1"
        ]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn terminate_is_answered_at_exit_without_abnormal_end() {
    let done = control(&[], &["terminate", "1"]);
    // The other procs are not ended with it, and the exit status is not that of a failure. Rank 2
    // finalized before.
    let done = done.expect_status(0);
    assert_eq!(
        done.by_rank(),
        [
            "rank 0: terminate: SUCCESS (0)",
            "rank 0: its process is gone"
        ]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn proc_ignoring_terminate_is_killed_after_grace() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[run]\ngrace_ms = 50\n").unwrap();
    let done = control(
        &["--events", "--config", config.to_str().unwrap()],
        &["stubborn", "2"],
    );
    let done = done.expect_status(0);
    assert!(
        done.stderr.contains("rank 2 was ended by signal 9"),
        "{}",
        done.stderr
    );
    assert_eq!(
        done.by_rank(),
        [
            "rank 0: terminate: SUCCESS (0)",
            "rank 0: its process is gone"
        ]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn kill_without_targets_ends_own_job_like_an_interrupt() {
    let done = control(&["--events"], &["kill"]);
    let done = done.expect_status(137);
    for rank in 0..3 {
        assert!(
            done.stderr
                .contains(&format!("rank {rank} was ended by signal 9")),
            "{}",
            done.stderr
        );
    }
    assert!(
        done.stdout.is_empty(),
        "the requester was one of them: {}",
        done.stdout
    );
}

#[needs(prepared, libpmix)]
#[test]
fn invalid_requests_are_refused_without_effect() {
    for (action, answer) in [
        ("unknown", "rank 0: kill of an unknown job: NOT-FOUND (-46)"),
        ("nothing", "rank 0: no action: BAD-PARAM (-27)"),
    ] {
        let done = control(&[], &[action]);
        assert_eq!(done.expect_status(0).by_rank(), [answer]);
    }
}

#[needs(prepared, libpmix)]
#[test]
fn registered_paths_are_removed_and_contradictions_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(path("tree/deep/deeper")).unwrap();
    for file in [
        "file",
        "other",
        "tree/one",
        "tree/deep/two",
        "tree/deep/deeper/keep",
    ] {
        std::fs::write(path(file), "x").unwrap();
    }
    let done = control(&[], &["cleanup", dir.path().to_str().unwrap()]);
    let lines = [
        "rank 0: a file: SUCCESS (0)",
        "rank 0: a directory: SUCCESS (0)",
        "rank 0: the same, less deep: PMIX CONFLICTING CLEANUP DIRECTIVES (-51)",
        "rank 0: no path: BAD-PARAM (-27)",
    ];
    assert_eq!(done.expect_status(0).by_rank(), lines);
    let left: Vec<bool> = [
        "file",
        "other",
        "tree/one",
        "tree/deep/two",
        "tree/deep/deeper/keep",
    ]
    .map(|file| path(file).exists())
    .into();
    assert_eq!(left, [false, true, false, false, true]);
}

#[needs(prepared, libpmix)]
#[test]
fn paths_of_several_infos_are_all_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, at: usize| dir.path().join(format!("{name}{at}"));
    (0..8).for_each(|at| std::fs::write(path("file", at), "x").unwrap());
    for at in 0..6 {
        std::fs::create_dir(path("dir", at)).unwrap();
        std::fs::write(path("dir", at).join("inside"), "x").unwrap();
    }
    let done = control(&[], &["cleanup-many", dir.path().to_str().unwrap()]);
    assert_eq!(
        done.expect_status(0).by_rank(),
        ["rank 0: many: SUCCESS (0)"]
    );
    let mut left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(
        left,
        ["dir5", "file7"],
        "exactly the files that were not registered stay"
    );
}
