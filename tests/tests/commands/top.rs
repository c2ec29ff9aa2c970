//! `peal top` against running servers: on a terminal, as one snapshot, and its stream of reports.
use crate::event::raise;
use peal_client::{AttachTarget, Tool, ToolSettings};
use peal_model::{Range, Status};
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place, take_surroundings},
    finish, guest,
    in_process::soon,
    on_terminal, peal, program, run,
    shell_job::ShellJob,
    until,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    num::NonZeroU16,
    os::unix::{
        fs::PermissionsExt,
        net::UnixStream,
        process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// Users without a name or a permission.
const STRANGER: u32 = 65_533;
const NOBODY: u32 = 65_534;

/// Sequences that switch to the other screen and back, and that show the cursor.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";
const FIRST_SCREEN: &str = "\u{1b}[?1049l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";

/// Starts a server with two handlers, of which the second ends the chain.
fn site(settings: &str) -> (Place, Daemon) {
    let place = Place::new();
    place.configure(&format!(
        "{settings}[[module]]\nname = \"report\"\npath = {:?}\ngrants = [\"logging\"]\n[[module]]\nname = \"ends\"\npath = {:?}\n",
        guest("report"),
        guest("complete")
    ));
    let daemon = place.start();
    (place, daemon)
}

/// Runs `peal top --once -o json` while something is done again and again.
fn snapshot_during(mut command: Command, mut act: impl FnMut()) -> Value {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        act();
    }
    let done = finish(child).expect_status(0);
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// Makes the server deny a request of this user.
fn deny_one(place: &Place, daemon: &Daemon) {
    let pid = daemon.pid().to_string();
    let mut denied = daemon.verb(&[
        "monitor",
        "file",
        "peal.toml",
        "--time",
        "1h",
        "--pid",
        &pid,
    ]);
    denied
        .env("PMIX_SYSTEM_TMPDIR", place.path(""))
        .env_remove("PMIX_SERVER_URI");
    run(&mut denied).expect_status(1);
}

fn once(daemon: &Daemon) -> Command {
    daemon.verb(&["top", "--once", "-o", "json"])
}

#[needs(prepared)]
#[test]
fn snapshot_has_jobs_events_chains_and_denials() {
    let (place, daemon) = site("[policy]\nmonitor.default = \"deny\"\n");
    daemon.tell(&["job", "register", "solver", "-n", "3"]);
    deny_one(&place, &daemon);
    let raise_one =
        || drop(raise(&place, &daemon, &["-3001", "--range", "namespace"]).expect_status(0));
    let seen = snapshot_during(once(&daemon), raise_one);
    assert_eq!(seen["server"]["phase"], "serving");
    let job = &seen["jobs"][0];
    assert_eq!(
        (&job["nspace"], &job["size"], &job["procs"][2]["state"]),
        (&"solver".into(), &3.into(), &"expected".into())
    );
    let codes = seen["codes"].as_array().unwrap();
    let code = codes
        .iter()
        .find(|of| of["code"]["number"] == -3001)
        .unwrap_or_else(|| panic!("{seen}"));
    assert!(code["count"].as_u64().unwrap() > 0, "{code}");
    let handlers: Vec<&Value> = seen["chains"][0]["handlers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|handler| &handler["module"])
        .collect();
    assert_eq!(handlers, ["report", "ends"]);
    let events = seen["events"].as_array().unwrap();
    let event = events
        .iter()
        .find(|event| event["code"]["number"] == -3001)
        .unwrap_or_else(|| panic!("{seen}"));
    let steps = event["steps"].as_array().unwrap();
    let step = |at: usize| (&steps[at]["module"], &steps[at]["status"]["name"]);
    assert_eq!(step(0).0, "report");
    assert_eq!(
        step(1),
        (&"ends".into(), &"PMIX_EVENT_ACTION_COMPLETE".into())
    );
    assert!(
        event["time_us"].as_u64().unwrap() >= steps[0]["time_us"].as_u64().unwrap(),
        "{event}"
    );
    let module = &seen["modules"][1];
    assert_eq!(
        (&module["name"], &module["state"]),
        (&"report".into(), &"active".into())
    );
    assert!(module["calls"].as_u64().unwrap() > 0, "{module}");
    let denial = &seen["denials"][0];
    assert_eq!(
        (&denial["hook"], &denial["by"]),
        (&"monitor".into(), &"the default".into())
    );
    let text = daemon.tell(&["top", "--once"]);
    for wanted in [
        "\nJOBS\n",
        "solver",
        "\nCHAINS\n",
        "site 1",
        "\nDENIALS\n",
        "monitor",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

/// Program on a terminal of its own, with what its screen shows.
struct TerminalProgram {
    child: Child,
    keys: Box<dyn Write>,
    screen: Arc<Mutex<vt100::Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
}

impl TerminalProgram {
    /// Starts a command on a terminal of 80 columns and 24 lines.
    fn start(command: &Command) -> TerminalProgram {
        let mut sized = Command::new("sh");
        sized
            .args(["-c", "stty cols 80 rows 24; exec \"$@\"", "sh"])
            .arg(command.get_program())
            .args(command.get_args());
        take_surroundings(&mut sized, command);
        let mut script = on_terminal(&sized);
        script
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = script.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(cells(24), cells(80), 0)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (shown, all) = (screen.clone(), raw.clone());
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        let keys = Box::new(child.stdin.take().unwrap());
        TerminalProgram {
            child,
            keys,
            screen,
            raw,
            reader,
        }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    fn shows(&self, text: &str) {
        until(text, || self.text().contains(text));
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Returns the process of `peal` under `script`.
    fn process(&self) -> u32 {
        let children = |pid: u32| -> Vec<u32> {
            let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let list = list.unwrap_or_default();
            let pids = list.split_whitespace().map(|pid| pid.parse().unwrap());
            pids.collect()
        };
        let is_peal = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "peal\n")
        };
        let mut open = vec![self.child.id()];
        while let Some(pid) = open.pop() {
            if is_peal(&pid) {
                return pid;
            }
            open.extend(children(pid));
        }
        panic!("no process of peal: {}", self.text())
    }

    /// Changes the size of the terminal.
    fn resize(&self, columns: u16, lines: u16) {
        let terminal = fs::read_link(format!("/proc/{}/fd/0", self.process())).unwrap();
        let mut stty = Command::new("stty");
        stty.arg("-F").arg(terminal);
        stty.args(["cols", &columns.to_string(), "rows", &lines.to_string()]);
        run(&mut stty).expect_status(0);
        let mut screen = self.screen.lock().unwrap();
        screen.set_size(cells(lines), cells(columns));
    }

    /// Returns everything that was written so far.
    fn written(&self) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned()
    }

    /// Waits for the end, and returns the status and everything that was written.
    fn ends(mut self) -> (ExitStatus, String) {
        let mut status = None;
        until("the program ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        self.reader.join().unwrap();
        let raw = String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned();
        (status.unwrap(), raw)
    }
}

/// Checks that a program on a terminal has given back the screen and the cursor.
#[track_caller]
fn check_restored(raw: &str) {
    assert!(raw.contains(OTHER_SCREEN), "{raw:?}");
    let end = raw.rfind(FIRST_SCREEN).unwrap_or_else(|| panic!("{raw:?}"));
    assert!(raw[..end].contains(OTHER_SCREEN), "{raw:?}");
    assert!(raw.rfind(SHOW_CURSOR) > raw.rfind("\u{1b}[?25l"), "{raw:?}");
    assert!(!raw[end..].contains(OTHER_SCREEN), "{raw:?}");
}

#[needs(prepared)]
#[test]
fn event_is_followed_on_a_terminal_that_is_resized() {
    let (place, daemon) = site("");
    let mut top = TerminalProgram::start(&daemon.verb(&["top"]));
    top.shows("serving");
    top.types("4");
    top.shows("no event has passed");
    until("an event is shown", || {
        drop(raise(&place, &daemon, &["-3001", "--range", "namespace"]).expect_status(0));
        top.text().contains("-3001")
    });
    // Pause, so that the rows stay.
    top.types("p/3001\r");
    top.shows("PAUSED");
    top.types("\r");
    top.shows("PMIX_EVENT_ACTION_COMPLETE");
    let way = top.text();
    assert!(way.contains("report") && way.contains("ends"), "{way}");
    let pid = format!("pid {}", daemon.pid());
    assert!(!way.contains(&pid), "there is no room for it: {way}");
    top.resize(120, 40);
    top.shows(&pid);
    top.types("?");
    top.shows("Keys and columns");
    top.types("qq");
    let (status, raw) = top.ends();
    assert!(status.success(), "{status:?}");
    check_restored(&raw);
}

#[needs(prepared)]
#[test]
fn signal_restores_the_terminal_and_no_colour_is_used() {
    let (_place, daemon) = site("");
    let mut command = daemon.verb(&["top"]);
    command.env("NO_COLOR", "1");
    let top = TerminalProgram::start(&command);
    top.shows("serving");
    let peal = Pid::from_raw(top.process().cast_signed()).unwrap();
    kill_process(peal, Signal::TERM).unwrap();
    let (status, raw) = top.ends();
    assert_eq!((status.code(), status.signal()), (Some(0), None));
    check_restored(&raw);
    let coloured = [
        "\u{1b}[38;",
        "\u{1b}[48;",
        "\u{1b}[31",
        "\u{1b}[32",
        "\u{1b}[36",
    ];
    for sequence in coloured {
        assert!(!raw.contains(sequence), "{sequence:?}: {raw:?}");
    }
}

#[needs(prepared)]
#[test]
fn suspended_top_gives_terminal_back_and_draws_all_again() {
    let (_place, daemon) = site("");
    let mut top = TerminalProgram::start(&daemon.verb(&["top"]));
    top.shows("serving");
    let pid = top.process();
    let [peal, script] = [pid, top.child.id()].map(|pid| Pid::from_raw(pid.cast_signed()).unwrap());
    let count = |top: &TerminalProgram, text: &str| top.written().matches(text).count();
    // By the key, and by a signal from outside.
    for suspensions in 1..=2 {
        if suspensions == 1 {
            top.types("\u{1a}");
        } else {
            kill_process(peal, Signal::TSTP).unwrap();
        }
        until("the process stops", || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat"));
            state.is_ok_and(|state| state.contains(") T "))
        });
        until("the process takes the terminal again", || {
            // `script` stops with its child.
            for stopped in [script, peal] {
                kill_process(stopped, Signal::CONT).unwrap();
            }
            count(&top, OTHER_SCREEN) == suspensions + 1
        });
        assert_eq!(count(&top, FIRST_SCREEN), suspensions);
    }
    until("the screen is drawn", || count(&top, "Users") == 3);
    top.types("\u{c}");
    until("all is drawn again", || count(&top, "Users") == 4);
    top.types("q");
    let (status, raw) = top.ends();
    assert!(status.success(), "{status:?}");
    check_restored(&raw);
}

#[needs(prepared)]
#[test]
fn end_of_the_server_is_shown_until_the_key() {
    let (_place, daemon) = site("");
    let mut top = TerminalProgram::start(&daemon.verb(&["top"]));
    top.shows("serving");
    daemon.tell(&["stop", "--wait"]);
    top.shows("the server has ended");
    top.types("q");
    let (status, raw) = top.ends();
    assert!(status.success(), "{status:?}");
    check_restored(&raw);
}

#[needs(prepared)]
#[test]
fn top_without_terminal_or_server_says_what_to_do() {
    let place = Place::new();
    let socket = place.path("none.sock").display().to_string();
    let no_terminal = run(&mut peal(["top", "--socket", &socket])).expect_status(125);
    assert!(no_terminal.stderr.contains("--once"), "{no_terminal:?}");
    let no_server = run(&mut peal(["top", "--once", "--socket", &socket])).expect_status(125);
    assert!(
        no_server.stderr.contains("no server answers on"),
        "{no_server:?}"
    );
    run(&mut peal(["top", "-o", "json"])).expect_status(2);
    for every in ["5m", "50ms"] {
        let refused = run(&mut peal(["top", "--once", "--every", every])).expect_status(2);
        assert!(refused.stderr.contains("100ms to 1m"), "{refused:?}");
    }
}

#[needs(prepared, root)]
#[test]
fn users_see_their_own_activity_only() {
    let (place, daemon) = site("[policy]\nmonitor.default = \"deny\"\n");
    for path in [place.path(""), place.path("run")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (job, uid) in [("one", STRANGER), ("other", NOBODY)] {
        let uid = uid.to_string();
        daemon.tell(&[
            "job", "register", job, "-n", "2", "--uid", &uid, "--gid", &uid,
        ]);
    }
    deny_one(&place, &daemon);
    let raise_one =
        || drop(raise(&place, &daemon, &["-3001", "--range", "namespace"]).expect_status(0));
    for (own, uid) in [("one", STRANGER), ("other", NOBODY)] {
        let mut command = once(&daemon);
        command.uid(uid).gid(uid).current_dir("/");
        let seen = snapshot_during(command, raise_one);
        assert_eq!(seen["only_user"], uid);
        let jobs = seen["jobs"].as_array().unwrap();
        let jobs: Vec<&Value> = jobs.iter().map(|job| &job["nspace"]).collect();
        assert_eq!(jobs, [own]);
        // The site's modules and sinks, the events and denials of root, and numbers of connections are not theirs.
        for section in ["chains", "modules", "sinks", "codes", "events", "denials"] {
            assert_eq!(seen[section], Value::Array(Vec::new()), "{section}: {seen}");
        }
        assert_eq!(seen["server"]["connections"], Value::Null);
        let users = seen["users"]["users"].as_array().unwrap();
        assert!(users.iter().all(|user| user["uid"] == uid), "{seen}");
    }
    let all = snapshot_during(once(&daemon), raise_one);
    assert_eq!(all["jobs"].as_array().unwrap().len(), 2);
    for section in ["chains", "modules", "codes", "events", "denials"] {
        let entries = all[section].as_array().unwrap();
        assert!(!entries.is_empty(), "{section}: {all}");
    }
}

/// Watcher at the admin socket.
struct ReportReader(BufReader<UnixStream>);

impl ReportReader {
    /// Connects, and reads the confirmation.
    fn start(place: &Place) -> ReportReader {
        let mut stream = UnixStream::connect(place.socket()).unwrap();
        stream
            .write_all(b"{\"peal\": 1, \"call\": {\"verb\": \"activity\", \"interval_ms\": 100}}\n")
            .unwrap();
        let mut reader = ReportReader(BufReader::new(stream));
        assert_eq!(reader.next()["reply"], "reporting");
        reader
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn reader_gets_or_misses_each_event_and_delays_none() {
    let (place, daemon) = site("[admin]\nmax_recent_entries = 16\n");
    let mut reader = ReportReader::start(&place);
    let first = reader.next();
    assert_eq!(
        (&first["number"], &first["version"]),
        (&1.into(), &1.into())
    );
    assert!(
        first["jobs"].is_object() && first["chains"].is_array(),
        "{first}"
    );
    let mut settings = ToolSettings::from(|_| None).unwrap();
    settings.places.directory = place.path("");
    settings.attach = AttachTarget::Pid(daemon.pid());
    let tool = soon("a tool connects", Tool::init(settings)).await.unwrap();
    const RAISED: u64 = 2000;
    for _ in 0..RAISED {
        tool.notify(Status(-3001), Range::Session, Vec::new())
            .await
            .unwrap();
    }
    let (mut seen, mut missed, mut counted) = (0, 0, 0);
    while seen + missed < RAISED || counted < RAISED {
        let report = reader.next();
        assert_eq!(report["reply"], "activity", "{report}");
        // A section that has not changed is not sent again.
        assert!(report.get("chains").is_none(), "{report}");
        let passages = report["passages"].as_array();
        let passages = passages.into_iter().flatten();
        seen += passages.filter(|of| of["code"]["number"] == -3001).count() as u64;
        missed += report["missed"]["passages"].as_u64().unwrap_or_default();
        for of in report["counts"]["events"].as_array().into_iter().flatten() {
            if of["code"]["number"] == -3001 {
                counted = of["count"].as_u64().unwrap();
            }
        }
    }
    assert_eq!((seen + missed, counted), (RAISED, RAISED));
    assert!(missed > 0, "the ring has room for sixteen");
}

#[needs(prepared)]
#[test]
fn start_of_top_is_one_call_and_a_look_at_the_socket_none() {
    let (place, daemon) = site("");
    let calls = || {
        let stats: Value = serde_json::from_str(&daemon.tell(&["stats", "-o", "json"])).unwrap();
        let families = stats["families"].as_array().unwrap();
        let calls = families
            .iter()
            .find(|family| family["name"] == "peal_admin_calls");
        calls.unwrap()["samples"][0]["value"].as_u64().unwrap()
    };
    let before = calls();
    drop(UnixStream::connect(place.socket()).unwrap());
    run(&mut once(&daemon)).expect_status(0);
    // Another server is meant than the one at the socket.
    let other = std::process::id().to_string();
    run(&mut daemon.verb(&["top", "--once", "--pid", &other])).expect_status(125);
    assert_eq!(
        calls() - before,
        2,
        "that of `peal stats`, and that of `peal top`"
    );
}

#[needs(prepared, root)]
#[test]
fn thousand_watchers_of_a_user_are_refused_beyond_share() {
    let place = Place::new();
    place.configure("[admin]\nmax_watchers = 16\nmax_watchers_per_user = 3\n");
    let daemon = place.start();
    for path in [place.path(""), place.path("run")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let socket = place.socket().display().to_string();
    let mut attack = Command::new(program("peal-attack"));
    attack
        .args(["watchers", &socket, "1000"])
        .current_dir("/")
        .uid(STRANGER)
        .gid(STRANGER)
        .stdout(Stdio::piped());
    let mut attack = attack.spawn().unwrap();
    let told = BufReader::new(attack.stdout.take().unwrap()).lines().next();
    let told = told.unwrap().unwrap();
    let wanted = format!(
        "3 watchers, then: user {STRANGER} has 3 watchers, more are not allowed (admin.max_watchers_per_user)"
    );
    assert_eq!(told, wanted);
    // Others still watch, and the quota shows who has how many.
    let mut other = once(&daemon);
    other.uid(NOBODY).gid(NOBODY).current_dir("/");
    run(&mut other).expect_status(0);
    let users: Value =
        serde_json::from_str(&daemon.tell(&["stats", "--by-user", "-o", "json"])).unwrap();
    let users = users["users"].as_array().unwrap();
    let stranger = users.iter().find(|user| user["uid"] == STRANGER).unwrap();
    let resources = stranger["resources"].as_array().unwrap();
    let watchers = resources.iter().find(|of| of["resource"] == "watchers");
    let watchers = watchers.unwrap();
    assert_eq!(
        (&watchers["held"], &watchers["share"]),
        (&3.into(), &3.into())
    );
    assert!(watchers["refused"].as_u64().unwrap() >= 900, "{watchers}");
    attack.kill().unwrap();
    attack.wait().unwrap();
    // The permits of a watcher that has gone are free again.
    until("the watchers are gone", || {
        let all = daemon.tell(&["stats", "--by-user", "-o", "json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        let mut users = all["users"].as_array().unwrap().iter();
        let stranger = users.find(|user| user["uid"] == STRANGER);
        let resources = stranger.and_then(|user| user["resources"].as_array());
        let mut resources = resources.into_iter().flatten();
        resources
            .find(|of| of["resource"] == "watchers")
            .is_none_or(|of| of["held"] == 0)
    });
}

#[needs(prepared)]
#[test]
fn job_of_peal_run_is_shown_as_far_as_a_tool_may_know() {
    let job = ShellJob::asleep(2, &[]);
    let pid = job.pid().to_string();
    let raise_one = || {
        let notify = [
            "event", "notify", "-3001", "--range", "local", "--pid", &pid,
        ];
        drop(job.ask(&notify).expect_status(0));
    };
    let mut command = job.verb(&["top", "--once", "-o", "json", "--pid", &pid]);
    // No other server is meant.
    command.env("PEAL_ADMIN_SOCKET", job.dir().join("none.sock"));
    let seen = snapshot_during(command, raise_one);
    let shown = &seen["jobs"][0];
    assert_eq!(
        (&shown["nspace"], &shown["size"], &shown["connected"]),
        (&job.nspace().into(), &2.into(), &2.into())
    );
    assert_eq!(shown["procs"][1]["state"], "running");
    assert!(shown["procs"][1]["pid"].is_u64(), "{shown}");
    let codes = seen["codes"].as_array().unwrap();
    assert!(
        codes.iter().any(|of| of["code"]["number"] == -3001),
        "{seen}"
    );
}
