//! `peal ps` and `peal ctl` for jobs of other launchers. The server knows their procs by the
//! processes that connected, and signals these.
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    daemon::{Daemon, Place},
    program, run, until,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command},
};

/// Runs a command as a tool that finds the server by its rendezvous file.
fn ask(place: &Place, daemon: &Daemon, args: &[&str]) -> Done {
    let mut command = daemon.verb(args);
    run(command
        .env("PMIX_SYSTEM_TMPDIR", place.path(""))
        .env_remove("PMIX_SERVER_URI41"))
}

/// Starts a proc of a registered job, and waits until it is connected.
fn connected(daemon: &Daemon, job: &str, rank: u32, program: &Path) -> Child {
    let mut child = daemon.proc(job, rank, program).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(
        ["ready\n".to_owned(), format!("admitted as rank {rank}\n")].contains(&line),
        "{line}"
    );
    child
}

/// Returns the procs of a job as `peal ps` lists them.
fn procs(place: &Place, daemon: &Daemon, job: &str) -> Vec<Value> {
    let told = ask(place, daemon, &["ps", job, "-o", "json"])
        .expect_status(0)
        .stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    told[0]["procs"].as_array().unwrap().clone()
}

/// Returns the letter of the process state in `/proc`.
fn state(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?
        .1
        .split(' ')
        .next()
        .map(str::to_owned)
}

#[needs(prepared)]
#[test]
fn registered_procs_are_shown_and_controlled_one_by_one() {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "ours", "-n", "3"]);
    let claim = program("peal-test-identity");
    let mut one = connected(&daemon, "ours", 0, &claim);
    let mut other = connected(&daemon, "ours", 1, &claim);
    let told = procs(&place, &daemon, "ours");
    assert_eq!(
        (&told[0]["state"], &told[0]["pid"]),
        (&"running".into(), &one.id().into()),
        "{told:?}"
    );
    assert_eq!(told[1]["pid"], other.id(), "{told:?}");
    assert!(
        told[0]["usage"]["resident_mb"]
            .as_f64()
            .is_some_and(|mb| mb > 0.1),
        "{told:?}"
    );
    assert!(
        told[0]["executable"]
            .as_str()
            .unwrap()
            .ends_with("peal-test-identity"),
        "{told:?}"
    );
    assert_eq!(
        (&told[2]["state"], &told[2]["pid"]),
        (&Value::Null, &Value::Null),
        "it has not connected"
    );

    let ctl = |args: &[&str]| ask(&place, &daemon, &[&["ctl"], args].concat());
    ctl(&["pause", "ours:0"]).expect_status(0);
    assert_eq!(
        (
            state(one.id()).as_deref(),
            state(other.id()).as_deref() == Some("T")
        ),
        (Some("T"), false)
    );
    assert_eq!(procs(&place, &daemon, "ours")[0]["state"], "stopped");
    ctl(&["resume", "ours:0"]).expect_status(0);
    assert_ne!(state(one.id()).as_deref(), Some("T"));
    let absent = ctl(&["pause", "ours:2"]).expect_status(1);
    assert!(
        absent
            .stderr
            .contains("no accessible process of this proc has connected"),
        "{}",
        absent.stderr
    );
    let again = ctl(&["restart", "--wait", "ours:0"]).expect_status(1);
    assert!(
        again.stderr.contains("not started by this launcher"),
        "{}",
        again.stderr
    );

    ctl(&["signal", "USR1", "ours:0"]).expect_status(0);
    assert_eq!(one.wait().unwrap().signal(), Some(10));
    until("its end is seen", || {
        procs(&place, &daemon, "ours")[0]["state"] == "ended"
    });
    ctl(&["kill", "ours:0"]).expect_status(0);
    ctl(&["kill", "ours:1"]).expect_status(0);
    assert_eq!(other.wait().unwrap().signal(), Some(9));

    let mut late = connected(&daemon, "ours", 2, &claim);
    assert_eq!(procs(&place, &daemon, "ours")[2]["pid"], late.id());
    ctl(&["terminate", "ours:2"]).expect_status(0);
    assert_eq!(late.wait().unwrap().signal(), Some(15));
}

#[needs(prepared, libpmix)]
#[test]
fn registered_programs_of_libpmix_are_controlled() {
    let stays = c_program("stays");
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "ours", "-n", "1"]);
    let mut proc = connected(&daemon, "ours", 0, &stays);
    assert_eq!(procs(&place, &daemon, "ours")[0]["pid"], proc.id());
    ask(&place, &daemon, &["ctl", "pause", "ours"]).expect_status(0);
    assert_eq!(state(proc.id()).as_deref(), Some("T"));
    ask(&place, &daemon, &["ctl", "kill", "ours"]).expect_status(0);
    assert_eq!(proc.wait().unwrap().signal(), Some(9));
}

/// Returns the number of procs of a job that ended without finalizing.
fn lost(daemon: &Daemon, job: &str) -> u64 {
    let jobs: Value = serde_json::from_str(&daemon.tell(&["job", "list", "-o", "json"])).unwrap();
    let job = jobs
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["nspace"] == job)
        .unwrap();
    job["lost"].as_u64().unwrap()
}

