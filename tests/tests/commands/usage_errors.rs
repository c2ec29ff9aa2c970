//! Invalid command lines, readers that close early, errors and their causes, and names that a shell
//! would misread.
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    finish, guest, peal, run,
};
use std::{
    collections::BTreeSet,
    fs,
    process::{Command, Stdio},
};

/// Runs a command whose output is closed before it prints anything. Returns its exit status and its
/// standard error.
fn unread(command: &mut Command) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = command
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let done = finish(child);
    (done.status, done.stderr)
}

#[needs(prepared)]
#[test]
fn commands_without_reader_end_quietly() {
    let report = guest("report");
    let report = report.to_str().unwrap();
    for words in [
        &["config", "show"][..],
        &["config", "show", "-o", "json"],
        &["config", "check"],
        &["config", "example"],
        &["config", "reference"],
        &["completions", "bash"],
        &["module", "inspect", report],
        &["module", "inspect", "-o", "json", report],
        &["--help"],
        &["--version"],
    ] {
        assert_eq!(
            unread(&mut peal(words)),
            (Some(0), String::new()),
            "{words:?}"
        );
    }
}

/// A command completes its work even if its output is closed.
#[needs(prepared)]
#[test]
fn command_without_reader_finishes_its_work() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let new = [
        "module",
        "new",
        "--lang",
        "c",
        "mine",
        "--dir",
        &path("mine"),
    ];
    assert_eq!(unread(&mut peal(new)), (Some(0), String::new()));
    assert!(dir.path().join("mine/peal-module.toml").exists());
    assert_eq!(
        unread(&mut peal([
            "module",
            "keygen",
            "--no-password",
            &path("key")
        ])),
        (Some(0), String::new())
    );
    for name in ["a.wasm", "b.wasm"] {
        fs::copy(guest("report"), dir.path().join(name)).unwrap();
    }
    let sign = [
        "module",
        "sign",
        "--key",
        &path("key.key"),
        &path("a.wasm"),
        &path("b.wasm"),
    ];
    assert_eq!(unread(&mut peal(sign)), (Some(0), String::new()));
    assert!(
        dir.path().join("a.wasm.minisig").exists() && dir.path().join("b.wasm.minisig").exists()
    );
}

#[needs(prepared)]
#[test]
fn wrong_command_lines_end_with_status_two() {
    for words in [
        &["--nonsense", "status"][..],
        &["--config"],
        &["dance"],
        &["status", "--rank", "1"],
        &["serve", "-o", "json"],
        &["completions", "ruby"],
        &["module", "new", "--lang", "ruby", "mine"],
        &["module", "new", "--lang", "rust", "--role", "boss", "mine"],
        &[
            "module",
            "new",
            "--lang",
            "rust",
            "--role",
            "lifecycle",
            "mine",
        ],
        &["module", "new", "--lang", "rust", "not a name"],
        &["module", "inspect", "--scope", "mine", "x.wasm"],
        &[
            "module",
            "sign",
            "--key",
            "k",
            "--comment",
            "a\nb",
            "x.wasm",
        ],
        &[
            "module", "test", ".", "a.toml", "b.toml", "--write", "c.toml",
        ],
        &["run", "--on-abort", "maybe", "true"],
        &["run", "--log", "everything", "true"],
        &["run", "true", ":"],
        &["event", "notify", "-3001", "--range", "moon"],
        &["event", "notify", "-3001", "--range", "custom"],
        &["event", "notify", "-3001", "--range", "proc-local"],
        &[
            "event", "notify", "-3001", "--range", "local", "--target", "a:0",
        ],
        &["event", "notify", "-3001", "--target", "a\nb:0"],
        &["chain", "show", "PMIX_ERR_NO_SUCH"],
        &["log", "--channel", "nowhere", "text"],
        &["log", "--channel", "stdout", "--mail-to", "a@b", "text"],
        &["ctl", "kill", "a\u{1b}[2Jb"],
        &["ps", "a\tb"],
        &["audit", "list", "--kind", "gossip"],
        &["job", "register", "a\nLD_PRELOAD=/evil.so"],
        &["job", "register", "../a"],
        &["job", "register", ".."],
        &["job", "register", ""],
        &["job", "register", "two words"],
        &["job", "register", "a*"],
        &["job", "register", &"x".repeat(256)],
        &["job", "register", "a", "-n", "0"],
        &["job", "register", "a", "--rank", "1"],
        &["job", "environment", "a\u{7f}"],
        &["job", "deregister", "a\r"],
        &["job", "record", "a/b"],
    ] {
        let done = run(&mut peal(words)).expect_status(2);
        assert!(
            done.stderr.starts_with("error: ") && done.stdout.is_empty(),
            "{words:?}: {done:?}"
        );
        assert!(
            !done.stderr.contains(['\u{1b}', '\u{7f}']),
            "{words:?}: {:?}",
            done.stderr
        );
    }
}

