//! `peal config`, and the use of configurations by the other commands, as an admin sees them.
use peal_needs::needs;
use peal_tests::{Done, guest, peal, root, run, text_form};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Creates a directory with a `peal.toml`.
fn site(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("peal.toml");
    fs::write(&file, text).unwrap();
    (dir, file)
}

fn check(file: &Path) -> Done {
    run(peal(["config", "check"]).arg(file))
}

/// Returns the error of a run under this configuration, which is also that of `peal config check`.
#[track_caller]
fn refused(text: &str) -> String {
    let (dir, file) = site(text);
    let told = check(&file).expect_status(1).stderr;
    let run = run(peal(["run", "--config"]).arg(&file).args(["--", "true"])).expect_status(125);
    assert_eq!(run.stderr, told);
    told.replace(&format!("{}/", dir.path().display()), "")
}

#[needs(prepared)]
#[test]
fn run_with_wrong_configuration_is_refused_with_its_position() {
    let unknown = refused("[run]\non_abrot = \"continue\"\n");
    assert_eq!(
        unknown,
        "peal: peal.toml:2:1: unknown key \"run.on_abrot\"; did you mean `on_abort`?\n"
    );
    let several = refused("[run]\non_abort = \"explode\"\n[server]\nmax_outbox_messages = 0\n");
    let lines: Vec<&str> = several.lines().collect();
    assert_eq!(
        lines[0],
        "peal: peal.toml:2:12: run.on_abort is \"explode\"; it should be \"terminate\" or \"continue\""
    );
    assert_eq!(
        lines[1],
        "peal: peal.toml:4:23: server.max_outbox_messages is 0; it should be a whole number from 1 to 1000000"
    );
    let absent = run(&mut peal([
        "run",
        "--config",
        "/no/such.toml",
        "--",
        "true",
    ]))
    .expect_status(125);
    assert!(
        absent
            .stderr
            .contains("cannot read the configuration \"/no/such.toml\""),
        "{}",
        absent.stderr
    );
    run(&mut peal([
        "run",
        "--set",
        "server.max_outbox_messages",
        "--",
        "true",
    ]))
    .expect_status(2);
}

#[needs(prepared)]
#[test]
fn component_must_match_its_settings() {
    let module = |more: &str| {
        format!(
            "[[module]]\nname = \"m\"\npath = {:?}\n{more}\n",
            guest("report")
        )
    };
    let ungranted = refused(&module(""));
    let says = "peal: peal.toml:1:1: module m imports peal:pmix/logging, which it is not granted (add \"logging\" to its grants)";
    assert_eq!(ungranted.trim_end(), says);
    let pinned = refused(&module(&format!(
        "grants = [\"logging\"]\nsha256 = \"{}\"",
        "0".repeat(64)
    )));
    assert!(
        pinned.starts_with("peal: peal.toml:5:1: ")
            && pinned.contains("the configuration requires 0000"),
        "{pinned}"
    );
    let absent = refused("[[module]]\nname = \"m\"\npath = \"m.wasm\"\n");
    assert!(
        absent.starts_with("peal: peal.toml:3:1: cannot read m.wasm: "),
        "{absent}"
    );
    let text = refused(&format!(
        "[[module]]\nname = \"m\"\npath = {:?}\n",
        root().join("README.md")
    ));
    assert!(
        text.starts_with("peal: peal.toml:3:1: module m: not WebAssembly"),
        "{text}"
    );
    // Each of these settings belongs to another kind of module, and would have no effect.
    let misplaced = refused(&module(
        "grants = [\"logging\"]\non_failure = \"pass\"\nchannels = [\"stdout\"]\nsinks = [\"stdout\"]\nmax_state_bytes = 1\n",
    ));
    for (line, words) in [
        (5, "cannot use module.on_failure: it exports no policy"),
        (
            6,
            "cannot use module.channels: it exports no peal:pmix/log-channel",
        ),
        (
            7,
            "cannot use module.sinks: \"sink\" is not among its grants",
        ),
        (
            8,
            "cannot use module.max_state_bytes: \"state\" is not among its grants",
        ),
    ] {
        assert!(
            misplaced.contains(&format!("peal: peal.toml:{line}:1: module m {words}\n")),
            "{misplaced}"
        );
    }
    let place = refused(&module(
        "grants = [\"logging\"]\nplacement = { before = \"nobody\" }",
    ));
    assert!(
        place.starts_with("peal: peal.toml:5:1: ")
            && place.contains("no handler is called \"nobody\""),
        "{place}"
    );
}

