//! `peal module dev`: builds and tests again after changes, answers to a recording, and a shadow at a live
//! server. `peal module test --show-log` and `--debug`.
use super::module_test::record;
use peal_needs::needs;
use peal_tests::{
    daemon::Place,
    finish, on_terminal, peal,
    processes::signal,
    projects::{Project, module},
    run, until,
};
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

const GREETED: &str = "infos: expected own.greeting=well done, job:3";

/// Time limit of a build, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Command that watches a project. The drop ends it.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(project: &Project, args: &[&str]) -> Watching {
        let mut command = module(&project.dir, &[&["dev"], args].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output {
                // The test may have ended.
                let _ = sender.send(line.unwrap());
            }
        });
        Watching { child, lines }
    }

    /// Reads up to a line with this text. Returns those before it.
    fn until_line(&mut self, text: &str) -> Vec<String> {
        let mut before = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(text) {
                return before;
            }
            before.push(line);
        }
        panic!("{text:?} was not printed: {before:?}");
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn replace(project: &Project, old: &str, new: &str) {
    let source = project.dir.join("module.c");
    let text = fs::read_to_string(&source).unwrap();
    assert!(text.contains(old), "{text}");
    fs::write(&source, text.replace(old, new)).unwrap();
}

fn new_project(dir: &Path) -> Project {
    Project::new(dir, "c", "own", &[])
}

#[needs(prepared, c_tools)]
#[test]
fn each_change_is_built_and_tested() {
    let dir = tempfile::tempdir().unwrap();
    let project = new_project(dir.path());
    let mut watching = Watching::start(&project, &[]);
    watching.until_line("2 cases: 2 ok, 0 FAILED");
    replace(&project, "well done", "very well");
    let told = watching.until_line("2 cases: 0 ok, 2 FAILED");
    assert!(told.iter().any(|line| line.contains(GREETED)), "{told:?}");
    // A build that fails is no end.
    replace(&project, "return PMIX", "retrun PMIX");
    replace(&project, "retrun PMIX", "return PMIX");
    replace(&project, "very well", "well done");
    watching.until_line("2 cases: 2 ok, 0 FAILED");
    signal(watching.child.id(), Signal::INT);
    assert!(watching.child.wait().unwrap().success());
}

#[needs(prepared, c_tools)]
#[test]
fn answers_to_a_recording_that_changed_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let project = new_project(dir.path());
    let place = Place::new();
    let daemon = place.start();
    let recording = place.path("night.jsonl");
    record(&place, &daemon, &recording);
    daemon.tell(&["stop", "--wait"]);
    let recording = recording.to_str().unwrap();
    let mut watching = Watching::start(&project, &[".", recording]);
    watching.until_line("night.jsonl: 1 answer to compare with");
    replace(&project, "(void)event;", "(void)event; // greets");
    watching.until_line("night.jsonl: 0 of 1 answer changed");
    replace(&project, "well done", "very well");
    watching.until_line("night.jsonl: 1 of 1 answer changed");
    let told = watching.until_line("is own.greeting=very well, ");
    let was = told.last().unwrap();
    assert!(
        was.contains("infos: was own.greeting=well done, "),
        "{told:?}"
    );
}