#[needs(prepared)]
#[test]
fn unusable_numbers_are_reported_with_the_range() {
    for (words, range) in [
        (&["run", "-n", "0", "true"][..], "from 1 to 65535"),
        (&["job", "register", "a", "-n", "many"], "from 1 to 65535"),
        (
            &["job", "environment", "a", "--rank", "65535"],
            "from 0 to 65534",
        ),
        (&["ps", "--pid", "0"], "from 1 to 4194304"),
        (
            &["event", "watch", "--count", "1.5"],
            "from 1 to 18446744073709551615",
        ),
        (&["audit", "list", "-n", "few"], "from 0 to 4294967295"),
        (&["module", "bench", "--calls", "0"], "from 1 to 10000000"),
        (
            &["monitor", "file", "a", "--time", "1s", "--drops", "two"],
            "from 0 to 4294967295",
        ),
    ] {
        let done = run(&mut peal(words)).expect_status(2);
        let told = format!(": it should be a whole number {range}");
        assert!(done.stderr.contains(&told), "{words:?}: {:?}", done.stderr);
    }
}

#[needs(prepared)]
#[test]
fn options_are_valid_on_either_side_of_the_verb() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("peal.toml");
    fs::write(&file, "[events]\nring_size = 77\n").unwrap();
    let file = file.to_str().unwrap();
    let said = |words: &[&str]| run(&mut peal(words)).expect_status(0).stdout;
    let shown = said(&["config", "show", "--config", file, "-o", "json"]);
    assert!(shown.contains("77"), "{shown}");
    assert_eq!(
        said(&["--config", file, "-o", "json", "config", "show"]),
        shown
    );
    assert_eq!(
        said(&["-o", "json", "config", "--config", file, "show"]),
        shown
    );
    assert_eq!(
        said(&[
            "--config", file, "run", "-np", "1", "--", "echo", "--config"
        ]),
        "--config\n"
    );
    // An option that the command does not know is refused, not ignored.
    run(&mut peal(["--config", file, "completions", "bash"])).expect_status(2);
}

/// Returns a text that occurs twice in an error line, if there is one.
fn repeated(line: &str) -> Option<&str> {
    let mut told = BTreeSet::new();
    line.split(": ")
        .filter(|part| part.contains(' '))
        .find(|part| !told.insert(*part))
}