#[needs(prepared)]
#[test]
fn named_processes_are_controlled_before_they_connect() {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "ours", "-n", "2"]);
    let mut absent = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = absent.id().to_string();
    daemon.tell(&["job", "started", "ours", "0", &pid]);
    let told = procs(&place, &daemon, "ours");
    assert_eq!(
        (&told[0]["state"], &told[0]["pid"]),
        (&"running".into(), &absent.id().into()),
        "{told:?}"
    );
    assert_eq!(lost(&daemon, "ours"), 0);
    ask(&place, &daemon, &["ctl", "kill", "ours:0"]).expect_status(0);
    assert_eq!(absent.wait().unwrap().signal(), Some(9));
    until("its end is noticed", || lost(&daemon, "ours") == 1);

    // A named proc that finalizes is not lost.
    let mut orderly = daemon
        .proc("ours", 1, &program("peal-test-identity"))
        .spawn()
        .unwrap();
    daemon.tell(&["job", "started", "ours", "1", &orderly.id().to_string()]);
    let mut line = String::new();
    BufReader::new(orderly.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    drop(orderly.stdin.take());
    assert!(orderly.wait().unwrap().success());
    until("it is known to have ended", || {
        procs(&place, &daemon, "ours")[1]["state"] == "ended"
    });
    assert_eq!(lost(&daemon, "ours"), 1);
}

#[needs(prepared)]
#[test]
fn processes_that_cannot_be_procs_are_refused() {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "ours", "-n", "2"]);
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let own = std::process::id().to_string();
    let gone = gone.id().to_string();
    let refused = |args: [&str; 3], reason: &str| {
        let mut command = daemon.verb(&["job", "started"]);
        let done = run(command.args(args)).expect_status(125);
        assert!(done.stderr.contains(reason), "{args:?}: {}", done.stderr);
    };
    refused(
        ["ours", "2", &own],
        "job \"ours\" has 2 procs: there is no rank 2",
    );
    refused(
        ["theirs", "0", &own],
        "no job \"theirs\" was registered here",
    );
    refused(["ours", "0", &gone], &format!("there is no process {gone}"));
    refused(["ours", "0", &daemon.pid().to_string()], "is this server");
    for wrong in [
        ["ours", "zero", "1"],
        ["ours", "0", "-1"],
        ["ours", "0", "0"],
        ["a/b", "0", "1"],
    ] {
        let mut command = daemon.verb(&["job", "started"]);
        run(command.args(wrong)).expect_status(2);
    }
    // This number of processes may be one proc, and no more.
    let mut many: Vec<_> = (0..17)
        .map(|_| Command::new("sleep").arg("1000").spawn().unwrap())
        .collect();
    for child in &many[..16] {
        daemon.tell(&["job", "started", "ours", "0", &child.id().to_string()]);
    }
    refused(
        ["ours", "0", &many[16].id().to_string()],
        "16 processes of this proc run already",
    );
    for child in &mut many {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    until("their ends are noticed", || lost(&daemon, "ours") == 1);
}

#[needs(prepared, root)]
#[test]
fn process_of_another_user_is_no_proc() {
    let place = Place::new();
    let daemon = place.start();
    let nobody = NOBODY.to_string();
    daemon.tell(&[
        "job", "register", "theirs", "-n", "1", "--uid", &nobody, "--gid", &nobody,
    ]);
    let mut command = daemon.verb(&[
        "job",
        "started",
        "theirs",
        "0",
        &std::process::id().to_string(),
    ]);
    let refused = run(&mut command).expect_status(125);
    assert!(
        refused
            .stderr
            .contains("runs as user 0, job \"theirs\" as user 65534"),
        "{}",
        refused.stderr
    );
}

/// User that has no processes.
const NOBODY: u32 = 65_534;

#[needs(prepared, root)]
#[test]
fn jobs_of_all_users_are_shown_to_root() {
    let place = Place::new();
    let daemon = place.start();
    let nobody = NOBODY.to_string();
    daemon.tell(&[
        "job", "register", "theirs", "-n", "2", "--uid", &nobody, "--gid", &nobody,
    ]);
    daemon.tell(&["job", "register", "ours", "-n", "1"]);
    let shown = ask(&place, &daemon, &["ps"]).expect_status(0);
    assert_eq!(
        shown
            .stdout
            .lines()
            .filter(|line| line.starts_with("theirs"))
            .count(),
        2,
        "{}",
        shown.stdout
    );
    assert_eq!(shown.stderr, "");
    // Permission to see a proc does not include permission to control it.
    let refused = ask(&place, &daemon, &["ctl", "kill", "theirs"]).expect_status(1);
    assert!(
        refused.stderr.contains("belongs to user 65534") && !refused.stderr.contains("Some("),
        "{refused:?}"
    );
}

#[needs(prepared)]
#[test]
fn refusals_have_a_reason_in_text() {
    let place = Place::new();
    place.configure("[policy]\nquery.default = \"deny\"\n");
    let daemon = place.start();
    daemon.tell(&["job", "register", "ours", "-n", "1"]);
    let refused = ask(&place, &daemon, &["ps"]).expect_status(125);
    assert!(
        refused
            .stderr
            .contains("the site's default for query is to deny"),
        "{}",
        refused.stderr
    );
    assert!(
        !refused.stderr.contains("String(") && !refused.stderr.contains("Some("),
        "{}",
        refused.stderr
    );
}