#[needs(prepared)]
#[test]
fn errors_of_next_start_are_all_reported_at_once() {
    let module = |name: &str, component: &str, more: &str| {
        format!(
            "[[module]]\nname = {name:?}\npath = {:?}\n{more}\n",
            guest(component)
        )
    };
    let text = [
        module(
            "a",
            "report",
            "grants = [\"logging\", \"state\"]\nplacement = \"first\"",
        ),
        module(
            "b",
            "report",
            "placement = \"first\"\ngrants = [\"logging\"]",
        ),
        module("c", "stdio", "grants = [\"sink\"]"),
        module("d", "stdio", "grants = [\"sink\"]\nchannels = [\"stdout\"]"),
        module(
            "e",
            "stdio",
            "grants = [\"sink\"]\nchannels = [\"stderr\", \"stdout\"]",
        ),
        module("f", "same-user", "placement = { after = \"a\" }"),
    ]
    .concat();
    let told = refused(&text);
    let wanted = [
        "peal.toml:4:1: module a cannot keep `state` without a store: set store.path",
        "peal.toml:9:1: module b cannot be registered: FIRST is held by \"a\"; only one handler may hold it",
        "peal.toml:11:1: \"c\" names no channel; write which it is, such as stdout",
        "peal.toml:24:1: pmix.log.stdout is served by \"d\" already; only one module may",
        "peal.toml:28:1: module f cannot decide: no handler is called \"a\", so none can be placed before or after it",
    ];
    let told: Vec<&str> = told
        .lines()
        .map(|line| line.strip_prefix("peal: ").unwrap())
        .collect();
    assert_eq!(told, wanted);
    // A job has no administrators.
    let (_dir, file) = site("[admin]\ngroup = \"no-such-group\"\n");
    let group = check(&file).expect_status(1).stderr;
    assert!(
        group.contains("peal.toml:2:1: admin.group: there is no group \"no-such-group\" here"),
        "{group}"
    );
    run(peal(["run", "--config"]).arg(&file).args(["--", "true"])).expect_status(0);
}

/// Returns a module that registers one handler itself.
fn registers_itself() -> Vec<u8> {
    text_form::of_sandbox("managed.wat")
}

#[needs(prepared)]
#[test]
fn ignored_handler_settings_are_reported() {
    let start = |more: &str| {
        let text = "[[module]]\nname = \"m\"\npath = \"m.wasm\"\ngrants = [\"logging\"]\n";
        let (dir, file) = site(&format!(
            "{text}{more}[module.config]\n\"site.any\" = true\n"
        ));
        fs::write(dir.path().join("m.wasm"), registers_itself()).unwrap();
        check(&file).expect_status(0);
        run(peal(["run", "--config"]).arg(&file).args(["--", "true"]))
    };
    start("").expect_status(0);
    // Its name in the chain is known only at run time, so the check must not report that there is
    // no such handler.
    let beside = format!(
        "[[module]]\nname = \"n\"\npath = {:?}\ncodes = [-1, -2]\n",
        guest("noop")
    );
    let (dir, file) = site(&format!(
        "[[module]]\nname = \"m\"\npath = \"m.wasm\"\ngrants = [\"logging\"]\nconfig = {{ \"site.any\" = true }}\n\
         {beside}placement = {{ after = \"managed\" }}\n"
    ));
    fs::write(dir.path().join("m.wasm"), registers_itself()).unwrap();
    check(&file).expect_status(0);
    run(peal(["run", "--config"]).arg(&file).args(["--", "true"])).expect_status(0);
    let refused = start("codes = [-1]\nplacement = \"last\"\n")
        .expect_status(125)
        .stderr;
    let says = "peal.toml:5:1: module m registers its handlers itself: leave out module.codes, module.placement\n";
    assert!(refused.ends_with(says), "{refused}");
    let refused = start("oneshot = true\n").expect_status(125).stderr;
    assert!(refused.contains("leave out module.oneshot"), "{refused}");
}

