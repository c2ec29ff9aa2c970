//! Faults of a server that still serves: `peal status` reports them, and other commands go on
//! working.
use peal_model::{Range, Status};
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place, put, wrapped},
    guest, peal, run, until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const NEWS: Status = Status(-3101);

/// Returns the faults of a server from its status in JSON.
fn troubles(done: &Done) -> Vec<(String, String)> {
    let status: Value = serde_json::from_str(&done.stdout).unwrap();
    let text = |trouble: &Value, of: &str| trouble[of].as_str().unwrap().to_owned();
    status["troubles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(one, "kind"), text(one, "message")))
        .collect()
}

/// Returns true if the status text reports that the audit trail fails, or failed before smaller
/// records were written.
fn tells_of_audit(status: &str) -> bool {
    [
        "cannot be written",
        "could not always be written in the last minute",
    ]
    .iter()
    .any(|when| status.contains(&format!("\nTROUBLE      audit: it {when}: ")))
}

/// Returns a component with an unused custom section of two million bytes.
fn large(component: &Path) -> Vec<u8> {
    let mut bytes = fs::read(component).unwrap();
    let body = [&[1, b'v'][..], &vec![0; 2_000_000]].concat();
    bytes.push(0);
    let mut rest = body.len();
    while rest >= 0x80 {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes.extend(body);
    bytes
}

/// The data of a call are larger than the maximum size of the trail, so that no call can be
/// recorded.
#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn status_of_full_trail_shows_consequence_once() {
    let place = Place::new();
    let dir = place.path("").display().to_string();
    fs::write(place.path("large.wasm"), large(&guest("namespace-only"))).unwrap();
    place.configure(&format!(
        "[audit]\npath = \"{dir}audit.db\"\non_failure = \"deny\"\nmax_bytes = 1048576\n\
         [[module]]\nname = \"namespace-only\"\npath = \"large.wasm\"\n"
    ));
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "1"]);
    let client = server.client("job", 0).await;
    for _ in 0..20 {
        assert!(
            client
                .notify(NEWS, Range::Namespace, Vec::new())
                .await
                .is_err(),
            "it cannot be recorded"
        );
    }
    let told = troubles(&server.ask(&["status", "-o", "json"]).expect_status(1));
    let [(kind, message)] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(kind, "audit");
    assert!(
        message.contains("what policies grant is DENIED") && message.contains("not on record"),
        "{message}"
    );
    let text = server.ask(&["status"]).expect_status(1).stdout;
    assert!(tells_of_audit(&text), "{text}");
    drop(client);
    server.tell(&["stop", "--wait"]);
    let said = server.ends().stderr;
    assert_eq!(said.matches("audit trail not written").count(), 1, "{said}");
}

/// Starts a server that alone sees a small file system on this directory.
fn serve_on_small_disk(place: &Place, small: &Path) -> Daemon {
    place.start_under(|serve| {
        let mut command = Command::new("unshare");
        command
            .args([
                "-m",
                "sh",
                "-c",
                "mount -t tmpfs -o size=3m tmpfs \"$0\" && exec \"$@\"",
            ])
            .arg(small);
        wrapped(command, &serve)
    })
}

#[needs(prepared, root, mounts)]
#[test]
fn full_disk_is_reported_in_one_line_of_each_kind() {
    let place = Place::new();
    let small = place.path("small");
    fs::create_dir(&small).unwrap();
    place.configure(&format!(
        "[audit]\npath = {:?}\non_failure = \"deny\"\n[[module]]\nname = \"same-user\"\npath = {:?}\n",
        small.join("audit.db"),
        guest("same-user")
    ));
    let server = serve_on_small_disk(&place, &small);
    let seen = format!("/proc/{}/root{}", server.pid(), small.display());
    assert!(
        fs::write(Path::new(&seen).join("fill"), vec![0; 4 << 20]).is_err(),
        "it is small"
    );
    let pid = server.pid().to_string();
    let mut refusals = 0;
    // A full disk still takes a small record if a page has room for it.
    until("six tools are refused", || {
        let mut notify = peal(["event", "notify", "-3001", "--pid", &pid]);
        notify
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI41");
        let done = run(&mut notify);
        if done.status == Some(125) {
            let says_where = done
                .stderr
                .contains("in `peal status` and `peal audit list --outcome denied`");
            assert!(says_where, "{}", done.stderr);
            refusals += 1;
        }
        refusals == 6
    });
    let told = run(peal(["status", "--socket"]).arg(place.socket()))
        .expect_status(1)
        .stdout;
    assert!(tells_of_audit(&told), "{told}");
    server.signal(Signal::TERM);
    let said = server.ends().stderr;
    assert!(said.contains("audit trail not written"), "{said}");
    let lines = [
        "audit trail not written",
        "old audit records not dropped",
        "store writable again",
        "audit trail writable again",
    ];
    for line in lines {
        assert!(said.matches(line).count() <= 1, "{said}");
    }
}

