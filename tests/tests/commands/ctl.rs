//! `peal ctl` against running jobs. A request affects exactly the named procs, and a request that
//! was not carried out is reported with the reason.
use peal_needs::needs;
use peal_tests::{daemon::Place, on_terminal, peal, run, shell_job::ShellJob};
use serde_json::Value;

/// Script of procs that print a line at SIGUSR1, and go on.
const TELLS: &str = "trap 'echo told' USR1; echo ready; while :; do sleep 1000; done";

#[needs(prepared)]
#[test]
fn kill_ends_only_named_procs() {
    let job = ShellJob::asleep(3, &["--events"]);
    let name = job.nspace();
    let killed = job
        .ask(&[
            "ctl",
            "kill",
            &format!("{name}:1"),
            "--id",
            "mine",
            "-o",
            "json",
        ])
        .expect_status(0);
    let told: Value = serde_json::from_str(&killed.stdout).unwrap();
    assert_eq!(
        (&told["request"], &told["end"], &told["id"]),
        (&"kill".into(), &"done".into(), &"mine".into())
    );
    assert_eq!(
        (
            told["not_done"].as_array().map(Vec::len),
            killed.stderr.as_str()
        ),
        (Some(0), "")
    );
    assert_eq!(job.states(), ["running", "killed", "running"]);
    // Terminating a job that has ended succeeds.
    let again = job
        .ask(&["ctl", "kill", &format!("{name}:0-1")])
        .expect_status(0);
    assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("", ""));
    assert_eq!(job.states(), ["killed", "killed", "running"]);
    let done = job.interrupt();
    assert!(
        done.stderr.contains("rank 1 was ended by signal 9"),
        "{}",
        done.stderr
    );
}

