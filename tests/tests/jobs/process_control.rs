//! Effects of job control on processes: they pause and resume, end with their process trees, and
//! start again as the same procs.
use peal_needs::needs;
use peal_tests::{Done, peal, program, run};
use std::{fs, path::Path};

/// Runs a job of three procs under this configuration, the first of which controls the others.
fn controlled(settings: &str, program: &Path, args: &[&str]) -> Done {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    fs::write(&config, format!("[run]\n{settings}\n")).unwrap();
    let mut command = peal(["run", "-n", "3", "--events", "--config"]);
    run(command.arg(config).arg("--").arg(program).args(args))
}

fn job(settings: &str, what: &str) -> Done {
    controlled(settings, &program("peal-controlled"), &[what])
}

const WITHOUT_GROUPS: &str = "control_groups = \"off\"";
const WITH_GROUPS: &str = "control_groups = \"try\"";

/// Pauses and resumes procs. With control groups, processes are frozen and do not notice it.
/// Otherwise they are stopped by signals.
fn pauses(settings: &str, stopped: &str) {
    let done = job(settings, "pause").expect_status(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    let [first, second, resumed, terminated] = lines[..] else {
        panic!("{lines:?}")
    };
    assert_eq!(
        (resumed, terminated),
        ("resumed: they run", "terminated: 0 are left")
    );
    for paused in [first, second] {
        assert_eq!(
            paused,
            format!("paused: stopped by signals {stopped}, used [0, 0]")
        );
    }
}

#[needs(prepared)]
#[test]
fn paused_proc_uses_no_cpu_until_resumed() {
    pauses(WITHOUT_GROUPS, "[true, true]");
}

#[needs(prepared, cgroups)]
#[test]
fn paused_control_groups_use_no_cpu_until_resumed() {
    pauses(WITH_GROUPS, "[false, false]");
}

fn ends_alone(settings: &str) {
    for how in ["kill", "terminate"] {
        let done = job(&format!("{settings}\ngrace_ms = 50"), how).expect_status(0);
        assert_eq!(
            done.stdout, "left of rank 1: 0, of rank 2: 3\nleft of rank 2: 0\n",
            "{settings} {how}"
        );
    }
}

#[needs(prepared)]
#[test]
fn ended_proc_leaves_no_process_and_others_keep_running() {
    ends_alone(WITHOUT_GROUPS);
}

#[needs(prepared, cgroups)]
#[test]
fn ended_control_groups_are_empty_and_others_stay() {
    ends_alone(WITH_GROUPS);
}

#[needs(prepared)]
#[test]
fn restarted_rank_keeps_its_name_and_job_continues() {
    let done = job("grace_ms = 5000", "restart").expect_status(0);
    let of_rank = |rank: u32| -> Vec<String> {
        let mark = format!("rank {rank}: ");
        done.by_rank()
            .into_iter()
            .filter(|line| line.starts_with(&mark))
            .collect()
    };
    let start =
        |rank: u32, from: &str| format!("rank {rank}: starts from {from}, was told of {from}");
    let again = "Some(\"seven\")";
    assert_eq!(
        of_rank(1),
        [
            start(1, "None"),
            start(1, again),
            "rank 1: leaves".to_owned()
        ]
    );
    assert_eq!(
        of_rank(0),
        [
            &start(0, "None"),
            "rank 0: restart: done",
            "rank 0: the new rank 1 goes on from there",
            "rank 0: leaves"
        ]
    );
    assert_eq!(
        done.stderr.matches("rank 1 started as process").count(),
        2,
        "{}",
        done.stderr
    );
    for abnormal in ["PMIX_ERR_PROC", "PMIX_ERR_LOST_CONNECTION", "PMIX_ERR_EXIT"] {
        assert!(!done.stderr.contains(abnormal), "{}", done.stderr);
    }
}

#[needs(prepared)]
#[test]
fn a_whole_job_starts_again_where_that_is_configured() {
    let done = job("restart = \"job\"\ngrace_ms = 5000", "restart-job").expect_status(0);
    let lines = done.by_rank();
    for rank in 0..3 {
        for from in ["None", "Some(\"seven\")"] {
            let start = format!("rank {rank}: starts from {from}, was told of {from}");
            assert_eq!(
                lines.iter().filter(|line| **line == start).count(),
                1,
                "{lines:?}"
            );
        }
        assert_eq!(
            lines
                .iter()
                .filter(|line| **line == format!("rank {rank}: leaves"))
                .count(),
            1,
            "{lines:?}"
        );
    }
}

#[needs(prepared)]
#[test]
fn failed_restart_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("program");
    fs::copy(program("peal-controlled"), &copy).unwrap();
    let done = controlled(
        "grace_ms = 5000\non_abort = \"continue\"",
        &copy,
        &["restart-nothing", copy.to_str().unwrap()],
    );
    assert!(
        done.stderr.contains("proc restart failed") && done.status == Some(1),
        "{done:?}"
    );
}
