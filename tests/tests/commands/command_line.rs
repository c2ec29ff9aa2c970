//! The command line as a user sees it, including invalid input.
use peal_client::Client;
use peal_model::{Nspace, Range, Status};
use peal_needs::needs;
use peal_store::{Store, StoreSettings};
use peal_tests::{finish, guest, peal, program, run};
use std::{
    fs::Permissions,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

#[needs(prepared)]
#[test]
fn help_teaches() {
    let help = run(&mut peal(["--help"])).expect_status(0).stdout;
    assert!(
        help.contains("Exit status:") && help.contains("PEAL_LOG"),
        "{help}"
    );
    let help = run(&mut peal(["run", "--help"])).expect_status(0).stdout;
    assert!(
        help.contains("Examples:") && help.contains("peal run -n 4 -- ./app"),
        "{help}"
    );
    run(&mut peal(["run", "-n", "0", "--", "true"])).expect_status(2);
    run(&mut peal(["run"])).expect_status(2);
}

#[needs(prepared)]
#[test]
fn file_other_than_a_handler_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes, says) in [
        (
            "core.wasm",
            &b"\0asm\x01\0\0\0"[..],
            "core WebAssembly module",
        ),
        ("text.wasm", b"(component)", "text"),
        ("garbage.wasm", b"MZ\x90\0", "component"),
        ("empty.wasm", b"", "component"),
    ] {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        let run_it = run(&mut peal(["run", "--handler", path, "--", "true"])).expect_status(125);
        assert!(
            run_it.stderr.contains(name) && run_it.stderr.contains(says),
            "{}",
            run_it.stderr
        );
        let inspect = run(&mut peal(["module", "inspect", path])).expect_status(2);
        assert!(inspect.stderr.contains(name), "{}", inspect.stderr);
    }
}

#[needs(prepared)]
#[test]
fn inspect_shows_exports_and_imports_of_module() {
    let report = guest("report");
    let text = run(&mut peal([
        Path::new("module"),
        Path::new("inspect"),
        &report,
    ]))
    .expect_status(0)
    .stdout;
    assert!(
        text.contains("peal:pmix/event-handler") && text.contains("peal:pmix/logging"),
        "{text}"
    );
    let brought = text.split("as a job-supplied handler\n").nth(1).unwrap();
    assert!(
        brought.starts_with(
            "  granted      logging\n  refused      none\n  limits       call_time_ms 100, "
        ),
        "{text}"
    );
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(
        &config,
        format!("[[module]]\nname = \"mine\"\npath = {report:?}\nlimits.output_bytes = 77\n"),
    )
    .unwrap();
    let configured = run(peal(["module", "inspect", "--config"])
        .arg(&config)
        .arg(&report))
    .expect_status(0)
    .stdout;
    let mine = configured
        .split("as module \"mine\" of the configuration\n")
        .nth(1)
        .unwrap();
    assert!(
        mine.starts_with("  granted      none\n  refused      logging\n"),
        "{configured}"
    );
    assert!(mine.contains(", output_bytes 77,"), "{configured}");
    std::fs::write(&config, "[[module]]").unwrap();
    let broken = run(peal(["module", "inspect", "--config"])
        .arg(&config)
        .arg(&report))
    .expect_status(0);
    assert!(
        broken.stderr.contains("makes no sense") && !broken.stdout.contains("job-supplied"),
        "{broken:?}"
    );
    let json = run(peal(["module", "inspect", "-o", "json"]).arg(&report))
        .expect_status(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["size"], std::fs::metadata(&report).unwrap().len());
    assert_eq!(json["digest"].as_str().unwrap().len(), 64);
    assert!(
        json["producers"]["language"].to_string().contains("Rust"),
        "{json}"
    );
    let spin = run(peal(["module", "inspect", "-o", "json"]).arg(guest("loop-forever")))
        .expect_status(0)
        .stdout;
    let spin: serde_json::Value = serde_json::from_str(&spin).unwrap();
    assert_eq!(
        spin["capabilities"].as_array().unwrap().len(),
        0,
        "a module has no unused capabilities"
    );
}

#[needs(prepared)]
#[test]
fn compiled_code_is_cached_only_in_private_directories() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let handled = |command: &mut Command| {
        run(command
            .arg("--handler")
            .arg(guest("report"))
            .args(["--", "echo", "done"]))
    };
    let by_default = handled(peal(["run"]).env("XDG_CACHE_HOME", dir.path())).expect_status(0);
    assert!(
        by_default.stderr.contains("compiled code cache disabled") && by_default.stdout == "done\n",
        "{by_default:?}"
    );
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[sandbox]\ncache_dir = \"kept\"\n").unwrap();
    let asked_for = handled(peal(["run", "--config"]).arg(&config)).expect_status(125);
    assert!(asked_for.stderr.contains("mode 777"), "{asked_for:?}");
}

