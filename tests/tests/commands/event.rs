//! `peal event notify` and `peal event watch` against running servers. Watchers receive raised
//! events, with the handlers' results if these can be known, and end with the proper status.
use peal_client::{AttachTarget, Tool, ToolSettings};
use peal_model::{Infos, Range, Status, key};
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    finish, guest,
    in_process::{listener, next, soon},
    peal, run,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// Time to wait for a line before the event is raised again; a line takes less than a tenth of it.
const SOON: Duration = Duration::from_secs(2);

/// Starts a server with two handlers, of which the second ends the chain.
fn site() -> (Place, Daemon) {
    let place = Place::new();
    place.configure(&format!(
        "[[module]]\nname = \"report\"\npath = {:?}\ngrants = [\"logging\"]\n[[module]]\nname = \"ends\"\npath = {:?}\n",
        guest("report"),
        guest("complete")
    ));
    let daemon = place.start();
    (place, daemon)
}

/// Returns `peal event`, which finds the servers of this directory.
pub fn event(place: &Place, daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = daemon.verb(&[&["event"], args].concat());
    command
        .env("PMIX_SYSTEM_TMPDIR", place.path(""))
        .env_remove("PMIX_SERVER_URI");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Raises an event at a server.
pub fn raise(place: &Place, daemon: &Daemon, args: &[&str]) -> Done {
    run(&mut event(place, daemon, &[&["notify"], args].concat()))
}

/// Running `peal event watch`, and the lines that it prints.
pub struct Watch {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Watch {
    /// Starts a watcher.
    pub fn start(mut command: Command) -> Watch {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        Watch { child, lines }
    }

    /// Raises an event until the watcher, which may not be connected yet, has printed one.
    pub fn sees(&self, raise: impl Fn()) -> String {
        for _ in 0..20 {
            raise();
            if let Ok(line) = self.lines.recv_timeout(SOON) {
                return line;
            }
        }
        panic!("nothing is seen");
    }

    fn signal(&self, signal: Signal) {
        kill_process(
            Pid::from_raw(self.child.id().cast_signed()).unwrap(),
            signal,
        )
        .unwrap();
    }
}

#[needs(prepared)]
#[test]
fn administrator_sees_answer_of_each_handler() {
    let (place, daemon) = site();
    let watch = Watch::start(event(&place, &daemon, &["watch", "-3001", "-o", "json"]));
    let raise_one = || {
        drop(
            raise(
                &place,
                &daemon,
                &["-3001", "--info", "site.load=5", "--range", "namespace"],
            )
            .expect_status(0),
        )
    };
    let seen: Value = serde_json::from_str(&watch.sees(raise_one)).unwrap();
    assert_eq!(
        (&seen["code"]["number"], &seen["range"]),
        (&Value::from(-3001), &Value::from("PMIX_RANGE_NAMESPACE"))
    );
    let info = |key: &str| {
        seen["infos"]
            .as_array()
            .unwrap()
            .iter()
            .find(|info| info["key"] == key)
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&info("site.load")["value"], &info("site.load")["type"]),
        (&5.into(), &"PMIX_INT64".into())
    );
    assert_eq!(info("pmix.evtstamp")["attribute"], "PMIX_EVENT_TIMESTAMP");
    assert_eq!(seen["chains"][0]["owner"], "site");
    let results = &seen["chains"][0]["results"];
    assert_eq!(
        (&results[0]["handler"], &results[1]["handler"]),
        (&"report".into(), &"ends".into())
    );
    assert_eq!(results[1]["status"]["name"], "PMIX_EVENT_ACTION_COMPLETE");
    // The code is not the watched one.
    raise(&place, &daemon, &["-3002"]).expect_status(0);
    raise_one();
    let next: Value = serde_json::from_str(&watch.lines.recv_timeout(SOON).unwrap()).unwrap();
    assert_eq!(next["code"]["number"], -3001);
    daemon.tell(&["stop", "--wait"]);
    let ended = finish(watch.child).expect_status(125);
    assert_eq!(ended.stderr, "peal: the server has ended\n");
}

#[needs(prepared)]
#[test]
fn event_for_the_manager_is_seen_by_site_handlers_and_watch() {
    let (place, daemon) = site();
    let watch = Watch::start(event(&place, &daemon, &["watch", "-3001", "-o", "json"]));
    let line =
        watch.sees(|| drop(raise(&place, &daemon, &["-3001", "--range", "rm"]).expect_status(0)));
    let seen: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(seen["range"], "PMIX_RANGE_RM");
    let chains = seen["chains"].as_array().unwrap();
    assert_eq!((chains.len(), &chains[0]["owner"]), (1, &"site".into()));
    let handlers: Vec<&Value> = chains[0]["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|result| &result["handler"])
        .collect();
    assert_eq!(handlers, ["report", "ends"]);
}

#[needs(prepared)]
#[test]
fn event_without_recipient_is_an_error() {
    let (place, daemon) = site();
    let refused = raise(&place, &daemon, &["-3001", "--target", "nosuch:*"]).expect_status(125);
    assert!(
        refused.stderr.contains("PMIX_ERR_NOT_FOUND"),
        "{}",
        refused.stderr
    );
}

#[needs(prepared)]
#[test]
fn event_watch_prints_full_lines_and_ends_at_count() {
    let (place, daemon) = site();
    let watch = Watch::start(event(&place, &daemon, &["watch", "--count", "1"]));
    let line = watch.sees(|| {
        let evil = "--info=site.text=\u{1b}[2J\nmore";
        let raised = raise(
            &place,
            &daemon,
            &[
                "PMIX_ERR_PROC_ABORTED",
                evil,
                "--info=PMIX_EVENT_AFFECTED_PROC=solver:0",
            ],
        )
        .expect_status(0);
        assert!(
            raised.stdout.starts_with("PMIX_ERR_PROC_ABORTED (")
                && raised.stdout.lines().count() == 1,
            "{raised:?}"
        );
    });
    assert!(
        line.starts_with("PMIX_ERR_PROC_ABORTED (")
            && line.contains(", range PMIX_RANGE_SESSION, "),
        "{line}"
    );
    assert!(
        line.contains("site.text=\"\\u{1b}[2J\\nmore\"") && !line.contains('\u{1b}'),
        "{line}"
    );
    let answers = " -> site/report: PMIX_EVENT_NO_ACTION_TAKEN (-331) ";
    assert!(
        line.contains(answers)
            && line.contains(" -> site/ends: PMIX_EVENT_ACTION_COMPLETE (-334) "),
        "{line}"
    );
    assert_eq!(finish(watch.child).expect_status(0).stderr, "");
}

#[needs(prepared)]
#[test]
fn tool_receives_events_and_the_loss_of_its_server() {
    let (place, daemon) = site();
    let watch = Watch::start(event(
        &place,
        &daemon,
        &[
            "watch",
            "--as-tool",
            "-o",
            "json",
            "--pid",
            &daemon.pid().to_string(),
        ],
    ));
    let line = watch.sees(|| drop(raise(&place, &daemon, &["-3001"]).expect_status(0)));
    let seen: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&seen["code"]["number"], seen.get("chains")),
        (&Value::from(-3001), None)
    );
    daemon.signal(Signal::KILL);
    let lost = finish(watch.child).expect_status(125);
    assert!(
        lost.stderr.contains("peal: the server is lost"),
        "{}",
        lost.stderr
    );
}

