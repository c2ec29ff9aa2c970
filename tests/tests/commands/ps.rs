//! `peal ps` and `peal monitor` against running jobs: the listing, its repetition on request, and
//! the exit status.
use peal_needs::needs;
use peal_tests::{
    completion::{candidates, completing},
    finish, peal,
    processes::signal,
    run,
    shell_job::ShellJob,
    until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// Returns a listing without the age of jobs and the resource usage of each proc, which change between two
/// listings.
fn at_rest(listing: &Value) -> Value {
    let mut listing = listing.clone();
    for job in listing.as_array_mut().unwrap() {
        let elapsed = job.as_object_mut().unwrap().remove("elapsed").unwrap();
        assert!(elapsed.is_u64(), "{elapsed}");
        for proc in job["procs"].as_array_mut().unwrap() {
            assert!(
                proc.as_object_mut().unwrap().remove("usage").is_some(),
                "{proc}"
            );
        }
    }
    listing
}

#[needs(prepared)]
#[test]
fn jobs_and_procs_are_in_a_table_or_json() {
    let job = ShellJob::asleep(2, &[]);
    let told = job.job();
    let name = told["nspace"].as_str().unwrap();
    assert_eq!(
        (&told["size"], &told["procs"][1]["rank"]),
        (&2.into(), &1.into())
    );
    assert!(
        told["command"]
            .as_str()
            .unwrap()
            .contains("exec sleep 1000"),
        "{told}"
    );
    for proc in told["procs"].as_array().unwrap() {
        assert_eq!(
            (&proc["state"], &proc["executable"]),
            (&"running".into(), &"sh".into())
        );
        let pid = proc["pid"].as_u64().unwrap();
        // The proc prints that it is ready before it has become another program.
        until("the proc sleeps", || {
            std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == b"sleep\n")
        });
    }
    let table = job.ask(&["ps"]).expect_status(0).stdout;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        [
            "job", "user", "rank", "state", "pid", "elapsed", "cpu%", "memory", "command"
        ]
    );
    assert_eq!(lines.len(), 3, "{table}");
    let pid = told["procs"][0]["pid"].to_string();
    assert_eq!(
        (lines[1][0], &lines[1][3..6]),
        (name, &["0", "running", &*pid][..]),
        "{table}"
    );
    let users = run(Command::new("id").arg("-un")).expect_status(0).stdout;
    assert_eq!(lines[1][1], users.trim(), "{table}");
    assert_eq!(
        job.ask(&["ps", name])
            .expect_status(0)
            .stdout
            .lines()
            .count(),
        3
    );

    job.ask(&["ctl", "kill", &format!("{name}:1")])
        .expect_status(0);
    let told = job.job();
    assert_eq!(
        (&told["procs"][1]["state"], &told["procs"][1]["pid"]),
        (&"killed".into(), &Value::Null)
    );
    let other = job.ask(&["ps", "nobody"]).expect_status(1);
    assert_eq!(
        (other.stdout.as_str(), other.stderr.as_str()),
        (
            "no jobs run here\n",
            "peal: no job of yours is called \"nobody\"\n"
        )
    );
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn watch_repeats_output_and_ends_cleanly() {
    let job = ShellJob::asleep(1, &[]);
    let twice = job
        .ask(&["ps", "--watch", "--every", "100ms", "--count", "2"])
        .expect_status(0)
        .stdout;
    assert_eq!(
        (twice.matches("job ").count(), twice.contains("\n\njob ")),
        (2, true),
        "{twice:?}"
    );
    assert!(!twice.contains('\u{1b}'), "this is no terminal: {twice:?}");
    let lines = job
        .ask(&[
            "ps", "--watch", "--every", "100ms", "--count", "3", "-o", "json",
        ])
        .expect_status(0)
        .stdout;
    let seen: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((seen.len(), at_rest(&seen[0])), (3, at_rest(&seen[2])));

    let watch = || {
        job.verb(&["ps", "--watch", "--every", "100ms"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    let mut child = watch().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("job "), "{line}");
    signal(child.id(), Signal::INT);
    finish(child).expect_status(0);

    let mut unread = watch().unwrap();
    drop(unread.stdout.take());
    finish(unread).expect_status(0);

    let mut left = watch().unwrap();
    BufReader::new(left.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    signal(job.pid(), Signal::TERM);
    let lost = finish(left).expect_status(125);
    assert!(
        lost.stderr.contains("the connection to the server"),
        "{}",
        lost.stderr
    );
    job.ends();
}

#[needs(prepared)]
#[test]
fn procs_are_filtered_and_sorted() {
    let job = ShellJob::asleep(3, &[]);
    let name = job.nspace();
    job.ask(&["ctl", "pause", &format!("{name}:1")])
        .expect_status(0);
    let ranks = |more: &[&str]| -> Vec<u64> {
        let told = job.ask(&[&["ps", "-o", "json"], more].concat());
        let jobs: Value = serde_json::from_str(&told.expect_status(0).stdout).unwrap();
        let jobs = jobs.as_array().unwrap().iter();
        let procs = jobs.flat_map(|job| job["procs"].as_array().unwrap());
        procs.map(|proc| proc["rank"].as_u64().unwrap()).collect()
    };
    assert_eq!(ranks(&["--sort", "-rank"]), [2, 1, 0]);
    assert_eq!(ranks(&["--sort", "rank"]), [0, 1, 2]);
    assert_eq!(ranks(&["--state", "stopped"]), [1]);
    assert_eq!(
        ranks(&["--state", "stopped", "--state", "running", "--sort=-rank"]),
        [2, 1, 0]
    );
    let me = rustix::process::geteuid().as_raw().to_string();
    assert_eq!(ranks(&["--user", &me]), [0, 1, 2]);
    assert!(ranks(&["--user", "4000000"]).is_empty());
    let table = job.ask(&["ps", "--sort", "-rank"]).expect_status(0).stdout;
    let rank = |line: &str| line.split_whitespace().nth(3).unwrap().to_owned();
    let ranks: Vec<String> = table.lines().skip(1).map(rank).collect();
    assert_eq!(ranks, ["2", "1", "0"], "{table}");
    let wrong = job.ask(&["ps", "--sort", "size"]).expect_status(2).stderr;
    assert!(
        wrong.contains("there is no column \"size\"; there are node, server, job,"),
        "{wrong}"
    );
    job.ask(&["ctl", "resume", &name]).expect_status(0);
}

/// Two servers leave files in one directory.
#[needs(prepared)]
#[test]
fn several_servers_are_listed_and_named_by_pid() {
    let first = ShellJob::asleep(1, &[]);
    let mut second = peal(["run", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    second
        .env("PMIX_SYSTEM_TMPDIR", first.dir())
        .env_remove("PMIX_SERVER_TMPDIR");
    let mut second = second
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(second.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    let jobs: Value =
        serde_json::from_str(&first.ask(&["ps", "-o", "json"]).expect_status(0).stdout).unwrap();
    assert_eq!(jobs.as_array().map(Vec::len), Some(2), "{jobs}");
    let table = first.ask(&["ps"]).expect_status(0).stdout;
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.starts_with("server "), "{table}");
    let servers: BTreeSet<&str> = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["server"].as_str().unwrap())
        .collect();
    assert_eq!(servers.len(), 2, "{jobs}");
    // One that does not answer is a warning.
    signal(second.id(), Signal::STOP);
    let left = first.ask(&["ps", "-o", "name"]).expect_status(0);
    assert_eq!(left.stdout.lines().count(), 1, "{left:?}");
    assert_eq!(left.stderr.matches("left out: ").count(), 1, "{left:?}");
    // A job may run there.
    let unknown = first.ask(&["ps", "nosuch"]).expect_status(125).stderr;
    assert!(unknown.contains("\"nosuch\" not known"), "{unknown}");
    let unknown = first.ask(&["group", "show", "nosuch"]).expect_status(125);
    assert!(unknown.stderr.contains("is not known"), "{unknown:?}");
    // Names of the other are completed.
    let mut command = completing(&["ctl", "kill", ""]);
    command
        .env("PMIX_SYSTEM_TMPDIR", first.dir())
        .env_remove("PMIX_SERVER_TMPDIR");
    assert_eq!(candidates(&mut command).first(), Some(&first.nspace()));
    // Without any answer it is not known that there are none.
    signal(first.pid(), Signal::STOP);
    for words in [&["ps"][..], &["ps", "-o", "json"], &["group", "list"]] {
        let silent = first.ask(words).expect_status(125);
        assert_eq!(silent.stdout, "", "{silent:?}");
        assert_eq!(
            silent.stderr.matches("no answer in time").count(),
            2,
            "{silent:?}"
        );
    }
    signal(first.pid(), Signal::CONT);
    signal(second.id(), Signal::CONT);
    // Other commands require that one of the servers is named.
    let refused = first.ask(&["ctl", "status"]).expect_status(125).stderr;
    for pid in [first.pid(), second.id()] {
        assert!(
            refused.contains(&format!("\npeal:   --pid {pid}  (")),
            "{refused}"
        );
    }
    first
        .ask(&["ctl", "status", "--pid", &second.id().to_string()])
        .expect_status(0);
    signal(second.id(), Signal::TERM);
    finish(second);
    first.interrupt();
}

#[needs(prepared)]
#[test]
fn bad_input_is_refused_with_valid_input() {
    for (args, says) in [
        (&["ps", "--every", "2s"][..], "--watch"),
        (&["ps", "--watch", "--every", "often"], "is no time"),
        (&["monitor"], "Usage: peal monitor"),
        (&["monitor", "file", "/tmp/x"], "--time <TIME>"),
        (
            &[
                "monitor", "file", "/tmp/x", "--time", "1", "--size", "--modify",
            ],
            "cannot be used with",
        ),
        (&["monitor", "usage", "solver:x"], "is no NSPACE"),
        (&["monitor", "usage", "--count", "2"], "--rate"),
    ] {
        let refused = run(&mut peal(args)).expect_status(2);
        assert!(
            refused.stderr.contains(says),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["ps"][..],
        &["monitor", "usage"],
        &["monitor", "file", "x", "--time", "1"],
    ] {
        let nobody = run(peal(args)
            .env("PMIX_SYSTEM_TMPDIR", dir.path())
            .env_remove("PMIX_SERVER_URI41"))
        .expect_status(125);
        assert!(
            nobody.stderr.contains("check that the server runs"),
            "{args:?}: {}",
            nobody.stderr
        );
        let why = format!(
            "{} is the value of PMIX_SYSTEM_TMPDIR",
            dir.path().display()
        );
        assert!(
            nobody.stderr.contains("`peal serve`") && nobody.stderr.contains(&why),
            "{}",
            nobody.stderr
        );
    }
    for (args, says) in [
        (&["ps", "--help"][..], "peal ps solver --watch"),
        (
            &["monitor", "file", "--help"],
            "Exit status: 0 after the alerts",
        ),
        (
            &["monitor", "usage", "--help"],
            "peal monitor usage solver:0-3 --rate 5s",
        ),
    ] {
        let help = run(&mut peal(args)).expect_status(0).stdout;
        assert!(help.contains(says), "{args:?}: {help}");
    }
}
