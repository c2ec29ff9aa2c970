//! Procs that die, programs that do not start, processes that try to stay.
use peal_needs::needs;
use peal_tests::{c_program, guest, peal, run};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
};

fn shell(n: &str, more: &[&str], script: &str) -> peal_tests::Done {
    run(peal(["run", "-n", n])
        .args(more)
        .args(["--", "sh", "-c", script]))
}

fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[needs(prepared, libpmix)]
#[test]
fn killed_proc_becomes_event_and_other_procs_are_served() {
    let job = c_program("job");
    let mut command = peal([
        "run",
        "-n",
        "4",
        "--events",
        "--on-abort",
        "continue",
        "--handler",
    ]);
    let done = run(command
        .arg(guest("report"))
        .arg("--")
        .arg(job)
        .args(["--die", "2"]))
    .expect_status(137);
    let lost = "event PMIX_ERR_LOST_CONNECTION (-61) from rank 2, range PMIX_RANGE_NAMESPACE, through the job's chain:";
    let death = "event PMIX_ERR_PROC_ABORTED_BY_SIG (-402) from the resource manager, range PMIX_RANGE_NAMESPACE";
    assert!(
        done.stderr.contains(lost) && done.stderr.contains(death),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("rank 2 was ended by signal 9"),
        "{}",
        done.stderr
    );
    // The survivors fenced, registered and finalized after the death.
    for rank in [0, 1, 3] {
        assert!(
            done.stderr.contains(&format!("rank {rank} left in order")),
            "{}",
            done.stderr
        );
        assert!(
            done.stderr
                .contains(&format!("rank {rank} exited with status 0")),
            "{}",
            done.stderr
        );
    }
}