#[needs(prepared)]
#[test]
fn event_watch_on_a_run_is_a_tool_and_reports_it_once() {
    let place = Place::new();
    let other = place.start();
    let mut command = peal(["run", "-n", "1", "--", "sh", "-c", "echo ready; exec cat"]);
    let runs = place.path("runs");
    std::fs::create_dir(&runs).unwrap();
    command
        .env("PMIX_SYSTEM_TMPDIR", &runs)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut job = command.spawn().unwrap();
    job.stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0; 6])
        .unwrap();
    let pid = job.id().to_string();
    let command = |args: &[&str]| {
        let mut command = event(&place, &other, args);
        command.env("PMIX_SYSTEM_TMPDIR", &runs);
        command
    };
    let watch = Watch::start(command(&["watch", "--pid", &pid]));
    let line = watch
        .sees(|| drop(run(&mut command(&["notify", "-3001", "--pid", &pid])).expect_status(0)));
    assert!(
        line.starts_with("-3001 from ") && !line.contains("->"),
        "{line}"
    );
    watch.signal(Signal::TERM);
    let ended = finish(watch.child).expect_status(0);
    let said = "peal: watching as a tool, without the answers of handlers: the admin socket here is that of another server\n";
    assert_eq!(ended.stderr, said);
    drop(job.stdin.take());
    finish(job).expect_status(0);
}