#[needs(prepared, c_tools)]
#[test]
fn shadow_runs_at_a_live_server_and_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let project = new_project(dir.path());
    let place = Place::new();
    let drop_ins = place.path("modules.d");
    fs::create_dir(&drop_ins).unwrap();
    place.configure("[deploy]\ndebounce_ms = 20\n");
    let daemon = place.start();
    let socket = place.socket();
    let args = [
        "--shadow",
        drop_ins.to_str().unwrap(),
        "--socket",
        socket.to_str().unwrap(),
    ];
    let mut watching = Watching::start(&project, &args);
    watching.until_line("shadow: shadow");
    let digest = |place: &Place| {
        let modules = place.modules().modules;
        modules.first().map(|module| module.sha256.clone())
    };
    let first = digest(&place).unwrap();
    replace(&project, "well done", "very well");
    watching.until_line("shadow: shadow");
    assert_ne!(digest(&place).unwrap(), first);
    signal(watching.child.id(), Signal::INT);
    assert!(watching.child.wait().unwrap().success());
    assert_eq!(fs::read_dir(&drop_ins).unwrap().count(), 0);
    until("the server removes the shadow", || digest(&place).is_none());
    // A module in force is not replaced.
    let settings = drop_ins.join("own.toml");
    fs::write(&settings, "name = \"own\"\npath = \"own.wasm\"\n").unwrap();
    let refused = run(&mut module(
        &project.dir,
        &[&["dev", "--once"], &args[..]].concat(),
    ));
    let told = refused.expect_status(125).stderr;
    assert!(told.contains("is of a module in force"), "{told}");
    assert!(settings.exists());
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared, c_tools)]
#[test]
fn logs_and_calls_of_the_host_are_shown_by_case() {
    let dir = tempfile::tempdir().unwrap();
    let project = new_project(dir.path());
    replace(
        &project,
        "  (void)event;",
        "  (void)event;\n  peal_log(PEAL_LOG_INFO, peal_format(\"greets now\"));",
    );
    run(&mut module(&project.dir, &["build"])).expect_status(0);
    let shown = |args: &[&str]| {
        let done = run(&mut module(&project.dir, &[&["test"], args].concat()));
        done.expect_status(0).stdout
    };
    assert!(!shown(&[]).contains("greets now"));
    let logs = shown(&["--show-log"]);
    let at = |text: &str| logs.find(text).unwrap_or_else(|| panic!("{text}: {logs}"));
    assert!(at("whoever raised") < at("| info: greets now"), "{logs}");
    let calls = shown(&["--debug", "the resource manager, too"]);
    assert!(!calls.contains("whoever raised"), "{calls}");
    let at = |text: &str| {
        calls
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {calls}"))
    };
    assert!(at("start of the instance") < at("handler, for PMIX_ERR_PROC_ABORTED"));
    let log = at("logging.log level=\"Info\" message=\"greets now\" -> done");
    assert!(log < at("call.source") && at("call.source") < at("call.push"));
    let mut unknown = peal(["module", "test", "--debug", "nonsense"]);
    let told = run(unknown.current_dir(&project.dir))
        .expect_status(125)
        .stderr;
    assert!(told.contains("there are \"whoever raised"), "{told}");
}

#[needs(prepared, c_tools, script)]
#[test]
fn calls_of_the_host_are_stepped_through_at_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let project = new_project(dir.path());
    run(&mut module(&project.dir, &["build"])).expect_status(0);
    let debug = ["test", "--debug", "the resource manager, too"];
    let typed = |lines: &str| {
        let mut script = on_terminal(&module(&project.dir, &debug));
        let mut child = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut terminal = child.stdin.take().unwrap();
        terminal.write_all(lines.as_bytes()).unwrap();
        // The terminal stays open until the command has ended.
        let shown = finish(child).expect_status(0).stdout;
        drop(terminal);
        shown
    };
    let all = typed("\np\nc\n");
    assert!(all.contains("Enter: next host call"), "{all}");
    assert!(
        all.contains("call.push") && all.contains("result: "),
        "{all}"
    );
    assert!(
        all.contains("\"request\": \"Push\""),
        "printed whole: {all}"
    );
    let left = typed("q\n");
    assert!(left.contains("call.source"), "{left}");
    assert!(
        !left.contains("call.push") && !left.contains("result: "),
        "{left}"
    );
    // Without a terminal nothing waits.
    let plain = run(&mut module(&project.dir, &debug))
        .expect_status(0)
        .stdout;
    assert!(
        !plain.contains("Enter:") && plain.contains("result: "),
        "{plain}"
    );
}