#[needs(prepared)]
#[test]
fn impossible_retention_is_refused_with_valid_values() {
    for (given, wanted) in [
        (
            "decision_percent = 0",
            "peal.toml:2:20: audit.decision_percent is 0; it should be a whole number from 1 to 90",
        ),
        ("decision_percent = 100", "a whole number from 1 to 90"),
        (
            "max_decision_percent_per_user = 0",
            "a whole number from 1 to 90",
        ),
        ("decision_days = 0", "a whole number from 1 to 36500"),
        (
            "refusal_interval_ms = 0",
            "a whole number of milliseconds from 100 to 3600000",
        ),
        (
            "decision_days = 9\nkeep_days = 8",
            "peal.toml:2:1: audit.decision_days: decisions cannot stay for 9 days",
        ),
        (
            "decision_percent = 10",
            "peal.toml:2:1: audit.max_decision_percent_per_user is 25, and audit.decision_percent 10",
        ),
        (
            "max_decision_percent_per_user = 60",
            "the share of one user is 50 at most",
        ),
    ] {
        let (_dir, file) = site(&format!("[audit]\n{given}\n"));
        let told = check(&file).expect_status(1).stderr;
        assert!(told.contains(wanted), "{given}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    // If records are kept for less than a week, decisions are, too.
    let (_dir, file) = site("[audit]\nkeep_days = 3\n");
    check(&file).expect_status(0);
}

#[needs(prepared, root)]
#[test]
fn config_check_reports_errors_of_all_kinds_at_once() {
    let module = |more: &str| {
        format!(
            "[[module]]\nname = \"m\"\npath = {:?}\n{more}\n",
            guest("report")
        )
    };
    let sink = "[[sink]]\nname = \"s\"\n";
    let text = format!(
        "[server]\nmax_outbox_messages = 0\n[admin]\ngroup = \"no-such-group\"\n[audit]\npath = \"audit.db\"\n{sink}{}",
        module("placement = { after = \"other\" }")
    );
    let (dir, file) = site(&text);
    fs::create_dir(dir.path().join("modules.d")).unwrap();
    fs::write(dir.path().join("modules.d/a.toml"), "name = [\n").unwrap();
    fs::write(
        dir.path().join("modules.d/b.toml"),
        "name = \"b\"\npath = \"none.wasm\"\ngrant = 1\n",
    )
    .unwrap();
    fs::write(
        dir.path().join("modules.d/c.toml"),
        "name = \"c\"\npath = \"none.wasm\"\n",
    )
    .unwrap();
    let told = check(&file)
        .expect_status(1)
        .stderr
        .replace(&format!("{}/", dir.path().display()), "");
    for wanted in [
        "peal.toml:2:23: server.max_outbox_messages is 0",
        "peal.toml:4:1: admin.group: there is no group \"no-such-group\"",
        "peal.toml:6:1: audit.on_failure is required with an audit trail",
        "peal.toml:8:1: a sink has one of",
        "peal.toml:9:1: module m imports peal:pmix/logging",
        "modules.d/a.toml:1:",
        "modules.d/b.toml:3:1: unknown key \"module.grant\"",
        "modules.d/c.toml:2:1: cannot read",
    ] {
        assert_eq!(told.matches(wanted).count(), 1, "{wanted}: {told}");
    }
    // It is not known if the file with invalid TOML defines `other`. The error of b was already
    // reported.
    assert_eq!(told.lines().count(), 8, "{told}");
    let json = run(peal(["config", "check", "-o", "json"]).arg(&file)).expect_status(1);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&json["ok"], json["problems"].as_array().map(Vec::len)),
        (&false.into(), Some(8))
    );
    let first = &json["problems"][0];
    assert_eq!(
        (
            &first["at"]["layer"],
            &first["at"]["line"],
            &first["at"]["column"]
        ),
        (&"file".into(), &2.into(), &23.into())
    );
    assert!(
        first["message"]
            .as_str()
            .unwrap()
            .starts_with("server.max_outbox_messages is 0"),
        "{first}"
    );
    let (_dir, right) = site("");
    let json = run(peal(["config", "check", "-o", "json"]).arg(&right))
        .expect_status(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["ok"], &json["problems"]),
        (&true.into(), &serde_json::json!([]))
    );
    for args in [
        &["config", "check", "--jsn"][..],
        &["config", "check", "a", "--config", "b"],
        &["config", "chek"],
    ] {
        run(&mut peal(args)).expect_status(2);
    }
    let absent = run(&mut peal([
        "config",
        "check",
        "/no/such.toml",
        "-o",
        "json",
    ]))
    .expect_status(1)
    .stdout;
    assert!(absent.contains("cannot read the configuration"), "{absent}");
}