#[needs(prepared)]
#[test]
fn watch_ends_cleanly_by_signal_and_closed_output() {
    let (place, daemon) = site();
    for way in [&["watch"][..], &["watch", "--as-tool"]] {
        let watch = Watch::start(event(&place, &daemon, way));
        watch.sees(|| drop(raise(&place, &daemon, &["-3001"]).expect_status(0)));
        watch.signal(Signal::INT);
        finish(watch.child).expect_status(0);

        let mut unread = event(&place, &daemon, way).spawn().unwrap();
        drop(unread.stdout.take());
        while unread.try_wait().unwrap().is_none() {
            raise(&place, &daemon, &["-3001"]).expect_status(0);
        }
        finish(unread).expect_status(0);
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn only_targets_receive_an_event() {
    let (place, daemon) = site();
    let mut heard = Vec::new();
    for job in ["mine", "other"] {
        daemon.tell(&["job", "register", job, "-n", "1"]);
        let client = daemon.client(job, 0).await;
        let (handler, events) = listener();
        client
            .register(&[Status(-3001), Status(-3002)], &[], handler)
            .await
            .unwrap();
        heard.push((client, events));
    }
    raise(&place, &daemon, &["-3001", "--target", "mine:*"]).expect_status(0);
    raise(
        &place,
        &daemon,
        &[
            "-3002", "--target", "mine:0", "--target", "other:0", "--range", "custom",
        ],
    )
    .expect_status(0);
    let [(_mine, at_mine), (_other, at_other)] = &mut heard[..] else {
        panic!()
    };
    let first = next(at_mine).await;
    assert_eq!((first.code, first.range), (Status(-3001), Range::Custom));
    assert!(first.infos.value_of(key::PMIX_EVENT_TIMESTAMP).is_some());
    assert_eq!(next(at_mine).await.code, Status(-3002));
    assert_eq!(next(at_other).await.code, Status(-3002));
}

#[needs(prepared)]
#[test]
fn refusal_is_reported_with_reason() {
    let place = Place::new();
    place.configure("[policy]\nevent.default = \"deny\"\n");
    let daemon = place.start();
    let refused = raise(&place, &daemon, &["-3001"]).expect_status(125);
    assert!(
        refused.stderr.contains("PMIX_ERR_NO_PERMISSIONS"),
        "{}",
        refused.stderr
    );
    for (args, status, says) in [
        (
            &["PMIX_ERR_PROC_ABORTD"][..],
            2,
            "did you mean `PMIX_ERR_PROC_ABORTED`?",
        ),
        (
            &["-3001", "--range", "sesion"],
            2,
            "did you mean `session`?",
        ),
        (&["-3001", "--info", "load"], 2, "it should be KEY=VALUE"),
        (
            &["-3001", "--info", "load:uint8=300"],
            2,
            "\"300\" is no value for load",
        ),
        (
            &["-3001", "--target", "solver"],
            2,
            "\"solver\" is no NSPACE:RANK",
        ),
        (
            &["-3001", "--pid", "1", "--nspace", "a"],
            2,
            "cannot be used with",
        ),
        (
            &["-3001", "--range", "proc-local"],
            2,
            "never leaves the process",
        ),
        (&["-3001", "--range", "custom"], 2, "--target NSPACE:RANK"),
        (
            &["-3001", "--range", "local", "--target", "a:0"],
            2,
            "it cannot be PMIX_RANGE_LOCAL as well",
        ),
        (&["-3001", "--nspace", "nobody"], 125, "nobody"),
    ] {
        let refused = raise(&place, &daemon, args).expect_status(status);
        assert!(
            refused.stderr.contains(says),
            "{args:?}: {}",
            refused.stderr
        );
    }
    daemon.tell(&["stop", "--wait"]);
    for args in [
        &["notify", "-3001"][..],
        &["watch"],
        &["watch", "--as-tool"],
        &["watch", "--socket", "/no/such.sock"],
    ] {
        let nobody = run(&mut event(&place, &daemon, args)).expect_status(125);
        let says = ["check that the server runs", "no server answers on"];
        assert!(
            says.iter().any(|says| nobody.stderr.contains(says)),
            "{args:?}: {}",
            nobody.stderr
        );
    }
    let unknown = run(&mut event(
        &place,
        &daemon,
        &["watch", "PMIX_ERR_PROC_ABORTD"],
    ))
    .expect_status(2);
    assert!(
        unknown.stderr.contains("did you mean"),
        "{}",
        unknown.stderr
    );
}

/// Returns a watcher on the admin socket that has read only the confirmation.
fn watcher(place: &Place) -> (BufReader<UnixStream>, String) {
    let mut stream = UnixStream::connect(place.socket()).unwrap();
    stream
        .write_all(b"{\"peal\": 1, \"call\": {\"verb\": \"watch\", \"codes\": []}}\n")
        .unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (reader, line)
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn watch_not_reading_misses_events_and_delays_none() {
    let (place, daemon) = site();
    let (mut slow, said) = watcher(&place);
    assert_eq!(said, "{\"reply\":\"watching\"}\n");
    let mut settings = ToolSettings::from(|_| None).unwrap();
    settings.places.directory = place.path("");
    settings.attach = AttachTarget::Pid(daemon.pid());
    let tool = soon("a tool connects", Tool::init(settings)).await.unwrap();
    const RAISED: u64 = 12_000;
    for _ in 0..RAISED {
        tool.notify(Status(-3001), Range::Session, Vec::new())
            .await
            .unwrap();
    }
    tool.notify(Status(-3002), Range::Session, Vec::new())
        .await
        .unwrap();
    assert!(daemon.tell(&["status"]).contains("serving"));
    let mut seen = 0;
    let mut missed = 0;
    while seen + missed < RAISED {
        let mut line = String::new();
        slow.read_line(&mut line).unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        match reply["reply"].as_str() {
            Some("event") => seen += 1,
            Some("missed") => missed += reply["events"].as_u64().unwrap(),
            _ => panic!("{line}"),
        }
    }
    assert!(
        seen > 1000 && missed > 1000,
        "{seen} seen and {missed} missed"
    );

    let mut all = vec![slow];
    let refused = loop {
        let (reader, said) = watcher(&place);
        if said != "{\"reply\":\"watching\"}\n" {
            break said;
        }
        all.push(reader);
    };
    assert_eq!(
        refused,
        "{\"reply\":\"refused\",\"reason\":\"64 watchers are connected, more are not allowed (admin.max_watchers, of which an eighth is for root and the server's user)\"}\n"
    );
    assert_eq!(all.len(), 64);
    drop(all);
    while watcher(&place).1 != "{\"reply\":\"watching\"}\n" {}
}