#[needs(prepared)]
#[test]
fn terminate_is_answered_when_the_procs_have_ended() {
    let job = ShellJob::asleep(3, &[]);
    let name = job.nspace();
    job.ask(&[
        "ctl",
        "terminate",
        &format!("{name}:0"),
        &format!("{name}:2"),
    ])
    .expect_status(0);
    assert_eq!(job.states(), ["killed", "running", "killed"]);
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn signal_reaches_running_procs_and_others_are_named() {
    let mut job = ShellJob::start(3, &[], TELLS);
    let name = job.nspace();
    job.ask(&["ctl", "signal", "USR1", &name]).expect_status(0);
    assert_eq!([job.line(), job.line(), job.line()], ["told"; 3]);
    job.ask(&["ctl", "kill", &format!("{name}:2")])
        .expect_status(0);
    let partly = job
        .ask(&[
            "ctl",
            "signal",
            "sigusr1",
            &format!("{name}:0,2"),
            "-o",
            "json",
        ])
        .expect_status(1);
    assert_eq!(job.line(), "told");
    let says =
        format!("peal: signal of {name}:2 failed: it has ended (PMIX_ERR_NOT_FOUND (-46))\n");
    assert_eq!(partly.stderr, says);
    let told: Value = serde_json::from_str(&partly.stdout).unwrap();
    assert_eq!(
        (&told["end"], &told["status"]),
        (&"partly".into(), &Value::Null)
    );
    let [of] = &told["not_done"].as_array().unwrap()[..] else {
        panic!("{told}")
    };
    assert_eq!(of["proc"], format!("{name}:2"));
    assert_eq!(
        (&of["status"]["name"], &of["reasons"][0]),
        (&"PMIX_ERR_NOT_FOUND".into(), &"it has ended".into())
    );
    let nobody = job
        .ask(&["ctl", "signal", "10", &format!("{name}:2")])
        .expect_status(1);
    assert_eq!(nobody.stderr, says);
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn unknown_proc_is_named_and_others_are_unchanged() {
    let job = ShellJob::asleep(2, &[]);
    let name = job.nspace();
    for (targets, says) in [
        (vec![format!("{name}:0"), "nobody".to_owned()], "nobody"),
        (vec![format!("{name}:0,7")], ":7 does not exist"),
        (vec!["nobody:3".to_owned()], "nobody"),
    ] {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let refused = job
            .ask(&[&["ctl", "kill", "-o", "json"], &targets[..]].concat())
            .expect_status(1);
        assert!(
            refused.stderr.starts_with("peal: kill is refused: "),
            "{targets:?}: {}",
            refused.stderr
        );
        assert!(
            refused.stderr.contains(says) && refused.stderr.contains("(-46)"),
            "{targets:?}: {}",
            refused.stderr
        );
        let told: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(
            (&told["end"], &told["status"]["number"]),
            (&"refused".into(), &(-46).into()),
            "{told}"
        );
        assert!(
            told["reasons"][0].as_str().unwrap().contains(says),
            "{told}"
        );
    }
    assert_eq!(job.states(), ["running", "running"]);
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn forbidden_request_is_refused_with_reason() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[policy]\njob_control.default = \"deny\"\n").unwrap();
    let job = ShellJob::asleep(1, &["--config", config.to_str().unwrap()]);
    let refused = job.ask(&["ctl", "kill", &job.nspace()]).expect_status(1);
    let says = "peal: kill is refused: the site's default for job-control is to deny (PMIX_ERR_NO_PERMISSIONS (-23))\n";
    assert_eq!(
        (refused.stdout.as_str(), refused.stderr.as_str()),
        ("", says)
    );
    assert_eq!(job.states(), ["running"]);
    job.interrupt();
}

#[needs(prepared, script)]
#[test]
fn timed_out_command_reports_pending_request() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[run]\ngrace_ms = 3600000\n").unwrap();
    let stubborn = "trap '' TERM; echo ready; exec sleep 1000";
    let job = ShellJob::start(1, &["--config", config.to_str().unwrap()], stubborn);
    let target = format!("{}:0", job.nspace());
    let late = job
        .ask(&[
            "ctl",
            "terminate",
            &target,
            "--timeout",
            "50ms",
            "-o",
            "json",
        ])
        .expect_status(124);
    assert_eq!(
        late.stderr,
        "peal: terminate was not answered in time; it may still happen\n"
    );
    assert_eq!(
        serde_json::from_str::<Value>(&late.stdout).unwrap()["end"],
        "late"
    );
    assert_eq!(job.states(), ["running"]);
    // On a terminal, the command shows its progress and the time, and removes them at the end.
    let screen = on_a_terminal(
        &job,
        &["ctl", "terminate", &target, "--yes", "--timeout", "2s"],
    );
    let wheel = screen
        .find("\r\u{1b}[2K\u{1b}[36m")
        .unwrap_or_else(|| panic!("{screen:?}"));
    let line = format!(" terminate {target} (0 s)");
    assert!(screen[wheel..].contains(&line), "{screen:?}");
    assert!(
        screen.ends_with(
            "\r\u{1b}[2Kpeal: terminate was not answered in time; it may still happen\r\n"
        ),
        "{screen:?}"
    );
    run(&mut job.verb(&["ctl", "kill", &target]));
    job.ends();
}

/// Returns the output of a command on a terminal.
fn on_a_terminal(job: &ShellJob, args: &[&str]) -> String {
    let mut script = on_terminal(&job.verb(args));
    run(script.stdin(std::process::Stdio::null())).stdout
}

#[needs(prepared)]
#[test]
fn the_end_of_a_whole_job_is_no_accident() {
    let job = ShellJob::asleep(2, &["--events"]);
    let name = job.nspace();
    // The server ends with its job, so it may or may not answer before.
    let mut command = job.verb(&["ctl", "terminate", &name]);
    let ended = std::thread::spawn(move || run(&mut command));
    let done = job.ends();
    assert!(!done.stderr.contains("aborted"), "{}", done.stderr);
    let told = ended.join().unwrap();
    assert!(matches!(told.status, Some(0 | 125)), "{told:?}");
}