#[needs(prepared)]
#[test]
fn completion_reader_closing_early_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = peal(["completions", "bash"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(finish(child).expect_status(0).stderr, "");
}

#[needs(prepared)]
#[test]
fn requested_trace_filter_is_applied_or_an_error() {
    // The configuration produces a warning.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let traced = |filter: &str| {
        let mut command = peal(["run", "--handler"]);
        command
            .arg(guest("report"))
            .env("XDG_CACHE_HOME", dir.path())
            .env("PEAL_LOG", filter);
        run(command.args(["--", "true"]))
    };
    let wrong = traced("peal=loud").expect_status(125).stderr;
    assert!(
        wrong.starts_with("peal: PEAL_LOG is \"peal=loud\"; it should be levels and their targets"),
        "{wrong}"
    );
    assert!(
        traced("")
            .expect_status(0)
            .stderr
            .contains("compiled code cache disabled"),
        "an empty value disables the cache without a message"
    );
    // On a busy machine the command prints that it compiles, which is no line of the trace.
    let untraced = traced("off").expect_status(0).stderr;
    assert!(
        !untraced.contains("compiled code cache disabled"),
        "{untraced}"
    );
}

#[needs(prepared)]
#[test]
fn options_of_the_trace_override_its_variable() {
    // A module that fails is a warning.
    let traced = |options: &[&str], filter: &str| {
        let mut command = peal([options, &["run", "-n", "1", "--handler"]].concat());
        command.arg(guest("trap")).env("PEAL_LOG", filter).arg("--");
        command.arg(program("peal"));
        command.args(["event", "notify", "--range", "namespace", "--", "-3001"]);
        run(&mut command).expect_status(0).stderr
    };
    let failed = "module call failed";
    assert!(!traced(&["--quiet"], "info").contains(failed));
    assert!(traced(&["-v"], "off").contains(failed));
    let lines = traced(&["--log-format", "json", "-v"], "");
    let mut lines = lines.lines().filter(|line| line.starts_with('{'));
    let line = lines.find(|line| line.contains(failed)).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["level"], "WARN", "{line}");
    assert_eq!(line["module"], "trap", "{line}");
    let mut both = peal(["-q", "config", "example", "-v"]);
    run(&mut both).expect_status(2);
}

#[needs(prepared)]
#[test]
fn without_modules_there_are_no_threads_for_them() {
    // A thread may end before its name is read.
    let names = ["--", "sh", "-c", "cat /proc/$PPID/task/*/comm; true"];
    let plain = run(peal(["run"]).args(names)).expect_status(0).stdout;
    assert!(
        plain.contains("peal-accept")
            && ["peal-guest", "peal-epoch"].map(|name| plain.contains(name)) == [false; 2],
        "{plain}"
    );
    let handled = run(peal(["run", "--handler"]).arg(guest("report")).args(names))
        .expect_status(0)
        .stdout;
    assert!(handled.contains("peal-epoch"), "{handled}");
}

/// Not a test, but the program of the next one. It raises more events than may wait for a terminal,
/// which itself accepts some lines.
#[test]
#[ignore = "the program of another test"]
fn raises_events_where_it_is_a_proc() {
    let raise = async {
        let client = Client::init().await.unwrap();
        for _ in 0..10_000 {
            client
                .notify(Status(-3701), Range::Namespace, Vec::new())
                .await
                .unwrap();
        }
        std::io::stdout()
            .write_all(format!("\nraised by {}\n", client.me().nspace).as_bytes())
            .unwrap();
        client.finalize().await.unwrap();
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(raise);
}

#[needs(prepared)]
#[test]
fn a_terminal_that_takes_nothing_keeps_nothing_from_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    std::fs::write(&config, "[store]\npath = \"jobs.db\"\n").unwrap();
    let mut command = peal(["run", "--events", "--config"]);
    command
        .arg(&config)
        .arg("--")
        .arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "command_line::raises_events_where_it_is_a_proc",
        "--ignored",
        "--nocapture",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The test does not read standard error before all events are raised.
    let mut said = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let nspace = said
        .find_map(|line| line.strip_prefix("raised by ").map(str::to_owned))
        .unwrap();
    let rest = std::thread::spawn(move || said.for_each(drop));
    let done = finish(child).expect_status(0);
    rest.join().unwrap();
    assert!(
        done.stderr.contains("notices lost"),
        "the terminal has taken all"
    );
    let store = Store::open(&dir.path().join("jobs.db"), StoreSettings::default()).unwrap();
    let record = store.job(&Nspace::new(&nspace).unwrap()).unwrap().unwrap();
    assert_eq!(record.ended.map(|(_, status)| status), Some(0));
    assert!(
        record
            .procs
            .iter()
            .any(|(_, how)| how == "exited with status 0"),
        "{record:?}"
    );
}

#[needs(prepared)]
#[test]
fn trace_line_names_client_request_event_and_module() {
    let traced = |filter: &str| {
        let peal_program = program("peal");
        let mut command = peal(["run", "-n", "1", "--handler"]);
        command.arg(guest("trap")).env("PEAL_LOG", filter);
        command.arg("--").arg(peal_program);
        command.args(["event", "notify", "--range", "namespace", "--", "-3001"]);
        let stderr = run(&mut command).expect_status(0).stderr;
        let line = stderr
            .lines()
            .find(|line| line.contains("module call failed"))
            .unwrap_or_else(|| panic!("no failed call in {stderr}"));
        line.to_owned()
    };
    let line = traced("info");
    for part in [
        "connection{from=127.0.0.1:",
        " rank=0}:request{command=Notify tag=",
        "}:event{number=1 code=-3001 source=",
        "}:chain{owner=namespace ",
        "module=\"trap\"",
    ] {
        assert!(line.contains(part), "{part:?} is not in {line}");
    }
    // Warnings name the client at the usual level, too.
    let line = traced("warn");
    assert!(
        line.contains("connection{from=127.0.0.1:") && line.contains(" rank=0}"),
        "{line}"
    );
}
