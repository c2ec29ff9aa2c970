//! `peal module test` and `peal module bench`: the results of cases, and the cost of calls.
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    guest, peal, root, run, text_form, until,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};
use tempfile::TempDir;

fn module(args: &[&str]) -> Done {
    run(&mut peal([&["module"], args].concat()))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Creates a directory with a file of cases.
fn cases(cases: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cases.toml");
    fs::write(&file, cases).unwrap();
    (dir, file)
}

/// Runs these cases of a guest.
fn try_guest(name: &str, text_of: &str) -> Done {
    let (_dir, file) = cases(text_of);
    module(&["test", text(&guest(name)), text(&file)])
}

#[needs(prepared)]
#[test]
fn shipped_modules_pass_their_cases() {
    let mut tried = Vec::new();
    for kind in fs::read_dir(root().join("guests"))
        .unwrap()
        .map(|kind| kind.unwrap().path())
    {
        for project in fs::read_dir(kind)
            .into_iter()
            .flatten()
            .map(|project| project.unwrap().path())
        {
            let name = project.file_name().unwrap().to_str().unwrap().to_owned();
            let Ok(files) = fs::read_dir(project.join("tests")) else {
                continue;
            };
            // A guest in another language is tested where its compiler is.
            if !project.join("Cargo.toml").exists() {
                continue;
            }
            let component = guest(&name);
            let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
            let args: Vec<&str> = ["test", text(&component)]
                .into_iter()
                .chain(files.iter().map(|file| text(file)))
                .collect();
            module(&args).expect_status(0);
            tried.push(name);
        }
    }
    for name in [
        "quota",
        "maintenance-window",
        "admin-group",
        "provision-dry",
        "group-rule",
        "spawn-limit",
        "join-by-rule",
        "escalate",
        "watchdog",
        "log-abort",
        "restart",
        "same-user",
        "stdio",
        "report",
    ] {
        assert!(
            tried.iter().any(|tried| tried == name),
            "{name} has no cases"
        );
    }
}

#[needs(prepared)]
#[test]
fn differences_are_shown_and_counted() {
    let wrong = r#"
        [[case]]
        name = "right"
        request = { hook = "job-control", user = 1000, targets = [{ proc = "mine:*", owner = 1000 }] }
        expect = { outcome = "grant" }
        [[case]]
        name = "wrong"
        request = { hook = "job-control", user = 1000, targets = [{ proc = "mine:*", owner = 1000 }] }
        expect = { outcome = "deny", infos = ["peal.reason=it is late", "site.x=1"] }
    "#;
    let done = try_guest("same-user", wrong).expect_status(1);
    for line in [
        "  ok      right",
        "  FAILED  wrong",
        "outcome: expected deny",
        "got grant",
        "- peal.reason=it is late",
    ] {
        assert!(done.stdout.contains(line), "{line} in {}", done.stdout);
    }
    assert!(
        done.stdout.ends_with("2 cases: 1 ok, 1 FAILED\n"),
        "{}",
        done.stdout
    );

    let (_dir, file) = cases(wrong);
    let done =
        module(&["test", text(&guest("same-user")), text(&file), "-o", "json"]).expect_status(1);
    let files: Value = serde_json::from_str(&done.stdout).unwrap();
    let [right, wrong] = [0, 1].map(|at| &files[0]["cases"][at]);
    assert_eq!((&right["ok"], &wrong["ok"]), (&true.into(), &false.into()));
    assert_eq!(
        wrong["differences"][0],
        serde_json::json!({ "field": "outcome", "expected": ["deny"], "got": ["grant"] })
    );
    assert_eq!(wrong["outcome"], "grant");
}

#[needs(prepared)]
#[test]
fn failed_module_fails_its_case_unless_expected() {
    let event = "[[case]]\nname = \"it traps\"\nevent = { code = -3001 }\n";
    let done = try_guest("trap", event).expect_status(1);
    assert!(
        done.stdout.contains("failure: expected none")
            && done.stdout.contains(
                "trapped: the call failed: panicked at handlers/trap/src/lib.rs:6:5: asked to fail on event -3001"
            ),
        "{}",
        done.stdout
    );
    let expected = format!(
        "{event}expect = {{ failure = \"trapped\", status = \"PEAL_ERR_MODULE_TRAPPED\" }}\n"
    );
    try_guest("trap", &expected).expect_status(0);
    try_guest("trap-policy", "[[case]]\nname = \"it traps\"\nrequest = { hook = \"connection\", kind = \"tool\" }\nexpect = { failure = \"trapped\" }")
        .expect_status(0);
}

#[needs(prepared)]
#[test]
fn invalid_case_is_reported_with_position_and_valid_input() {
    for (case, says) in [
        (
            "event = { code = \"PMIX_ERR_PROC_ABORTD\" }",
            ":3:18: the Standard has no such code; did you mean `PMIX_ERR_PROC_ABORTED`?",
        ),
        (
            "event = { code = -1, infos = [\"a=1\", \"b\"] }",
            ":3:38: it should be KEY=VALUE",
        ),
        (
            "event = { code = -1, infos = [{ key = \"a\", type = \"colour\", value = \"red\" }] }",
            "\"colour\" is no type",
        ),
        (
            "event = { code = -1, infos = [{ key = \"a\", values = [1] }] }",
            "values need a type",
        ),
        (
            "event = { code = -1, infos = [{ key = \"a\", type = \"int8\", values = [300] }] }",
            "\"300\" is no int8",
        ),
        (
            "event = { code = -1, source = \"solver\" }",
            "\"solver\" is no NSPACE:RANK",
        ),
        (
            "evnt = { code = -1 }",
            ":3:1: unknown field `evnt`, expected one of",
        ),
        (
            "event = { code = -1 }\nlog = { channel = \"stdout\" }",
            "case \"wrong\": it has one of event, request and log",
        ),
        (
            "request = { hook = \"connection\" }",
            "a connection has a kind, \"client\" or \"tool\"",
        ),
        (
            "request = { hook = \"publish\" }",
            "unknown variant `publish`, expected one of `connection`",
        ),
        (
            "request = { hook = \"spawn\" }",
            "a request to spawn has applications",
        ),
        (
            "time = 2026-01-05T09:00:00\nevent = { code = -1 }",
            "it should be a time with its offset",
        ),
        (
            "event = { code = -1 }\nexpect = { status = \"OK\" }",
            "the Standard has no such code",
        ),
    ] {
        let done = try_guest("report", &format!("[[case]]\nname = \"wrong\"\n{case}\n"))
            .expect_status(125);
        assert!(done.stderr.contains(says), "{case}: {}", done.stderr);
    }
    let done = try_guest(
        "report",
        "[[case]]\nname = \"a policy\"\nrequest = { hook = \"job-control\" }",
    )
    .expect_status(125);
    assert!(
        done.stderr
            .contains("case \"a policy\" is for a job-control-policy, which module report is not"),
        "{}",
        done.stderr
    );
    let none = module(&["test", text(&guest("report"))]).expect_status(125);
    assert!(
        none.stderr.contains("there are no cases: name a file"),
        "{}",
        none.stderr
    );
    for verb in ["test", "bench"] {
        let nothing = module(&[verb]).expect_status(125).stderr;
        assert!(
            nothing.contains(". holds no component (*.wasm): build it first"),
            "{nothing}"
        );
    }
}

/// Every value that a case can hold passes through a component unchanged.
#[needs(prepared)]
#[test]
fn values_round_trip_and_output_can_be_expected() {
    let (dir, file) = cases(
        r#"
        [[case]]
        name = "values"
        [case.event]
        code = -1
        infos = [
            "a=5", "a:uint64=18446744073709551615", "a:int64=-9223372036854775808", "a:double=NaN", "a:float=-inf", "a=true",
            "a:bytes=00ff", "a=a \"text\" of\nlines", "a:undef=", "a:timeval=5.000001", "a:time=7", "a:status=PMIX_SUCCESS",
            "a:proc=solver:*", "a:nspace=solver", "a:rank=*", "a:range=local", "a:byte=7", "a:pid=7", "a:size=7",
            "PMIX_EVENT_AFFECTED_PROCS=solver:0,other:*",
            { key = "list", type = "int16", values = [-1, 2] },
            { key = "none", type = "string", values = [] },
            { key = "tree", infos = ["b=1", { key = "c", infos = [{ key = "d", type = "bool", values = [true] }] }] },
            { key = "rows", type = "array", values = [{ type = "int", values = [1, 2] }, { infos = ["e=1"] }] },
            { key = "flagged", type = "string", value = "x", flags = ["required"] },
            { key = "odd=key", value = 5 },
        ]
    "#,
    );
    let echo = dir.path().join("echo.wasm");
    fs::write(&echo, text_form::of_sandbox("echo.wat")).unwrap();
    let written = dir.path().join("written.toml");
    module(&["test", text(&echo), text(&file), "--write", text(&written)]).expect_status(0);
    let table: toml::Table = fs::read_to_string(&written).unwrap().parse().unwrap();
    let given = &table["case"][0]["event"]["infos"];
    let expected = &table["case"][0]["expect"]["infos"];
    assert_eq!(
        expected.as_array().unwrap().len(),
        given.as_array().unwrap().len(),
        "nothing is without a form"
    );
    module(&["test", text(&echo), text(&written)]).expect_status(0);
    // The input equals the output, in the notation of cases.
    let mut same = table.clone();
    same["case"][0]["expect"]["infos"] = given.clone();
    fs::write(&written, same.to_string()).unwrap();
    module(&["test", text(&echo), text(&written)]).expect_status(0);
}

#[needs(prepared)]
#[test]
fn the_cases_of_a_project_are_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("tests")).unwrap();
    let missing = module(&["test", text(dir.path())]).expect_status(125);
    assert!(
        missing.stderr.contains("holds no component"),
        "{}",
        missing.stderr
    );
    fs::copy(guest("report"), dir.path().join("mine.wasm")).unwrap();
    fs::write(
        dir.path().join("tests/a.toml"),
        "[[case]]\nname = \"one\"\nevent = { code = -3001 }\nexpect = {}\n",
    )
    .unwrap();
    for at in [dir.path().to_owned(), dir.path().join("mine.wasm")] {
        let done = module(&["test", text(&at)]).expect_status(0);
        assert!(
            done.stdout.ends_with("1 case: 1 ok, 0 FAILED\n"),
            "{}",
            done.stdout
        );
    }
    fs::copy(guest("report"), dir.path().join("yours.wasm")).unwrap();
    let two = module(&["test", text(dir.path())]).expect_status(125);
    assert!(
        two.stderr.contains("name the one that is meant"),
        "{}",
        two.stderr
    );
}