#[needs(prepared)]
#[test]
fn ctl_status_finds_requests_by_name() {
    let place = Place::new();
    let daemon = place.start();
    let ctl = |args: &[&str]| {
        let mut command = daemon.verb(&[&["ctl"], args].concat());
        command
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI41");
        run(&mut command)
    };
    let all = ctl(&["status"]).expect_status(0);
    assert_eq!((all.stdout.as_str(), all.stderr.as_str()), ("", ""));
    let json: Value = serde_json::from_str(
        &ctl(&["status", "-o", "json", "--wait"])
            .expect_status(0)
            .stdout,
    )
    .unwrap();
    assert_eq!(json, Value::Array(Vec::new()));
    let none = ctl(&["status", "night", "a\u{1b}[2J"]).expect_status(1);
    let says = "peal: the server keeps no request called \"night\"\npeal: the server keeps no request called \"a\\u{1b}[2J\"\n";
    assert_eq!(none.stderr, says);
}

#[needs(prepared)]
#[test]
fn bad_input_is_refused_with_valid_input() {
    let place = Place::new();
    let daemon = place.start();
    let ctl = |args: &[&str]| {
        let mut command = daemon.verb(&[&["ctl"], args].concat());
        command
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI41");
        run(&mut command)
    };
    for (args, says) in [
        (&["kill"][..], "<TARGET>..."),
        (
            &["kill", "solver:"],
            "as in solver, solver:0 or solver:0-3,7",
        ),
        (&["kill", "solver:x"], "is no NSPACE, NSPACE:RANK"),
        (&["kill", "solver:3-1"], "it should be 1-3"),
        (
            &["kill", "solver:0-99999999"],
            "all of the job are solver:*",
        ),
        (&["kill", "a", "--timeout", "soon"], "is no time"),
        (
            &["kill", "a", "--pid", "1", "--nspace", "a"],
            "cannot be used with",
        ),
        (&["signal", "USR1"], "<TARGET>..."),
        (&["signal", "solver"], "is no signal"),
        (&["signal", "USR3", "solver"], "one of HUP, INT"),
        (&["signal", "0", "solver"], "a number from 1 to 64"),
        (
            &["preempt", "a", "--action", "push"],
            "it should be one of pause, terminate, kill",
        ),
        (&["checkpoint", "night.1"], "<TARGET>..."),
        (
            &[
                "checkpoint",
                "n",
                "a",
                "--event",
                "-106",
                "--signal",
                "USR2",
            ],
            "cannot be used with",
        ),
        (&["cancel"], "<ID>..."),
        (&["cancel", "--all", "one"], "cannot be used with"),
    ] {
        let refused = ctl(args).expect_status(2);
        assert!(
            refused.stderr.contains(says),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let elsewhere = ctl(&["kill", "a", "--nspace", "nobody"]).expect_status(125);
    assert!(elsewhere.stderr.contains("nobody"), "{}", elsewhere.stderr);
    daemon.tell(&["stop", "--wait"]);
    let nobody = ctl(&["pause", "a"]).expect_status(125);
    assert!(
        nobody.stderr.contains("check that the server runs"),
        "{}",
        nobody.stderr
    );
}

#[needs(prepared)]
#[test]
fn help_teaches() {
    let help = run(&mut peal(["ctl", "--help"])).expect_status(0).stdout;
    assert!(
        help.contains("Exit status:") && help.contains("peal ctl signal USR1 solver:0-3,7"),
        "{help}"
    );
    for verb in [
        "pause",
        "resume",
        "signal",
        "terminate",
        "kill",
        "checkpoint",
        "restart",
        "preempt",
        "cancel",
        "status",
    ] {
        assert!(help.contains(&format!("  {verb} ")), "{verb}: {help}");
        run(&mut peal(["ctl", verb, "--help"])).expect_status(0);
    }
    let pause = run(&mut peal(["ctl", "pause", "--help"]))
        .expect_status(0)
        .stdout;
    assert!(pause.contains("several procs (solver:0-3,7)"), "{pause}");
}