#[needs(prepared)]
#[test]
fn commands_on_server_with_wrong_drop_in_go_on() {
    let place = Place::new();
    let drop_ins = place.path("modules.d");
    fs::create_dir(&drop_ins).unwrap();
    let dir = place.path("").display().to_string();
    let socket = place.socket();
    place.configure(&format!(
        "[admin]\nsocket = {socket:?}\n[deploy]\nwatch = false\n[store]\npath = \"{dir}store.db\"\n\
         [audit]\npath = \"{dir}audit.db\"\non_failure = \"deny\"\n"
    ));
    let module = |name: &str| format!("name = {name:?}\npath = {:?}\n", guest("same-user"));
    put(&drop_ins.join("a.toml"), module("a"));
    let server = place.start();
    put(&drop_ins.join("b.toml"), module("b"));
    server.tell(&["reload"]);
    put(&drop_ins.join("b.toml"), "nmae = \"b\"\n");
    let refused = server.ask(&["reload"]).expect_status(125).stderr;
    assert!(
        refused.contains("b.toml:1:1: unknown key \"module.nmae\"; did you mean `name`?"),
        "{refused}"
    );

    let config = place.path("peal.toml").display().to_string();
    let ask = |args: &[&str]| run(peal(args).args(["--config", &config]));
    let status = ask(&["status", "-o", "json"]).expect_status(1);
    let told = troubles(&status);
    let [(kind, message)] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(
        kind == "configuration" && message.contains("b.toml:1:1: unknown key"),
        "{message}"
    );
    let all = [
        &["stats"][..],
        &["job", "list"],
        &["module", "list"],
        &["module", "rollback"],
        &["chain", "show"],
        &["audit", "list"],
        &["audit", "stats"],
        &["config", "show"],
    ];
    for args in all {
        let done = ask(args).expect_status(0);
        assert!(!done.stdout.is_empty(), "{args:?}");
    }
    let shown = ask(&["config", "show"]);
    assert!(
        shown.stdout.contains("watch = false") && shown.stderr.contains("b.toml:1:1: unknown key"),
        "{shown:?}"
    );
    let unknown = ask(&["job", "record", "nobody"]).expect_status(125).stderr;
    assert!(unknown.contains("no record of job \"nobody\""), "{unknown}");
    // A command reports faults in the configuration sections that it needs.
    let sections = [("admin", "status"), ("audit", "audit"), ("store", "job")];
    for (section, verb) in sections {
        let wrong = place.path("wrong.toml");
        fs::write(&wrong, format!("[{section}]\npath_ = 1\n")).unwrap();
        let args = match verb {
            "audit" => vec!["audit", "list"],
            "job" => vec!["job", "record", "x"],
            verb => vec![verb],
        };
        let refused = run(peal(args).arg("--config").arg(&wrong))
            .expect_status(125)
            .stderr;
        assert!(
            refused.contains(&format!("wrong.toml:2:1: unknown key \"{section}.path_\"")),
            "{refused}"
        );
    }
    let misspelt = place.path("misspelt.toml");
    fs::write(&misspelt, "[admn]\nsocket = \"x\"\n[colours]\n").unwrap();
    let refused = run(peal(["status", "--config"]).arg(&misspelt))
        .expect_status(125)
        .stderr;
    assert_eq!(refused.lines().count(), 1, "{refused}");
    assert!(
        refused.contains("unknown key \"admn\"; did you mean `admin`?"),
        "{refused}"
    );

    put(&drop_ins.join("b.toml"), module("b"));
    server.tell(&["reload"]);
    assert_eq!(
        troubles(&ask(&["status", "-o", "json"]).expect_status(0)),
        []
    );
    put(&drop_ins.join("b.toml"), "nmae = \"b\"\n");
    ask(&["drain"]).expect_status(0);
    server.ends().expect_status(0);
}

#[needs(prepared)]
#[test]
fn server_on_last_good_modules_reports_it() {
    let place = Place::new();
    let module = format!(
        "[[module]]\nname = \"m\"\npath = {:?}\n",
        guest("same-user")
    );
    let settings = format!("[store]\npath = {:?}\n", place.path("store.db"));
    place.configure(&format!("{settings}{module}"));
    let server = place.start();
    server.tell(&["stop", "--wait"]);
    server.ends();
    place.configure(&format!("{settings}{module}grants = [\"flying\"]\n"));
    let server = place.start();
    let told = troubles(&server.ask(&["status", "-o", "json"]).expect_status(1));
    let [(kind, message)] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(
        kind == "configuration" && message.contains("peal.toml:6:"),
        "{message}"
    );
    place.configure(&format!("{settings}{module}"));
    until("the right file is taken", || {
        server.ask(&["status"]).status == Some(0)
    });
}

#[needs(prepared)]
#[test]
fn disabled_module_is_shown_as_disabled() {
    let place = Place::new();
    place.configure(&format!(
        "[[module]]\nname = \"m\"\npath = {:?}\n",
        guest("same-user")
    ));
    let server = place.start();
    let disabled = server.tell(&["module", "disable", "m"]);
    assert!(
        disabled.starts_with("module \"m\" disabled\n"),
        "{disabled}"
    );
    let again = server.tell(&["module", "disable", "m"]);
    assert!(again.starts_with("module \"m\" is as it was\n"), "{again}");
    let enabled = server.tell(&["module", "enable", "m"]);
    assert!(enabled.starts_with("module \"m\" enabled\n"), "{enabled}");
    let unknown = server
        .ask(&["module", "disable", "n"])
        .expect_status(125)
        .stderr;
    assert!(
        unknown.contains("there is no module \"n\"; did you mean \"m\"?"),
        "{unknown}"
    );
}