#[needs(prepared)]
#[test]
fn errors_show_each_cause_once() {
    let dir = tempfile::tempdir().unwrap();
    let garbage = dir.path().join("garbage");
    fs::write(&garbage, "garbage").unwrap();
    let garbage = garbage.to_str().unwrap();
    let below = format!("{garbage}/below");
    for words in [
        &["config", "show", "--config", "/nowhere/peal.toml"][..],
        &["config", "show", "--config", garbage],
        &["module", "inspect", "/nowhere.wasm"],
        &["module", "inspect", garbage],
        &["module", "inspect", "--policy", "/nowhere.toml", garbage],
        &["module", "build", "/nowhere"],
        &["module", "test", "/nowhere"],
        &["module", "test", garbage, "/nowhere.toml"],
        &["module", "bench", "/nowhere.wasm"],
        &["module", "keygen", "--no-password", &below],
        &["module", "sign", "--key", "/nowhere.key", garbage],
        &["module", "verify", "--key", garbage, garbage],
        &["module", "new", "--lang", "c", "mine", "--dir", &below],
        &["run", "--handler", "/nowhere.wasm", "true"],
        &["run", "--wdir", "/nowhere", "true"],
        &["run", "--output", &below, "true"],
        &["run", "--", "/nowhere/program"],
        &["run", "--set", &format!("store.path={below}"), "true"],
        &["serve", "--socket", &below],
        &["status", "--socket", "/nowhere/admin.sock"],
        &["status", "--socket", garbage],
        &[
            "job",
            "record",
            "solver",
            "--set",
            &format!("store.path={garbage}"),
        ],
        &["ps", "--uri", "peal.0;tcp4://127.0.0.1:1"],
        &["audit", "list", "--from", garbage],
        &["audit", "verify", "--from", garbage, "--key", "/nowhere"],
        &["audit", "report", "--html", &below, "--from", garbage],
        &["attach", "true"],
    ] {
        let done = run(peal(words).env_remove("PMIX_SERVER_URI41"));
        assert!(
            done.status != Some(0) && !done.stderr.is_empty(),
            "{words:?}: {done:?}"
        );
        for line in done.stderr.lines() {
            assert_eq!(repeated(line), None, "{words:?}: {line}");
        }
        let errors = done.stderr.matches("(os error ").count();
        assert!(
            errors <= done.stderr.lines().count(),
            "{words:?}: {}",
            done.stderr
        );
    }
}

fn verb(place: &Place, words: &[&str]) -> Command {
    let mut command = peal(words);
    command.arg("--socket").arg(place.socket());
    command
}

#[needs(prepared)]
#[test]
fn job_environment_prints_nothing_a_shell_misreads() {
    let place = Place::new();
    let daemon: Daemon = place.start();
    let ask = |words: &[&str]| run(&mut verb(&place, words));
    let job = ask(&["job", "register", "two words", "-o", "json"])
        .expect_status(0)
        .stdout;
    assert!(job.contains("\"two words\""), "{job}");
    for words in [
        &["job", "environment", "two words"][..],
        &["job", "environment", "two words", "--rank", "0"],
    ] {
        let refused = ask(words).expect_status(125);
        assert!(
            refused.stdout.is_empty() && refused.stderr.contains("-o json"),
            "{refused:?}"
        );
    }
    ask(&["job", "register", "prterun-host-1234@1", "-n", "2"]).expect_status(0);
    let told = ask(&["job", "environment", "prterun-host-1234@1", "--rank", "1"])
        .expect_status(0)
        .stdout;
    let script = "env -i $(cat) /usr/bin/env";
    let mut shell = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut shell.stdin.take().unwrap(), told.as_bytes()).unwrap();
    assert_eq!(finish(shell).expect_status(0).stdout, told);
    // Direct requests on the socket get the same error.
    for name in ["a\nLD_PRELOAD=/evil.so", "a/b", "", "..", "\u{1b}[2J"] {
        let call = serde_json::json!({ "peal": 1, "call": { "verb": "register", "nspace": name, "size": 1 } });
        let reply = said_by_socket(&place, &call.to_string());
        assert!(reply.contains("refused"), "{name:?}: {reply}");
    }
    assert_eq!(
        unread(&mut verb(
            &place,
            &["job", "environment", "prterun-host-1234@1"]
        )),
        (Some(0), String::new())
    );
    assert_eq!(
        unread(&mut verb(&place, &["job", "list"])),
        (Some(0), String::new())
    );
    assert_eq!(
        unread(&mut verb(&place, &["stats"])),
        (Some(0), String::new())
    );
    ask(&["stop", "--wait"]).expect_status(0);
    drop(daemon);
}

fn said_by_socket(place: &Place, line: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(place.socket()).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
