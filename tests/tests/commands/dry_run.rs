//! Dry runs of commands that change something, and confirmation on terminals.
use peal_needs::needs;
use peal_server::admin::{self, AdminReply, AdminRequest, ModuleCall};
use peal_tests::{
    Done,
    daemon::{Place, put},
    guest, on_terminal, peal, run,
    shell_job::ShellJob,
};
use std::{
    fs,
    process::{Command, Stdio},
};

const NOTHING: &str = "peal: dry run: nothing was changed\n";

fn module(name: &str, component: &str, more: &str) -> String {
    let path = guest(component);
    format!("[[module]]\nname = {name:?}\npath = {path:?}\n{more}")
}

#[needs(prepared)]
#[test]
fn dry_end_of_a_server_says_what_would_end() {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "solver", "-n", "2"]);
    for verb in ["stop", "drain"] {
        let done = daemon.ask(&[verb, "--dry-run", "--wait"]).expect_status(0);
        let pid = daemon.pid();
        assert_eq!(
            done.stdout,
            format!("would {verb} the server of process {pid} with 1 job and 0 connections\n")
        );
        assert_eq!(done.stderr, NOTHING);
    }
    let status = daemon.tell(&["status"]);
    assert!(status.contains("phase        serving"), "{status}");
}

#[needs(prepared)]
#[test]
fn dry_registration_is_checked_and_changes_nothing() {
    let place = Place::new();
    let daemon = place.start();
    let ask = |words: &[&str]| daemon.ask(&[&["job"], words, &["--dry-run"]].concat());
    let done = ask(&["register", "solver", "-n", "2"]).expect_status(0);
    assert!(done.stdout.contains("# rank 1\n"), "{done:?}");
    assert_eq!(daemon.tell(&["job", "list", "-o", "name"]), "");
    let refused = ask(&["deregister", "solver"]).expect_status(125);
    assert!(
        refused
            .stderr
            .contains("no job \"solver\" was registered here"),
        "{refused:?}"
    );
    daemon.tell(&["job", "register", "solver", "-n", "2"]);
    let refused = ask(&["register", "solver"]).expect_status(125);
    assert!(refused.stderr.contains("registered already"), "{refused:?}");
    let refused = ask(&["started", "solver", "5", "1"]).expect_status(125);
    assert!(refused.stderr.contains("there is no rank 5"), "{refused:?}");
    let done = ask(&["deregister", "solver"]).expect_status(0);
    assert_eq!(done.stdout, "would remove job solver\n");
    assert_eq!(daemon.tell(&["job", "list", "-o", "name"]), "solver\n");
}

#[needs(prepared)]
#[test]
fn dry_reload_validates_without_deploying() {
    let place = Place::new();
    // Only explicit reloads.
    let base = "[deploy]\nwatch = false\n";
    place.configure(base);
    let daemon = place.start();
    let with = |more: &str| put(&place.path("peal.toml"), format!("{base}{more}"));
    let dry = |status: i32| daemon.ask(&["reload", "--dry-run"]).expect_status(status);
    with(&module("echo", "echo", "codes = [-3001]\n"));
    let done = dry(0);
    assert_eq!(done.stdout, "module \"echo\" would be added\n");
    assert_eq!(done.stderr, NOTHING);
    // The rules for signatures of that configuration apply to its modules, and to no others.
    let signed = "[modules]\nrequire_signature = [\"site\"]\n";
    with(&format!(
        "{signed}{}",
        module("echo", "echo", "codes = [-3001]\n")
    ));
    let refused = dry(125);
    assert!(refused.stderr.contains("must be signed"), "{refused:?}");
    assert_eq!(daemon.tell(&["module", "list", "-o", "name"]), "");
    with("[[module]]\nname = \"echo\"\npath = \"/nowhere.wasm\"\n");
    let refused: Done = dry(125);
    assert!(refused.stderr.contains("/nowhere.wasm"), "{refused:?}");
    // A check is no refused configuration.
    daemon.ask(&["status"]).expect_status(0);
    with(&module("echo", "echo", "codes = [-3001]\n"));
    daemon.tell(&["reload"]);
    for (words, change) in [
        (&["module", "disable", "echo"][..], "would be disabled"),
        (&["module", "enable", "echo"], "would change nothing"),
        (&["module", "rollback", "1"], "would be removed"),
    ] {
        let done = daemon
            .ask(&[words, &["--dry-run"]].concat())
            .expect_status(0);
        assert!(
            done.stdout.contains(change) && done.stderr == NOTHING,
            "{words:?}: {done:?}"
        );
    }
    for words in [
        &["module", "promote", "echo"][..],
        &["module", "disable", "ecko"],
        &["module", "rollback", "77"],
    ] {
        daemon
            .ask(&[words, &["--dry-run"]].concat())
            .expect_status(125);
    }
    let states = daemon.tell(&["module", "list", "--state", "active", "-o", "name"]);
    assert_eq!(states, "echo\n");
}

