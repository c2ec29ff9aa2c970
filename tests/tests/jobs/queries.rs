//! Answers to a tool of the C library about jobs, their procs and the server (`PMIx_Query_info`),
//! as described in `docs/src/run/queries.md`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]
use peal_client::ToolSettings;
use peal_model::{KeyName, UserIdentity, key};
use peal_needs::needs;
use peal_tests::{c_program, daemon::Place, run, shell_job::ShellJob};
use rustix::process::{getegid, geteuid};
use std::{fs, path::Path, process::Command};

/// Script of a proc that ignores SIGTERM.
const STUBBORN: &str = "trap 'echo told' TERM; echo ready; while :; do sleep 1000 & wait; done";

/// Returns the output of a tool that queries the server whose files are in this directory.
#[track_caller]
fn told(dir: &Path, asked: &[KeyName], qualifiers: &[&str]) -> Vec<String> {
    let mut command = Command::new(c_program("query"));
    command
        .args(asked.iter().map(|key| key.0))
        .arg("--")
        .args(qualifiers);
    command
        .env("PMIX_SYSTEM_TMPDIR", dir)
        .env_remove("PMIX_SERVER_URI41");
    run(&mut command)
        .expect_status(0)
        .stdout
        .lines()
        .map(str::to_owned)
        .collect()
}

fn of_job(job: &str) -> String {
    format!("{}={job}", key::PMIX_NSPACE.0)
}

/// Returns the numbers that are printed after a key.
fn numbers(lines: &[String], behind: KeyName) -> Vec<f64> {
    let is_meant = |line: &&String| line.contains(&format!("{}: ", behind.0));
    lines
        .iter()
        .filter(is_meant)
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect()
}

#[needs(prepared, libpmix)]
#[test]
fn a_job_runs_until_it_is_being_ended() {
    let asked = key::PMIX_QUERY_JOB_STATUS;
    let mut running = ShellJob::start(2, &["--set", "run.grace_ms=60000"], STUBBORN);
    let job = of_job(&running.nspace());
    let status = |running: &ShellJob| told(running.dir(), &[asked], &[&job]);
    let lines = status(&running);
    assert_eq!(
        lines,
        ["query: SUCCESS".to_owned(), format!("{}: SUCCESS", asked.0)]
    );
    running.ask_to_end();
    assert_eq!([running.line(), running.line()], ["told"; 2]);
    assert_eq!(status(&running)[1], format!("{}: JOB CANCELED", asked.0));
    assert_eq!(
        told(running.dir(), &[asked], &[]),
        ["query: BAD-PARAM"],
        "which job?"
    );
    assert_eq!(
        told(running.dir(), &[asked], &[&of_job("nobody")]),
        ["query: NOT-FOUND"]
    );
    // A second request does not wait for the end of the grace period.
    running.interrupt();
}

#[needs(prepared, libpmix)]
#[test]
fn table_of_procs_has_the_end_of_each() {
    let asked = key::PMIX_QUERY_PROC_TABLE;
    let script = "echo ready; case $PMIX_RANK in 1) exit 0;; 2) exit 3;; 3) kill -9 $$;; esac; exec sleep 1000";
    let running = ShellJob::start(5, &["--set", "run.on_abort=continue"], script);
    let job = running.nspace();
    running
        .ask(&["ctl", "terminate", &format!("{job}:4")])
        .expect_status(0);
    let state = |rank: u32, state: u8| format!("{} {rank}: state {state}", asked.0);
    // States by the Standard's numbers: running, terminated, terminated with a status other than
    // zero, by a signal, on request.
    let wanted = [
        state(0, 5),
        state(1, 20),
        state(2, 62),
        state(3, 54),
        state(4, 51),
    ];
    let table = || told(running.dir(), &[asked], &[&of_job(&job)]);
    let mut lines = table();
    // Only the server waits for the end of a process.
    for _ in 0..100 {
        if lines[2..] == wanted {
            break;
        }
        lines = table();
    }
    assert_eq!(lines[2..], wanted, "{lines:?}");
    running.interrupt();
}

