//! `PMIx_Process_monitor` of unmodified `libpmix` programs under `peal run`: the recipients of an
//! alert, and its time.
use peal_needs::needs;
use peal_tests::{Done, c_program, daemon::Place, guest, peal, run};
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
};

/// Runs the program of these tests as a job of two procs.
fn monitor(more: &[&str], action: &[&str]) -> Done {
    let program = c_program("monitor");
    run(peal(["run", "-n", "2"])
        .args(more)
        .arg("--")
        .arg(program)
        .args(action))
}

/// Runs the example of the RFC with these variables in its environment.
fn example(procs: &str, environment: &[&str]) -> Done {
    let program = c_program("rfc_monitor");
    let mut command = peal(["run", "-n", procs, "--"]);
    for name in environment {
        let (name, value) = name.split_once('=').unwrap_or((name, "1"));
        command.env(name, value);
    }
    run(command.arg(program))
}

#[needs(prepared, libpmix)]
#[test]
fn the_example_of_the_rfc_has_its_heartbeats_monitored() {
    let done = example("2", &["RFC_UNDECLARED"]);
    let done = done.expect_status(0);
    assert_eq!(
        done.by_rank(),
        ["rank 0: monitored: SUCCESS", "rank 1: monitored: SUCCESS"]
    );
    assert_eq!(
        done.stderr
            .matches("PMIx_Finalize successfully completed")
            .count(),
        2,
        "{}",
        done.stderr
    );
}

#[needs(prepared, libpmix)]
#[test]
fn the_example_of_the_rfc_runs_as_it_is() {
    let done = example("2", &[]);
    let done = done.expect_status(0);
    let of_each = |rank| {
        [
            format!("rank {rank}: declared: SUCCESS"),
            format!("rank {rank}: monitored: SUCCESS"),
        ]
    };
    assert_eq!(done.by_rank(), [of_each(0), of_each(1)].concat());
}

#[needs(prepared, libpmix)]
#[test]
fn with_its_heartbeat_stopped_the_alert_arrives_in_its_window() {
    let done = example("1", &["RFC_UNDECLARED", "RFC_STOP", "RFC_TIME=1"]);
    let lines = done.expect_status(0).by_rank();
    let alert = "rank 0: PMIX HEARTBEAT ALERT of MONITOR1";
    assert_eq!(
        lines,
        [
            "rank 0: monitored: SUCCESS",
            alert,
            "rank 0: in its window: yes"
        ]
    );
}

/// Writes the configuration of a server whose watchdog kills silent procs, and that keeps job
/// records.
fn watched(place: &Place) -> String {
    place.configure(&format!(
        "[store]\npath = \"{store}\"\n\
         [[module]]\nname = \"record\"\npath = \"{record}\"\nchannels = [\"job_record\"]\ngrants = [\"sink\", \"clock\"]\nsinks = [\"job-record\"]\n\
         [[module]]\nname = \"watchdog\"\npath = \"{watchdog}\"\n\
         grants = [\"logging\", \"clock\", \"job-control\", \"log-request\", \"resource-usage\"]\n[module.config]\naction = \"kill\"\n",
        store = place.path("store.db").display(),
        record = guest("record").display(),
        watchdog = guest("watchdog").display(),
    ));
    place.path("peal.toml").display().to_string()
}