#[needs(prepared)]
#[test]
fn check_of_a_query_is_refused() {
    let place = Place::new();
    let _daemon = place.start();
    let name = "none".to_owned();
    for call in [ModuleCall::List, ModuleCall::Diff { name }] {
        let call = Box::new(AdminRequest::Module(call));
        let mut answers = admin::request(&place.socket(), &AdminRequest::Check { call }).unwrap();
        let AdminReply::Refused { reason } = answers.reply().unwrap() else {
            panic!("the check is refused")
        };
        assert!(reason.contains("changes nothing"), "{reason}");
    }
}

#[needs(prepared)]
#[test]
fn dry_control_names_procs_and_leaves_them() {
    let job = ShellJob::asleep(3, &[]);
    let name = job.nspace();
    let done = job
        .ask(&["ctl", "kill", "--dry-run", &format!("{name}:0,2")])
        .expect_status(0);
    assert_eq!(done.stdout, format!("would kill {name}:0, {name}:2\n"));
    let named = ["ctl", "kill", "--dry-run", "--id", "nightly", &name];
    let named = job.ask(&named).expect_status(0).stdout;
    assert_eq!(named, format!("would kill {name}:0, {name}:1, {name}:2\n"));
    let told = job
        .ask(&["ctl", "pause", "--dry-run", &name, "-o", "json"])
        .expect_status(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (&told["end"], told["reached"].as_array().unwrap().len()),
        (&"checked".into(), 3)
    );
    assert_eq!(job.states(), ["running"; 3]);
    // What the server would refuse is refused, with the status of the request.
    for target in [format!("{name}:7"), "nosuch".to_owned()] {
        let refused = job
            .ask(&["ctl", "kill", "--dry-run", &target])
            .expect_status(1);
        assert!(refused.stderr.contains("kill is refused"), "{refused:?}");
    }
    let refused = job
        .ask(&["ctl", "checkpoint", "--dry-run", "one", &name])
        .expect_status(1);
    assert!(refused.stderr.contains("checkpoint"), "{refused:?}");
    job.ask(&["ctl", "cancel", "--dry-run", "nosuch"])
        .expect_status(1);
    assert_eq!(job.ask(&["ctl", "status"]).expect_status(0).stdout, "");
}