/// A recording of a server's watcher is run again, and compared with the recorded results.
#[needs(prepared)]
#[test]
fn a_recording_is_run_again() {
    let place = Place::new();
    let path = guest("complete");
    let report = guest("report");
    place.configure(&format!(
        "[[module]]\nname = \"report\"\npath = {report:?}\ngrants = [\"logging\"]\n[[module]]\nname = \"ends\"\npath = {path:?}\n"
    ));
    let daemon = place.start();
    let recording = place.path("night.jsonl");
    record(&place, &daemon, &recording);
    let done = module(&["test", text(&path), "--name", "ends", text(&recording)]).expect_status(0);
    assert!(
        done.stdout.contains("line 1: -3001") && done.stdout.contains("peal.complete.after=report"),
        "{}",
        done.stdout
    );

    // Another module under that name has other results.
    let done =
        module(&["test", text(&report), "--name", "ends", text(&recording)]).expect_status(1);
    assert!(
        done.stdout
            .contains("status: expected PMIX_EVENT_ACTION_COMPLETE"),
        "{}",
        done.stdout
    );
    // A module that was not in the chain runs without expectations; its results can be written as
    // such.
    let written = place.path("night.toml");
    module(&[
        "test",
        text(&report),
        "--name",
        "new",
        text(&recording),
        "--write",
        text(&written),
    ])
    .expect_status(0);
    let table = fs::read_to_string(&written).unwrap();
    assert!(table.contains("peal.report.seen:uint32=0"), "{table}");
    module(&["test", text(&report), text(&written)]).expect_status(0);

    let broken = fs::read_to_string(&recording).unwrap() + "{\"code\": 5}\n";
    fs::write(&recording, broken).unwrap();
    let done = module(&["test", text(&path), text(&recording)]).expect_status(125);
    assert!(
        done.stderr.contains("night.jsonl:2:") && done.stderr.contains("this is no event"),
        "{}",
        done.stderr
    );
}