#[needs(prepared, libpmix)]
#[test]
fn memory_is_reported_of_server_and_procs_singly_or_together() {
    let asked = key::PMIX_QUERY_MEMORY_USAGE;
    let running = ShellJob::asleep(3, &[]);
    let job = of_job(&running.nspace());
    let ask = |qualifiers: &[&str]| {
        let lines = told(running.dir(), &[asked], qualifiers);
        assert_eq!(
            numbers(&lines, key::PMIX_DAEMON_MEMORY).len(),
            1,
            "{lines:?}"
        );
        lines
    };
    let each = ask(&[&job]);
    let each = numbers(&each, key::PMIX_PROC_RSS);
    assert!(
        each.len() == 3 && each.iter().all(|megabytes| *megabytes > 0.0),
        "{each:?}"
    );
    assert_eq!(
        numbers(&ask(&[]), key::PMIX_PROC_RSS).len(),
        3,
        "it is the only job"
    );
    let one = ask(&[&job, &format!("{}=1", key::PMIX_RANK.0)]);
    assert_eq!(numbers(&one, key::PMIX_PROC_RSS).len(), 1);
    let average = ask(&[
        &job,
        key::PMIX_QUERY_LOCAL_ONLY.0,
        key::PMIX_QUERY_REPORT_AVG.0,
    ]);
    assert!(numbers(&average, key::PMIX_PROC_RSS).is_empty());
    assert!(
        matches!(numbers(&average, key::PMIX_CLIENT_AVG_MEMORY)[..], [average] if average > 0.0),
        "{average:?}"
    );
    let ends = ask(&[&job, key::PMIX_QUERY_REPORT_MINMAX.0]);
    assert_eq!(numbers(&ends, key::PMIX_PROC_RSS).len(), 2);
    running.interrupt();
}

#[needs(prepared, libpmix)]
#[test]
fn debugger_support_is_reported_by_launching_server_only() {
    let asked = [key::PMIX_QUERY_SPAWN_SUPPORT, key::PMIX_QUERY_DEBUG_SUPPORT];
    let running = ShellJob::asleep(1, &[]);
    let lines = told(running.dir(), &asked, &[]);
    let [status, spawn, debug] = &lines[..] else {
        panic!("{lines:?}")
    };
    assert!(
        spawn.starts_with(asked[0].0) && spawn.contains(key::PMIX_WDIR.0),
        "{spawn}"
    );
    assert_eq!(
        (status.as_str(), debug),
        ("query: SUCCESS", &format!("{}: \"\"", asked[1].0))
    );
    running.interrupt();

    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "team", "-n", "2"]);
    let ask = |asked: &[KeyName], job: &str| told(&place.path(""), asked, &[&of_job(job)]);
    assert_eq!(ask(&asked, "team"), ["query: NOT-FOUND"]);
    let status = key::PMIX_QUERY_JOB_STATUS;
    assert_eq!(
        ask(&[status], "team"),
        [
            "query: SUCCESS".to_owned(),
            format!("{}: SUCCESS", status.0)
        ]
    );
    let memory = ask(&[key::PMIX_QUERY_MEMORY_USAGE], "team");
    assert_eq!(
        (
            numbers(&memory, key::PMIX_DAEMON_MEMORY).len(),
            memory.len()
        ),
        (1, 3),
        "{memory:?}"
    );
}

/// Both libraries look for themselves. The C library's has to find exactly one server before it
/// does so.
#[needs(prepared, libpmix)]
#[tokio::test(flavor = "multi_thread")]
async fn servers_are_found_by_files_without_connection() {
    let servers = [ShellJob::asleep(1, &[]), ShellJob::asleep(1, &[])];
    let dir = servers[0].dir();
    let of = |field: KeyName, value: &str| {
        format!("{} {}: {value}", key::PMIX_SERVER_INFO_ARRAY.0, field.0)
    };
    let lines = told(dir, &[key::PMIX_QUERY_AVAIL_SERVERS], &[]);
    let pid = of(key::PMIX_SERVER_PIDINFO, &servers[0].pid().to_string());
    assert_eq!(
        (
            lines.len(),
            lines.iter().filter(|line| **line == pid).count()
        ),
        (9, 1),
        "{lines:?}"
    );
    let places = |dir: &Path| {
        let mut settings = ToolSettings::from(|_| None).unwrap();
        settings.places.directory = dir.to_owned();
        settings.places
    };
    let found = places(dir).servers().await.unwrap();
    let [server] = &found[..] else {
        panic!("{found:?}")
    };
    let own = UserIdentity {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    };
    assert_eq!(
        (server.pid, server.identity),
        (Some(servers[0].pid()), Some(own))
    );
    assert!(
        server.release.is_some() && server.started.is_some(),
        "{server:?}"
    );

    // Beside the files of this server are those of another one, and an incomplete file.
    let session = format!("peal-{}", own.uid);
    for entry in servers[1]
        .dir()
        .join(&session)
        .read_dir()
        .unwrap()
        .map(Result::unwrap)
    {
        if entry.file_name().to_str().unwrap().starts_with("pmix.") {
            fs::copy(entry.path(), dir.join(entry.file_name())).unwrap();
        }
    }
    fs::write(
        dir.join(format!("pmix.{}.tool.torn", places(dir).host)),
        "no address\n",
    )
    .unwrap();
    let mut pids: Vec<u32> = places(dir)
        .servers()
        .await
        .unwrap()
        .iter()
        .filter_map(|server| server.pid)
        .collect();
    pids.sort_unstable();
    let mut wanted = servers.each_ref().map(ShellJob::pid);
    wanted.sort_unstable();
    assert_eq!(pids, wanted);
    assert_eq!(places(&dir.join("nowhere")).servers().await.unwrap(), []);
}
