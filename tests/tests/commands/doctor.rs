//! `peal doctor` on this system, and on one where something is wrong.
use peal_needs::needs;
use peal_tests::{Done, c_program, daemon::Place, peal, root, run};
use serde_json::Value;
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, process::Command};

/// Finding of one subject.
struct Finding {
    outcome: String,
    text: String,
}

/// Returns the findings about a subject.
fn findings(done: &Done, subject: &str) -> Vec<Finding> {
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    let of_subject = all.filter(|finding| finding["subject"] == subject);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_subject
        .map(|finding| Finding {
            outcome: text(&finding["outcome"]),
            text: text(&finding["found"]) + "\n" + &text(&finding["advice"]),
        })
        .collect()
}

/// Checks that an examination failed, with these words in one of the failures.
#[track_caller]
fn expect_failure(done: &Done, subject: &str, words: &str) {
    assert_eq!(done.status, Some(1), "{}", done.stdout);
    let found = findings(done, subject);
    let mut failures = found.iter().filter(|finding| finding.outcome == "failed");
    assert!(
        failures.any(|failure| failure.text.contains(words)),
        "{}",
        done.stdout
    );
}

fn doctor(args: &[&str]) -> Command {
    peal([&["doctor", "-o", "json"], args].concat())
}

#[needs(prepared)]
#[test]
fn doctor_accepts_this_system() {
    let place = Place::new();
    let socket = place.path("admin.sock").display().to_string();
    let done = run(doctor(&["--socket", &socket]).env_remove("TMPDIR")).expect_status(0);
    for subject in ["configuration", "temporary-files", "engine", "network"] {
        let found = findings(&done, subject);
        assert_eq!(found.len(), 1, "{subject}: {}", done.stdout);
        assert_eq!(found[0].outcome, "ok", "{subject}: {}", done.stdout);
    }
    assert_eq!(findings(&done, "server")[0].outcome, "skipped");
    let shown = run(&mut peal(["doctor", "--socket", &socket]))
        .expect_status(0)
        .stdout;
    assert!(
        shown.contains("\nok       engine           it compiles"),
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "{shown}");
}

#[needs(prepared)]
#[test]
fn doctor_says_what_is_wrong_with_settings_and_places() {
    let place = Place::new();
    place.configure("[server]\nmax_fnces = 3\n");
    let file = place.path("peal.toml").display().to_string();
    let done = run(&mut doctor(&["--config", &file]));
    expect_failure(&done, "configuration", "max_fences");
    let missing = place.path("missing");
    let done = run(doctor(&[]).env("TMPDIR", &missing));
    expect_failure(&done, "temporary-files", "unset it");
    let open = place.path("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let done = run(doctor(&[]).env("TMPDIR", &open));
    expect_failure(&done, "temporary-files", "chmod 1777");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    place.configure(&format!("[metrics]\nlisten = \"{address}\"\n"));
    let done = run(&mut doctor(&[
        "--config",
        &file,
        "--socket",
        "/nonexistent/admin.sock",
    ]));
    expect_failure(&done, "network", "metrics.listen");
    let program = place.path("peal.toml").display().to_string();
    expect_failure(&run(&mut doctor(&[&program])), "library", "executable file");
}

#[needs(prepared)]
#[test]
fn doctor_says_that_address_space_is_limited() {
    let mut limited = Command::new("sh");
    let command = doctor(&[]);
    limited.args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh"]);
    let limited = peal_tests::daemon::wrapped(limited, &command);
    let done = run(&mut { limited });
    let engine = &findings(&done, "engine")[0];
    assert_ne!(engine.outcome, "ok", "{}", done.stdout);
    assert!(engine.text.contains("ulimit -v"), "{}", done.stdout);
}

#[needs(prepared)]
#[test]
fn doctor_shows_the_running_server() {
    let place = Place::new();
    let daemon = place.start();
    let done = daemon.ask(&["doctor", "-o", "json"]);
    let server = &findings(&done, "server")[0];
    assert_eq!(server.outcome, "ok", "{}", done.stdout);
    assert!(
        server.text.contains(env!("CARGO_PKG_VERSION")),
        "{}",
        done.stdout
    );
}

#[needs(prepared, libpmix)]
#[test]
fn doctor_shows_which_library_programs_load() {
    let program = c_program("monitor").display().to_string();
    let done = run(&mut doctor(&[&program]));
    let library = &findings(&done, "library")[0];
    assert_eq!(library.outcome, "ok", "{}", done.stdout);
    assert!(!library.text.contains("Peal"), "{}", done.stdout);
    let ours = root().join("target/libpmix/lib");
    for args in [&[program.as_str()][..], &[]] {
        let done = run(doctor(args).env("LD_LIBRARY_PATH", &ours));
        let library = &findings(&done, "library")[0];
        assert!(library.text.contains("Peal 0."), "{}", done.stdout);
    }
}