#[needs(prepared)]
#[test]
fn site_component_must_be_writable_by_its_owner_only() {
    let (dir, file) = site("[[module]]\nname = \"m\"\npath = \"m.wasm\"\ngrants = [\"logging\"]\n");
    let component = dir.path().join("m.wasm");
    fs::copy(guest("report"), &component).unwrap();
    check(&file).expect_status(0);
    fs::set_permissions(&component, fs::Permissions::from_mode(0o666)).unwrap();
    // Only a server of root checks the permissions of its files.
    let exposed = check(&file).expect_status(1).stderr;
    assert!(
        exposed.contains("peal.toml:3:1: ") && exposed.contains("has owner 0 and mode 666"),
        "{exposed}"
    );
    // A file with a fixed hash may be writable by others.
    let json = run(peal(["module", "inspect", "-o", "json"]).arg(&component))
        .expect_status(0)
        .stdout;
    let digest = serde_json::from_str::<serde_json::Value>(&json).unwrap()["digest"].clone();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}sha256 = {digest}\n")).unwrap();
    check(&file).expect_status(0);
    fs::remove_file(&component).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &component,
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    let fifo = check(&file).expect_status(1).stderr;
    assert!(
        fifo.ends_with("m.wasm: it is not a regular file\n"),
        "{fifo}"
    );
}

#[needs(prepared)]
#[test]
fn valid_configuration_is_reported_as_valid() {
    let module = format!(
        "name = \"m\"\npath = {:?}\ngrants = [\"logging\"]\n",
        guest("report")
    );
    let (dir, file) = site("[events]\nring_size = 9\n");
    fs::create_dir(dir.path().join("modules.d")).unwrap();
    fs::write(dir.path().join("modules.d/m.toml"), module).unwrap();
    let done = check(&file).expect_status(0);
    assert!(
        done.stdout.starts_with("all is well, 1 module:")
            && done.stdout.contains("modules.d/m.toml"),
        "{done:?}"
    );
    let none = run(&mut peal(["config", "check"])).expect_status(0);
    assert_eq!(none.stdout, "all is well, 0 modules: no file was read\n");
}