#[needs(prepared)]
#[test]
fn by_default_the_job_ends_with_the_first_abnormal_end() {
    let script = "test $PMIX_RANK = 0 && kill -KILL $$; exec sleep 1000";
    let done = shell("3", &["--events"], script).expect_status(137);
    assert!(
        done.stderr
            .contains("is being ended: PMIX_ERR_PROC_ABORTED_BY_SIG (-402)"),
        "{}",
        done.stderr
    );
    assert_eq!(
        done.stderr.matches("was ended by signal 15").count(),
        2,
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn a_proc_that_does_not_heed_the_request_to_end_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[run]\ngrace_ms = 50\n").unwrap();
    // The first proc waits until the other one has set its trap.
    let flag = dir.path().join("deaf");
    let script = format!(
        "if test $PMIX_RANK = 0; then until test -e {flag:?}; do :; done; exit 3; fi; \
         trap '' TERM; touch {flag:?}; while :; do sleep 1000; done"
    );
    let done = shell(
        "2",
        &["--events", "--config", config.to_str().unwrap()],
        &script,
    )
    .expect_status(3);
    assert!(
        done.stderr.contains("rank 1 was ended by signal 9"),
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn no_process_is_left_behind_not_even_one_that_left_its_session() {
    let script = "setsid sh -c 'trap \"\" TERM HUP; echo $$; exec >/dev/null 2>&1; while :; do sleep 1000; done' & \
                  sleep 1000 & echo $!; wait $(jobs -p | head -1) 2>/dev/null & \
                  until test $(cat /proc/[0-9]*/stat 2>/dev/null | grep -c .) -gt 0; do :; done; exit 0";
    let done = shell("2", &[], script).expect_status(0);
    let left: Vec<&str> = done.stdout.lines().filter(|pid| is_there(pid)).collect();
    assert!(done.stdout.lines().count() >= 2, "{done:?}");
    assert!(left.is_empty(), "still there: {left:?}");
}

#[needs(prepared)]
#[test]
fn an_interrupt_ends_the_job_and_shows_in_the_exit_status() {
    let mut command = peal([
        "run",
        "-n",
        "2",
        "--",
        "sh",
        "-c",
        "echo ready; exec sleep 1000",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    peal_tests::finish(child).expect_status(130);
}

#[needs(prepared)]
#[test]
fn exit_status_output_and_input_pass_through() {
    shell("1", &[], "exit 3").expect_status(3);
    let missing = run(&mut peal(["run", "--", "/no/such/program"])).expect_status(127);
    assert!(
        missing
            .stderr
            .contains("cannot start \"/no/such/program\": No such file"),
        "{}",
        missing.stderr
    );
    run(&mut peal(["run", "--", "/etc/passwd"])).expect_status(126);
    let tagged = shell("2", &["--tag-output"], "echo out; echo err >&2").expect_status(0);
    let mut lines: Vec<&str> = tagged.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] out", "[1] out"]);
    assert!(tagged.stderr.contains("[1] err"), "{}", tagged.stderr);

    let mut cat = peal(["run", "-n", "2", "--", "cat"]);
    let mut child = cat
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"for the first proc alone\n")
        .unwrap();
    assert_eq!(
        peal_tests::finish(child).expect_status(0).stdout,
        "for the first proc alone\n"
    );
}

#[needs(prepared)]
#[test]
fn the_record_of_a_job_outlives_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[store]\npath = \"jobs.db\"\n").unwrap();
    let done = shell(
        "2",
        &["--events", "--config", config.to_str().unwrap()],
        "exit 4",
    )
    .expect_status(4);
    let nspace = done.stderr.lines().find_map(|line| {
        line.strip_prefix("peal: job ")?
            .strip_suffix(" starts with 2 procs")
    });
    let store = peal_store::Store::open(
        &dir.path().join("jobs.db"),
        peal_store::StoreSettings::default(),
    )
    .unwrap();
    let record = store
        .job(&peal_model::Nspace::new(nspace.unwrap()).unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(
        (
            record.command.as_str(),
            record.ended.map(|(_, status)| status)
        ),
        ("sh -c exit 4", Some(4))
    );
    assert!(
        record
            .procs
            .iter()
            .any(|(_, how)| how == "exited with status 4"),
        "{record:?}"
    );
}

#[needs(prepared)]
#[test]
fn orphans_that_end_during_the_job_are_reaped() {
    let script = "for i in 1 2 3; do setsid sh -c 'sh -c : & exit 0' & done; wait; \
                  until ! grep -q ') Z ' $(for p in $(cat /proc/$PPID/task/*/children); do echo /proc/$p/stat; done); do :; done";
    shell("1", &[], script).expect_status(0);
}

/// Starts `peal` by a shell command, and waits for the line by which its proc reports that it is
/// ready.
fn ready(script: &str) -> (Child, Pid) {
    let mut command = Command::new("bash");
    command
        .args(["-c", script])
        .env("PEAL", peal_tests::program("peal"))
        .current_dir(peal_tests::root());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut line)
        .unwrap();
    assert_eq!(&line, b"ready\n");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    (child, pid)
}

#[needs(prepared)]
#[test]
fn user_signals_reach_procs_and_ignored_ones_stay_ignored() {
    let (child, pid) =
        ready("exec $PEAL run -- sh -c 'trap \"exit 9\" USR1; echo ready; while :; do :; done'");
    kill_process(pid, Signal::USR1).unwrap();
    peal_tests::finish(child).expect_status(9);
    let (child, pid) = ready("exec $PEAL run -- sh -c 'echo ready; exec sleep 1000'");
    kill_process(pid, Signal::QUIT).unwrap();
    peal_tests::finish(child).expect_status(131);
    let (mut child, pid) =
        ready("trap '' HUP; exec $PEAL run -- sh -c 'echo ready; read line; exit 5'");
    kill_process(pid, Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    peal_tests::finish(child).expect_status(5);
}

#[needs(prepared)]
#[test]
fn children_from_before_the_job_are_left_alone() {
    let (child, _) =
        ready("sleep 1000 >/dev/null 2>&1 & echo $! >&2; exec $PEAL run -- echo ready");
    let done = peal_tests::finish(child).expect_status(0);
    let stranger = done.stderr.lines().next().unwrap();
    assert!(
        is_there(stranger),
        "process {stranger} was not started by the job"
    );
    kill_process(
        Pid::from_raw(stranger.parse().unwrap()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
}

#[needs(prepared)]
#[test]
fn unread_output_of_peal_delays_nothing() {
    let mut command = peal(["run", "--events", "--", "sh", "-c", "exit 3"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    peal_tests::finish(child).expect_status(3);
}