/// Watches until one event was printed, and raises it until then.
pub(super) fn record(place: &Place, daemon: &Daemon, to: &Path) {
    let event = |args: &[&str]| {
        let mut command = daemon.verb(&[&["event"], args].concat());
        command
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut watch = event(&["watch", "-3001", "-o", "json", "--count", "1"]);
    let mut child = watch.stdout(fs::File::create(to).unwrap()).spawn().unwrap();
    let notify = ["notify", "-3001", "--range", "namespace"];
    let infos = [
        "--info",
        "site.load=5",
        "--info",
        "PMIX_EVENT_AFFECTED_PROC=solver:*",
    ];
    until("an event is seen", || {
        run(&mut event(&[notify, infos].concat())).expect_status(0);
        child.try_wait().unwrap().is_some()
    });
}

#[needs(prepared)]
#[test]
fn duration_of_calls_is_measured() {
    let done = module(&[
        "bench",
        text(&guest("same-user")),
        "--calls",
        "50",
        "-o",
        "json",
    ])
    .expect_status(0);
    let measured: Value = serde_json::from_str(&done.stdout).unwrap();
    let cases = measured["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 6, "one for each of its roles: {measured}");
    for case in cases {
        let number = |name: &str| case[name].as_f64().unwrap_or_default();
        assert!(
            number("fuel") > 10.0 && number("memory") > 65_536.0 && number("calls") == 50.0,
            "{case}"
        );
        assert!(
            0.0 < number("median_us")
                && number("median_us") <= number("p95_us")
                && number("p95_us") <= number("p99_us"),
            "{case}"
        );
    }
    assert!(
        measured["compile_us"].as_f64() > Some(0.0) && measured["start_us"].as_f64() > Some(0.0),
        "{measured}"
    );
    assert!(
        !done.stderr.contains(['\r', '\u{1b}']),
        "lines are redrawn on terminals only: {:?}",
        done.stderr
    );

    let cases = root().join("guests/policies/quota/tests/quota.toml");
    let done = module(&[
        "bench",
        text(&guest("quota")),
        text(&cases),
        "--calls",
        "20",
    ])
    .expect_status(0);
    assert!(
        done.stdout.contains("median") && done.stdout.contains("a fourth one is denied"),
        "{}",
        done.stdout
    );
    let done = module(&["bench", text(&guest("trap")), "--calls", "20"]).expect_status(1);
    assert!(
        done.stdout
            .contains("failed after 0 measured calls: the call failed: panicked at "),
        "{}",
        done.stdout
    );
}

#[needs(prepared)]
#[test]
fn call_over_the_servers_limit_fails_its_case() {
    let case = "[[case]]\nname = \"it loops\"\nevent = { code = -3001 }\nexpect = { status = 0 }\n";
    let done = try_guest("loop-forever", case).expect_status(1);
    assert!(
        done.stdout
            .contains("got timeout: the call ran longer than 100ms (limits.call_time_ms)"),
        "{}",
        done.stdout
    );
    let (_dir, file) = cases(case);
    let spin = guest("loop-forever");
    let done = module(&["test", text(&spin), text(&file), "--call-time", "20ms"]).expect_status(1);
    assert!(
        done.stdout.contains("ran longer than 20ms"),
        "{}",
        done.stdout
    );
    for wrong in ["0", "11m", "soon"] {
        module(&["test", text(&spin), text(&file), "--call-time", wrong]).expect_status(2);
    }
}

#[needs(prepared)]
#[test]
fn bench_of_no_finished_call_shows_no_time() {
    let spin = guest("loop-forever");
    let done = module(&["bench", text(&spin), "--call-time", "5ms"]).expect_status(1);
    let row = done
        .stdout
        .lines()
        .find(|line| line.ends_with("  event-handler"))
        .unwrap();
    let cells: Vec<&str> = row
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    assert_eq!(
        (cells[0], &cells[2..6]),
        ("0", &["-", "-", "-", "-"][..]),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout
            .contains("event-handler failed after 0 measured calls: the call ran longer than 5ms"),
        "{}",
        done.stdout
    );
    let json = module(&["bench", text(&spin), "--call-time", "5ms", "-o", "json"])
        .expect_status(1)
        .stdout;
    let measured: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(measured["cases"][0]["median_us"], Value::Null, "{measured}");
}

#[needs(prepared)]
#[test]
fn bench_of_one_call_keeps_its_columns_apart() {
    let done = module(&["bench", text(&guest("same-user")), "--calls", "1"]).expect_status(0);
    let rows: Vec<Vec<&str>> = done
        .stdout
        .lines()
        .skip_while(|line| !line.contains("first call"))
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        rows[0],
        [
            "calls",
            "first call",
            "median",
            "p95",
            "p99",
            "fuel",
            "memory",
            "case"
        ],
        "{}",
        done.stdout
    );
    for row in &rows[1..] {
        assert_eq!((row.len(), row[0]), (8, "1"), "{}", done.stdout);
        assert_eq!(
            (row[2], row[2]),
            (row[3], row[4]),
            "one call has one time: {}",
            done.stdout
        );
    }
}

#[needs(prepared)]
#[test]
fn cases_that_check_nothing_are_not_counted_as_ok() {
    let silent = "[[case]]\nname = \"silent\"\nevent = { code = -3001 }\n";
    let done = try_guest("report", silent).expect_status(0);
    assert!(
        done.stdout.contains("  -       silent\n"),
        "{}",
        done.stdout
    );
    assert!(
        done.stdout
            .ends_with("1 case: 0 ok, 1 not checked (without `expect`), 0 FAILED\n"),
        "{}",
        done.stdout
    );
    let both =
        format!("{silent}[[case]]\nname = \"said\"\nevent = {{ code = -3001 }}\nexpect = {{}}\n");
    let done = try_guest("report", &both).expect_status(0);
    assert!(
        done.stdout
            .ends_with("2 cases: 1 ok, 1 not checked (without `expect`), 0 FAILED\n"),
        "{}",
        done.stdout
    );
    for nothing in ["", "config = { per_minute = 3 }\n"] {
        let done = try_guest("report", nothing).expect_status(125);
        assert!(
            done.stderr
                .contains("cases.toml: there is no [[case]] in it"),
            "{}",
            done.stderr
        );
    }
}

/// The command reports once that an interpreter is being compiled.
/// The same work takes the same fuel in every run and on every machine.
#[needs(prepared)]
#[test]
fn fuel_is_the_same_every_time() {
    let fuel = || {
        let done = module(&[
            "bench",
            text(&guest("report")),
            "--calls",
            "5",
            "-o",
            "json",
        ])
        .expect_status(0);
        serde_json::from_str::<Value>(&done.stdout).unwrap()["cases"][0]["fuel"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(fuel(), fuel());
}
