//! Log requests arrive at a real web service over TLS, from a confined server; each once, also if
//! the server dies.
use super::sinks::peers::{Certificates, until, web::WebService};
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    guest, peal, run,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt};

/// Site with two sinks for one web service: texts for a chat, and records as JSON.
struct Site {
    place: Place,
    service: WebService,
    // The files are removed with it.
    _certificates: Certificates,
}

impl Site {
    fn new() -> Site {
        let certificates = Certificates::new();
        let place = Place::new();
        let service = WebService::new(Some(&certificates));
        for (file, secret) in [("token", "a-secret\n"), ("path", "/services/secret\n")] {
            let path = place.path(file);
            fs::write(&path, secret).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        place.configure(&format!(
            r#"
[store]
path = {store:?}
[confinement]
mode = "require"
[[sink]]
name = "chat"
first_retry_delay_ms = 20
max_retry_delay_ms = 100
[sink.webhook]
url = "https://127.0.0.1:{port}"
path_file = {path:?}
ca = {ca:?}
[[sink]]
name = "hook"
first_retry_delay_ms = 20
max_retry_delay_ms = 100
[sink.webhook]
url = "https://127.0.0.1:{port}/records"
format = "json"
headers = ["X-Cluster: alpha"]
token_file = {token:?}
ca = {ca:?}
[[module]]
name = "chat"
path = {file:?}
channels = ["site.log.chat"]
sinks = ["chat"]
grants = ["sink", "clock"]
config = {{ sink = "chat" }}
[[module]]
name = "hook"
path = {record:?}
channels = ["site.log.hook"]
sinks = ["hook"]
grants = ["sink", "clock"]
config = {{ sink = "hook" }}
"#,
            store = place.path("store"),
            port = service.port,
            path = place.path("path"),
            token = place.path("token"),
            ca = certificates.file("ca.pem"),
            file = guest("file"),
            record = guest("record"),
        ));
        Site {
            place,
            service,
            _certificates: certificates,
        }
    }

    /// Runs `peal log` on both channels, with the server that has this process id.
    fn log(&self, server: u32, text: &str) -> Done {
        let mut command = peal(["log", "--pid", &server.to_string()]);
        command
            .args(["--channel", "site.log.chat", "--channel", "site.log.hook"])
            .arg(text)
            .env("PMIX_SYSTEM_TMPDIR", self.place.path(""));
        run(&mut command)
    }

    /// Returns what arrived at a path, parsed.
    fn bodies(&self, path: &str) -> Vec<Value> {
        let received = self.service.received();
        received
            .iter()
            .filter(|request| request.path == path)
            .map(|request| serde_json::from_str(&request.body).unwrap())
            .collect()
    }
}

/// Returns a metric of a sink, as `peal stats` prints it.
fn count(daemon: &Daemon, metric: &str, sink: &str) -> u64 {
    let stats = daemon.tell(&["stats"]);
    let name = format!("{metric}{{sink={sink:?}}}");
    let line = stats
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words[1] == name)
        .unwrap_or_else(|| panic!("{name}: {stats}"));
    line[0].parse().unwrap()
}

#[needs(prepared, landlock, python3)]
#[test]
fn log_request_reaches_web_service_of_confined_server() {
    let mut site = Site::new();
    site.service.start();
    let daemon = site.place.start();
    site.log(daemon.pid(), "half \"done\" <!here>")
        .expect_status(0);
    until("both are there", || site.service.received().len() == 2);
    let [chat] = &site.bodies("/services/secret")[..] else {
        panic!()
    };
    let text = chat["text"].as_str().unwrap();
    assert!(text.ends_with("] half \"done\" &lt;!here&gt;"), "{text}");
    let [record] = &site.bodies("/records")[..] else {
        panic!()
    };
    assert_eq!(
        (&record["channel"], &record["text"]),
        (&"site.log.hook".into(), &"half \"done\" <!here>".into())
    );
    let received = site.service.received();
    let of_record = received
        .iter()
        .find(|request| request.path == "/records")
        .unwrap();
    assert_eq!(of_record.header("authorization"), "Bearer a-secret");
    assert_eq!(of_record.header("x-cluster"), "alpha");
    let counts = |metric: &str| ["chat", "hook"].map(|sink| count(&daemon, metric, sink));
    until("the deliveries are counted", || {
        counts("sink_delivered") == [1, 1]
    });
    // The refusal of a message is reported, and nothing waits.
    site.log(daemon.pid(), "[always 400]").expect_status(0);
    until("the refusals are counted", || {
        counts("sink_messages_dropped") == [1, 1]
    });
    assert_eq!(counts("sink_queue_messages"), [0, 0]);
    daemon.tell(&["stop"]);
    let done = daemon.ends();
    assert_eq!(done.status, Some(0));
    let told: Vec<&str> = done
        .stderr
        .lines()
        .filter(|line| line.contains("sink message given up"))
        .collect();
    assert_eq!(told.len(), 2, "{}", done.stderr);
    assert!(
        told.iter().all(|line| line.contains("400 Bad Request")),
        "{told:?}"
    );
    assert!(
        !done.stderr.contains("services/secret") && !done.stderr.contains("a-secret"),
        "{}",
        done.stderr
    );
}

#[needs(prepared, landlock, python3)]
#[test]
fn messages_pending_at_server_kill_arrive_once() {
    let mut site = Site::new();
    let daemon = site.place.start();
    for number in 0..5 {
        // The service is away, and no request waits for it.
        site.log(daemon.pid(), &format!("message {number}"))
            .expect_status(0);
    }
    daemon.signal(Signal::KILL);
    daemon.ends();
    site.service.start();
    let daemon = site.place.start();
    until("all are there", || site.service.received().len() >= 10);
    site.log(daemon.pid(), "last").expect_status(0);
    // An orderly stop delivers all queued messages.
    daemon.tell(&["stop"]);
    assert_eq!(daemon.ends().status, Some(0));
    let mut wanted: Vec<String> = (0..5).map(|number| format!("message {number}")).collect();
    wanted.push("last".to_owned());
    let texts: Vec<Value> = site
        .bodies("/records")
        .iter()
        .map(|body| body["text"].clone())
        .collect();
    assert_eq!(texts, wanted);
    let ends = |(body, text): (&Value, &String)| {
        let line = body["text"].as_str().unwrap();
        line.ends_with(&format!("] {text}"))
    };
    let chat = site.bodies("/services/secret");
    assert_eq!(chat.len(), wanted.len());
    assert!(chat.iter().zip(&wanted).all(ends), "{chat:?}");
}