#[needs(prepared, libpmix)]
#[test]
fn watchdog_ends_silent_program_and_records_it() {
    let program = c_program("rfc_monitor");
    let place = Place::new();
    let config = watched(&place);
    let run_with = |more: &[&str]| {
        let mut command = peal(["run", "--events", "--config", &config, "--"]);
        command
            .arg(&program)
            .env("RFC_STOP", "1")
            .env("RFC_TIME", "1");
        run(more
            .iter()
            .fold(&mut command, |command, name| command.env(name, "1")))
    };
    let killed = run_with(&["RFC_HANG"]).expect_status(137);
    assert_eq!(
        killed
            .stderr
            .matches("watchdog answers PMIX_EVENT_PARTIAL_ACTION_TAKEN")
            .count(),
        1,
        "{}",
        killed.stderr
    );
    assert!(
        killed.stderr.contains("rank 0 was ended by signal 9"),
        "{}",
        killed.stderr
    );
    let job = killed
        .stderr
        .split_whitespace()
        .skip_while(|word| *word != "job")
        .nth(1)
        .unwrap();
    let record = run(peal(["job", "record", job]).args(["--config", &config]))
        .expect_status(0)
        .stdout;
    for words in [
        "PMIX_MONITOR_HEARTBEAT_ALERT",
        "sends no heartbeat (monitor",
        "action: kill",
        "kill: PMIX_SUCCESS",
        "pmix.proc.rss",
        "exit status 137",
    ] {
        assert!(record.contains(words), "{words} should be in {record}");
    }
    // If the application handles the alert itself, it is not ended, but still notified.
    let spared = run_with(&["RFC_APP_CONTROL"]).expect_status(0);
    assert!(
        spared.stdout.contains("which the application controls"),
        "{}",
        spared.stdout
    );
    assert!(
        !spared.stderr.contains("was ended by signal"),
        "{}",
        spared.stderr
    );
}

#[needs(prepared, libpmix)]
#[test]
fn monitor_requester_gets_its_mark_with_the_alert() {
    let done = example(
        "1",
        &[
            "RFC_UNDECLARED",
            "RFC_STOP",
            "RFC_TIME=1",
            "RFC_APP_CONTROL",
        ],
    );
    let lines = done.expect_status(0).by_rank();
    assert!(
        lines[1].ends_with("of MONITOR1, which the application controls"),
        "{lines:?}"
    );
}

#[needs(prepared, libpmix)]
#[test]
fn each_silence_is_reported_once_to_job_under_given_code() {
    let done = monitor(&[], &["once"]);
    let lines = done.expect_status(0).by_rank();
    let alerts = |rank| {
        [
            "alert -3007 of hasty, rank 0 is silent",
            "alert -109 of patient, rank 0 is silent",
        ]
        .map(|alert| format!("rank {rank}: {alert}"))
    };
    let first = [
        "rank 0: hasty: SUCCESS (0)".to_owned(),
        "rank 0: patient: SUCCESS (0)".to_owned(),
        "rank 0: patient: EXISTS (-11)".to_owned(),
    ];
    let last = ["rank 0: cancel all: SUCCESS (0)".to_owned()];
    assert_eq!(
        lines,
        [
            first.to_vec(),
            alerts(0).to_vec(),
            last.to_vec(),
            alerts(1).to_vec()
        ]
        .concat()
    );
}

#[needs(prepared, libpmix)]
#[test]
fn cancelled_monitor_reports_nothing() {
    let done = monitor(&[], &["cancel"]);
    let lines = done.expect_status(0).by_rank();
    assert!(
        lines.contains(&"rank 0: cancel hasty: SUCCESS (0)".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"rank 0: cancel hasty again: NOT-FOUND (-46)".to_owned()),
        "{lines:?}"
    );
    let alerts = lines.iter().filter(|line| line.contains("alert")).count();
    assert_eq!(alerts, 2, "each rank receives one alert: {lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("of hasty")),
        "{lines:?}"
    );
}

#[needs(prepared, libpmix)]
#[test]
fn resumed_proc_may_fall_silent_again() {
    let done = monitor(&[], &["again"]);
    let lines = done.expect_status(0).by_rank();
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.contains("alert -109 of pulse"))
            .count(),
        4,
        "{lines:?}"
    );
}

#[needs(prepared, libpmix)]
#[test]
fn file_that_does_not_grow_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let done = monitor(&[], &["file", path.to_str().unwrap()]);
    let lines = done.expect_status(0).by_rank();
    let told = "alert -110 of log, a file, rank 0 is silent";
    assert_eq!(
        lines[..2],
        [
            "rank 0: a file that is not there: NOT-FOUND (-46)",
            "rank 0: a file: SUCCESS (0)"
        ]
    );
    assert_eq!(
        lines[2..],
        [0, 0, 1, 1].map(|rank| format!("rank {rank}: {told}"))
    );
}