#[needs(prepared)]
#[test]
fn dry_log_names_channels_of_the_server_and_logs_nothing() {
    let place = Place::new();
    let (board, store) = (place.path("board.log"), place.path("store"));
    let (file, record) = (guest("file"), guest("record"));
    place.configure(&format!(
        "[store]\npath = {store:?}\n[[sink]]\nname = \"board\"\nfile.path = {board:?}\n\
         [[module]]\nname = \"board\"\npath = {file:?}\nchannels = [\"site.log.board\"]\nsinks = [\"board\"]\n\
         grants = [\"sink\", \"clock\"]\nconfig = {{ sink = \"board\" }}\n\
         [[module]]\nname = \"record\"\npath = {record:?}\nchannels = [\"job_record\"]\nsinks = [\"job-record\"]\n\
         grants = [\"sink\", \"clock\"]\n"
    ));
    let daemon = place.start();
    let log = |words: &[&str]| {
        let mut log = daemon.verb(&[&["log"], words].concat());
        log.env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI");
        run(&mut log)
    };
    let written = || fs::read_to_string(&board).unwrap_or_default();
    let all = log(&["--dry-run"]).expect_status(0);
    assert_eq!(
        all.stdout,
        "would log to site.log.board\nwould log to job_record\nlog.order and log.once of the server may change this\n"
    );
    assert_eq!(all.stderr, NOTHING);
    let named = ["--dry-run", "--channel", "job_record", "--channel"];
    let named = |more: &[&str]| log(&[&named[..], more].concat());
    let once = named(&["site.log.board", "--once"]).expect_status(0).stdout;
    assert_eq!(
        once,
        "would log to job_record\nwould log to site.log.board if all before it fail\n"
    );
    // The status is that of the request.
    let partial = named(&["email", "-o", "json"]).expect_status(1);
    let told: serde_json::Value = serde_json::from_str(&partial.stdout).unwrap();
    assert_eq!(told["name"], "PMIX_ERR_PARTIAL_SUCCESS");
    let channel = |place: usize| {
        (
            &told["channels"][place]["channel"],
            &told["channels"][place]["would_be"],
        )
    };
    assert_eq!(channel(0), (&"pmix.log.jrec".into(), &"written".into()));
    assert_eq!(channel(1), (&"pmix.log.email".into(), &"missing".into()));
    assert!(
        partial
            .stderr
            .contains("would end with PMIX_ERR_PARTIAL_SUCCESS"),
        "{partial:?}"
    );
    let refused = log(&["--dry-run", "--directive", "PMIX_LOG_ONCE:string=often"]).expect_status(1);
    assert!(
        refused
            .stderr
            .contains("pmix.log.once takes another type of value"),
        "{refused:?}"
    );
    assert_eq!(written(), "");
    log(&["--channel", "site.log.board", "half way"]).expect_status(0);
    assert_eq!(written().lines().count(), 1, "{}", written());
}

/// Runs a command on a terminal, on which a line is typed.
fn typed_on_terminal(command: &Command, typed: &str) -> Done {
    let dir = tempfile::tempdir().unwrap();
    let answer = dir.path().join("typed");
    fs::write(&answer, typed).unwrap();
    run(on_terminal(command).stdin(fs::File::open(answer).unwrap()))
}

/// Runs a command on a terminal, with standard error in a pipe to it.
fn on_terminal_without_errors(command: &Command) -> Done {
    let mut shell = Command::new("sh");
    let script = "{ \"$@\" 2>&1 >&3 | cat; } 3>&1; exit 125";
    shell.args(["-c", script, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    run(on_terminal(&shell).stdin(Stdio::null()))
}

#[needs(prepared)]
#[test]
fn end_of_a_server_is_confirmed_on_a_terminal() {
    let place = Place::new();
    let daemon = place.start();
    let stop = daemon.verb(&["stop", "--wait"]);
    let declined = typed_on_terminal(&stop, "n\n").expect_status(1);
    let question = format!("stop the server of process {}", daemon.pid());
    assert!(
        declined.stdout.contains(&question) && declined.stdout.contains("nothing was done"),
        "{declined:?}"
    );
    daemon.ask(&["status"]).expect_status(0);
    // A question that nobody could read is not asked.
    let silent = on_terminal_without_errors(&stop).expect_status(125);
    assert!(silent.stdout.contains("--yes"), "{silent:?}");
    daemon.ask(&["status"]).expect_status(0);
    let confirmed = daemon.verb(&["stop", "--wait", "--yes"]);
    let done = typed_on_terminal(&confirmed, "n\n").expect_status(0);
    assert!(!done.stdout.contains("[y/N]"), "{done:?}");
    run(&mut peal([
        "status",
        "--socket",
        place.socket().to_str().unwrap(),
    ]))
    .expect_status(125);
}
