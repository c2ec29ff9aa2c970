//! `peal ctl`, `peal ps` and `peal monitor` with all capabilities of the server: procs pause and
//! resume, restart, and are monitored.
use peal_needs::needs;
use peal_tests::{finish, shell_job::ShellJob, until};
use serde_json::Value;
use std::process::Stdio;

/// Returns the CPU time of a process in ticks.
fn ticks(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[needs(prepared)]
#[test]
fn paused_procs_use_no_time_until_they_are_resumed() {
    let job = ShellJob::start(2, &[], "echo ready; while :; do :; done");
    let name = job.nspace();
    let pids = job.pids();
    job.ask(&["ctl", "pause", &format!("{name}:1")])
        .expect_status(0);
    let before = ticks(pids[1]);
    let other = ticks(pids[0]);
    until("the other runs on", || ticks(pids[0]) > other + 20);
    assert_eq!(ticks(pids[1]), before);
    // The state is the same for a stop by signal and for a frozen control group.
    assert_eq!(job.states(), ["running", "stopped"]);
    job.ask(&["ctl", "pause", &name]).expect_status(0);
    job.ask(&["ctl", "resume", &name]).expect_status(0);
    until("it runs again", || ticks(pids[1]) > before);
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn restarted_procs_keep_their_names() {
    let says = "test -n \"$PEAL_CHECKPOINT\" && echo \"goes on from $PEAL_CHECKPOINT\"; echo ready; exec sleep 1000";
    let mut job = ShellJob::start(2, &[], says);
    let name = job.nspace();
    let before = job.pids();
    let target = format!("{name}:1");
    let told = job
        .ask(&[
            "ctl",
            "restart",
            &target,
            "--checkpoint",
            "n.1",
            "--wait",
            "--id",
            "again",
        ])
        .expect_status(0);
    assert_eq!(
        (told.stdout.as_str(), told.stderr.as_str()),
        ("again done\n", "")
    );
    assert_eq!([job.line(), job.line()], ["goes on from n.1", "ready"]);
    let after = job.pids();
    assert_eq!(
        (
            after[0] == before[0],
            after[1] == before[1],
            job.states().len()
        ),
        (true, false, 2)
    );
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn usage_is_shown_once_and_at_a_rate() {
    let job = ShellJob::start(1, &[], "echo ready; while :; do :; done");
    let name = job.nspace();
    let told = job.job();
    assert!(
        told["procs"][0]["usage"]["resident_mb"]
            .as_f64()
            .is_some_and(|mb| mb > 0.0),
        "{told}"
    );
    let table = job
        .ask(&["monitor", "usage", &name])
        .expect_status(0)
        .stdout;
    assert!(
        table.starts_with("proc ") && table.contains(&format!("{name}:0 ")),
        "{table}"
    );
    let updates = job
        .ask(&[
            "monitor", "usage", &name, "--rate", "1", "--count", "2", "-o", "json",
        ])
        .expect_status(0)
        .stdout;
    assert_eq!(updates.lines().count(), 2, "{updates}");
    for what in [&[][..], &["--node"], &["--disks"], &["--networks"]] {
        let shown = job
            .ask(&[&["monitor", "usage"], what].concat())
            .expect_status(0)
            .stdout;
        assert!(
            what.contains(&"--disks")
                || what.contains(&"--networks")
                || shown.contains("PMIX_NODE_"),
            "{shown}"
        );
    }
    job.interrupt();
}

#[needs(prepared, cgroups)]
#[test]
fn usage_includes_ended_children_of_proc() {
    let works =
        "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done); sleep 1000 & echo ready; wait";
    let job = ShellJob::start(1, &[], works);
    let told = &job.job()["procs"][0]["usage"];
    assert_eq!(told["tree_processes"], 2, "the shell and its child: {told}");
    let all = told["tree_cpu_seconds"].as_f64().unwrap();
    let own = told["cpu_seconds"].as_f64().unwrap();
    assert!(all > own + 0.05, "{told}");
    let table = job
        .ask(&["monitor", "usage", &job.nspace()])
        .expect_status(0)
        .stdout;
    assert!(
        table.lines().next().unwrap().contains("tree cpu time"),
        "{table}"
    );
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn a_file_that_does_not_grow_raises_an_alert() {
    let job = ShellJob::asleep(1, &[]);
    let file = job.dir().join("out.log");
    std::fs::write(&file, "once").unwrap();
    let path = file.to_str().unwrap();
    let waits = job
        .verb(&["monitor", "file", path, "--time", "1", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let alert = finish(waits.unwrap()).expect_status(0).stdout;
    let alert: Value = serde_json::from_str(&alert).unwrap();
    assert_eq!(alert["code"]["name"], "PMIX_MONITOR_FILE_ALERT");
    let missing = job
        .ask(&["monitor", "file", "/no/such/file", "--time", "1"])
        .expect_status(1);
    assert!(
        missing.stderr.starts_with("peal: the server refuses: "),
        "{}",
        missing.stderr
    );
    job.interrupt();
}