#[needs(prepared)]
#[test]
fn effective_values_are_shown_with_their_layer() {
    let (_dir, file) = site(
        "[events]\nring_size = 9\n[server]\nmax_outbox_messages = 10\nmax_connections_per_proc = 11\n",
    );
    let show = |more: &[&str]| {
        let mut command = peal(["config", "show", "--config"]);
        command
            .arg(&file)
            .args(more)
            .env("PEAL_SERVER_MAX_OUTBOX_MESSAGES", "20")
            .env("PEAL_STORE_PATH", "/srv/peal.db");
        run(command.args(["--set", "server.max_connections_per_proc=30"]))
            .expect_status(0)
            .stdout
    };
    let text = show(&[]);
    for (value, origin) in [
        ("ring_size = 9", format!("{}:2:1", file.display())),
        (
            "max_outbox_messages = 20",
            "PEAL_SERVER_MAX_OUTBOX_MESSAGES".to_owned(),
        ),
        ("path = \"/srv/peal.db\"", "PEAL_STORE_PATH".to_owned()),
        (
            "max_connections_per_proc = 30",
            "--set server.max_connections_per_proc".to_owned(),
        ),
        ("on_abort = \"terminate\"", "built-in".to_owned()),
        ("# threads: one for each core", "built-in".to_owned()),
    ] {
        let found = text
            .lines()
            .find(|line| line.split("  ").next() == Some(value));
        assert!(
            found.is_some_and(|line| line.ends_with(&format!("  # {origin}"))),
            "{value} of {origin}: {text}"
        );
    }
    let json: serde_json::Value = serde_json::from_str(&show(&["-o", "json"])).unwrap();
    let row = |key: &str| {
        json["settings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == key)
            .unwrap()
            .clone()
    };
    assert_eq!(row("server.max_outbox_messages")["value"], 20);
    assert_eq!(
        row("server.max_outbox_messages")["origin"]["variable"],
        "PEAL_SERVER_MAX_OUTBOX_MESSAGES"
    );
    assert_eq!(row("events.ring_size")["origin"]["line"], 2);
    assert_eq!(
        row("server.max_connections_per_proc")["origin"]["option"],
        "--set server.max_connections_per_proc"
    );
    let wrong = run(peal(["config", "show"]).env("PEAL_SERVER_MAX_OUTBX_MESSAGES", "20"))
        .expect_status(125)
        .stderr;
    assert_eq!(
        wrong,
        "peal: PEAL_SERVER_MAX_OUTBX_MESSAGES: unknown setting; did you mean `PEAL_SERVER_MAX_OUTBOX_MESSAGES`?\n"
    );
}

/// The file lets the job go on when a proc fails, and this one would for an hour.
#[needs(prepared)]
#[test]
fn the_layers_above_the_file_reach_the_run() {
    let program = [
        "--",
        "sh",
        "-c",
        "[ $PMIX_RANK = 0 ] && exit 3; exec sleep 3600",
    ];
    let (_dir, file) = site("[run]\non_abort = \"continue\"\n");
    let job = || {
        let mut command = peal(["run", "-n", "2"]);
        command.env("PEAL_CONFIG", &file);
        command
    };
    run(job().args(["--on-abort", "terminate"]).args(program)).expect_status(3);
    run(job()
        .args(["--set", "run.on_abort=terminate"])
        .args(program))
    .expect_status(3);
    run(job().env("PEAL_RUN_ON_ABORT", "terminate").args(program)).expect_status(3);
}

#[needs(prepared)]
#[test]
fn the_documents_are_printed_as_they_lie_in_the_repository() {
    for (verb, file) in [
        ("example", "docs/src/reference/peal.example.toml"),
        ("reference", "docs/src/reference/settings.md"),
    ] {
        let printed = run(&mut peal(["config", verb])).expect_status(0).stdout;
        assert!(
            printed == fs::read_to_string(root().join(file)).unwrap(),
            "{file} is stale: peal config {verb} > {file}"
        );
    }
    check(&root().join("docs/src/reference/peal.example.toml")).expect_status(0);
}

/// The tables of the page on configuration agree with `peal config show`.
#[needs(prepared)]
#[test]
fn book_tables_name_existing_keys_with_defaults() {
    let json = run(&mut peal(["config", "show", "-o", "json"]))
        .expect_status(0)
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let settings = json["settings"].as_array().unwrap();
    let sections: Vec<&str> = settings
        .iter()
        .map(|row| row["key"].as_str().unwrap().split('.').next().unwrap())
        .collect();
    let page = "docs/src/admin/configuration.md";
    let text = fs::read_to_string(root().join(page)).unwrap();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let key = cells[1].trim_matches('`');
        if !key
            .split_once('.')
            .is_some_and(|(section, _)| sections.contains(&section))
        {
            continue;
        }
        let found = settings.iter().find(|setting| setting["key"] == key);
        let found = found.unwrap_or_else(|| panic!("{page} names {key}, which is no setting"));
        let value = &found["value"];
        let holds = value.to_string();
        assert!(
            value.is_null() || cells[2].trim_matches('`') == holds,
            "{page}: {row}; it is {holds}"
        );
    }
}