#[needs(prepared, libpmix)]
#[test]
fn invalid_monitors_are_refused() {
    let done = monitor(&[], &["mistakes"]);
    let lines = done.expect_status(0).by_rank();
    assert_eq!(
        lines,
        [
            "rank 0: no time: BAD-PARAM (-27)",
            "rank 0: time zero: BAD-PARAM (-27)",
            "rank 0: a size of heartbeats: BAD-PARAM (-27)",
            "rank 0: a gauge: NOT-SUPPORTED (-47)",
            "rank 0: cancel nothing: NOT-FOUND (-46)",
        ]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn proc_gets_its_usage_once_at_a_rate_and_by_query() {
    let done = monitor(&[], &["usage"]);
    let lines = done.expect_status(0).by_rank();
    assert_eq!(
        lines,
        [
            "rank 0: usage: SUCCESS (0)",
            "rank 0: it has memory",
            "rank 0: usage at a rate: SUCCESS (0)",
            "rank 0: cancel all: SUCCESS (0)",
            "rank 0: query: SUCCESS (0)",
            "rank 0: it has memory",
        ]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn directives_of_other_types_are_converted() {
    let done = monitor(&[], &["types"]);
    assert_eq!(
        done.expect_status(0).by_rank(),
        [
            "rank 0: int and bool: SUCCESS (0)",
            "rank 0: negative: BAD-PARAM (-27)",
            "rank 0: too large: BAD-PARAM (-27)"
        ]
    );
}

#[needs(prepared, libpmix)]
#[test]
fn server_without_monitors_uses_its_host_environment() {
    let dir = tempfile::tempdir().unwrap();
    let config = configured(dir.path(), "[server]\nmonitoring = false\n");
    let done = monitor(&["--config", &config], &["mistakes"]);
    let lines = done.expect_status(0).by_rank();
    // The embedded host environment monitors nothing.
    assert!(
        lines
            .iter()
            .all(|line| line.ends_with(": NOT-SUPPORTED (-47)")),
        "{lines:?}"
    );
}

/// User and group other than those of the tests.
const SOMEBODY: u32 = 54_321;

#[needs(prepared, root, libpmix)]
#[test]
fn confined_root_server_checks_files_as_requester() {
    let program = c_program("monitor");
    let place = Place::new();
    let theirs = tempfile::tempdir().unwrap();
    chown(theirs.path(), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    // The program is copied to a place where that user may run it.
    let own = theirs.path().join("monitor");
    fs::copy(program, &own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let hidden = tempfile::tempdir().unwrap();
    let secret = "secret";
    fs::set_permissions(hidden.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(hidden.path().join(secret), "a secret").unwrap();
    let daemon = place.start();
    let user = SOMEBODY.to_string();
    daemon.tell(&[
        "job", "register", "theirs", "-n", "1", "--uid", &user, "--gid", &user,
    ]);
    let ask = |action: &str, path: &Path| {
        let mut proc = daemon.proc("theirs", 0, &own);
        proc.arg(action)
            .arg(path)
            .uid(SOMEBODY)
            .gid(SOMEBODY)
            .current_dir("/")
            .env("TMPDIR", theirs.path());
        run(&mut proc).expect_status(0).by_rank()
    };
    assert_eq!(
        ask("look", &hidden.path().join(secret)),
        ["rank 0: a file: NO-PERMISSIONS (-23)"]
    );
    let lines = ask("file", &theirs.path().join("log"));
    assert_eq!(lines[1], "rank 0: a file: SUCCESS (0)");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

fn configured(dir: &Path, text: &str) -> String {
    let config = dir.join("peal.toml");
    fs::write(&config, text).unwrap();
    config.to_str().unwrap().to_owned()
}
