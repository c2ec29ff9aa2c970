//! Telemetry of `peal serve`: the traces of events and decisions, and the metrics, as a receiver and a
//! real collector get them.
use opentelemetry_proto::tonic::{
    metrics::v1::Metric,
    trace::v1::{Span, status::StatusCode},
};
use peal_client::Client;
use peal_model::{Info, Proc, Range, Rank, Status, Value, code, key};
use peal_needs::needs;
use peal_tests::{
    daemon::Place,
    guest,
    in_process::soon,
    otlp_receiver::{Attributes, OtlpReceiver, attributes, samples},
    run, test_servers, until,
};
use rustix::process::Signal;
use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command},
};

/// Event that the handlers of these tests handle.
const NEWS: Status = Status(-3101);
const SECRET: &str = "correct horse battery staple";

/// Returns the configuration of a server with a policy and three handlers, of which the last reaches a
/// limit, that exports to this address.
fn configuration(collector: SocketAddr) -> String {
    let module = |name: &str, component: &str, more: &str| {
        let path = guest(component);
        format!("[[module]]\nname = {name:?}\npath = {path:?}\n{more}\n")
    };
    let of_news = "codes = [-3101]";
    format!(
        "[telemetry]\nendpoint = \"http://{collector}\"\nmetrics_interval_ms = 200\nmax_traces_per_second = 100000\n\
         resource_attributes = [\"deployment.environment.name=test\"]\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n[sandbox]\nfuel = \"always\"\n{}{}{}{}",
        module("same-user", "same-user", ""),
        module("first", "echo", of_news),
        module(
            "second",
            "report",
            "codes = [-3101]\ngrants = [\"logging\"]"
        ),
        module(
            "limited",
            "complete",
            "codes = [-3101]\nlimits.host_calls = 1"
        ),
    )
}

/// Raises an event that the handlers handle, and one that the policy denies.
async fn raise(client: &Client) {
    let credential = Info::new(key::PMIX_CREDENTIAL, Value::string(SECRET));
    let raised = client.notify(NEWS, Range::Namespace, vec![credential]);
    soon("the event is raised", raised).await.unwrap();
    let other = Proc::new(client.me().nspace.clone(), Rank(1));
    let claimed = Info::new(key::PMIX_EVENT_PROXY, Value::Proc(other));
    let denied = client.notify(NEWS, Range::Namespace, vec![claimed]);
    let denied = soon("the event is denied", denied).await;
    assert_eq!(denied.unwrap_err().status(), code::PMIX_ERR_NO_PERMISSIONS);
}

/// Returns the root of a trace and its other spans, in the order of their times.
fn trace(spans: &[Span], is_root: impl Fn(&Span) -> bool) -> Option<(Span, Vec<Span>)> {
    let root = spans.iter().find(|span| is_root(span))?;
    let children = spans
        .iter()
        .filter(|span| span.trace_id == root.trace_id && span.parent_span_id == root.span_id);
    let mut children: Vec<Span> = children.cloned().collect();
    children.sort_by_key(|span| span.start_time_unix_nano);
    Some((root.clone(), children))
}

fn of(span: &Span) -> Attributes {
    attributes(&span.attributes)
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn event_and_denial_are_traces_with_a_span_for_each_module() {
    let receiver = OtlpReceiver::start(None);
    let place = Place::new();
    place.configure(&configuration(receiver.address()));
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let client = server.client("job", 0).await;
    raise(&client).await;
    let event = |span: &Span| span.name == "event -3101";
    let denied = |span: &Span| {
        of(span)
            .get("peal.verdict")
            .is_some_and(|is| is == "denied")
    };
    let mut spans = Vec::new();
    until("both traces arrive", || {
        spans = receiver.spans();
        spans.iter().any(event) && spans.iter().any(denied)
    });
    let (root, calls) = trace(&spans, event).unwrap();
    let found = of(&root);
    for (name, value) in [
        ("peal.event.code", "-3101"),
        ("peal.event.source", "job:0"),
        ("peal.event.range", "PMIX_RANGE_NAMESPACE"),
    ] {
        assert_eq!(found[name], value, "{found:?}");
    }
    assert_eq!(root.status.clone().unwrap().code(), StatusCode::Error);
    let names: Vec<&str> = calls.iter().map(|span| &*span.name).collect();
    assert_eq!(
        names,
        ["handler first", "handler second", "handler limited"]
    );
    for call in &calls {
        let found = of(call);
        assert_eq!(found["peal.owner"], "site");
        assert_eq!(
            Some(&*found["peal.module"]),
            call.name.strip_prefix("handler ")
        );
        assert_eq!(found["peal.module.digest"].len(), 64);
        assert!(found["peal.fuel"].parse::<u64>().unwrap() > 0, "{found:?}");
        assert!(
            root.start_time_unix_nano <= call.start_time_unix_nano
                && call.start_time_unix_nano < call.end_time_unix_nano
                && call.end_time_unix_nano <= root.end_time_unix_nano,
            "{root:?} {call:?}"
        );
    }
    let failed = of(&calls[2]);
    assert_eq!(failed["peal.limit"], "host_calls");
    assert_eq!(failed["peal.status"], "PEAL_ERR_MODULE_HOST_CALLS");
    let status = calls[2].status.clone().unwrap();
    assert_eq!(status.code(), StatusCode::Error);
    // The event has a secret, which a module may repeat.
    assert!(status.message.starts_with("left out:"), "{status:?}");
    assert!(!format!("{spans:?}").contains(SECRET));

    let (root, calls) = trace(&spans, denied).unwrap();
    let found = of(&root);
    for (name, value) in [
        ("peal.hook", "event"),
        ("peal.requester", "job:0"),
        ("peal.decided_by", "policy \"same-user\""),
        ("peal.status", "PMIX_ERR_NO_PERMISSIONS"),
    ] {
        assert_eq!(found[name], value, "{found:?}");
    }
    assert!(
        found["peal.reason"].contains("names another proc"),
        "{found:?}"
    );
    let names: Vec<&str> = calls.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["policy same-user"]);
    assert_eq!(of(&calls[0])["peal.outcome"], "deny");

    let resource = receiver.resource();
    assert_eq!(resource["service.name"], "peal");
    assert_eq!(resource["deployment.environment.name"], "test");
    assert!(
        resource["service.instance.id"].starts_with("peal-"),
        "{resource:?}"
    );
    drop(client);
    server.tell(&["stop", "--wait"]);
    server.ends().expect_status(0);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn exported_metrics_equal_those_of_stats() {
    let receiver = OtlpReceiver::start(None);
    let place = Place::new();
    place.configure(&configuration(receiver.address()));
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let client = server.client("job", 0).await;
    for _ in 0..5 {
        raise(&client).await;
    }
    let stats = || -> serde_json::Value {
        serde_json::from_str(&server.tell(&["stats", "-o", "json"])).unwrap()
    };
    // These do not change while the server is idle.
    until("the exported numbers equal those of stats", || {
        let (stats, exported) = (stats(), exported(&receiver));
        let equals = |name: &&str| {
            let found = exported.get(*name).map(|metric| samples(metric).1);
            let wanted = wanted(family(&stats, name).unwrap());
            !wanted.is_empty() && found == Some(wanted)
        };
        STABLE.iter().all(equals)
    });
    let (stats, exported) = (stats(), exported(&receiver));
    let calls = &samples(&exported["peal_module_calls"]).1;
    assert_eq!(
        calls.values().filter(|number| **number == 5.0).count(),
        3,
        "{calls:?}"
    );
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    for family in stats["families"].as_array().unwrap() {
        let name = text(&family["name"]);
        if wanted(family).is_empty() {
            continue;
        }
        let is_info = family["kind"] == "info";
        let suffix = if is_info { "_info" } else { "" };
        let metric = &exported[&format!("{name}{suffix}")];
        assert_eq!(metric.description, text(&family["help"]));
        let unit = match &*text(&family["unit"]) {
            "seconds" => "s",
            "bytes" => "By",
            _ => "",
        };
        assert_eq!(metric.unit, unit, "{name}");
        assert_eq!(samples(metric).0, family["kind"] == "counter", "{name}");
    }
    assert!(family(&stats, "peal_telemetry_traces_exported").is_some());
}

/// Metrics that do not change while a server is idle.
const STABLE: [&str; 11] = [
    "peal_connections_accepted",
    "peal_jobs",
    "peal_chain_runs",
    "peal_decisions",
    "peal_requests_denied",
    "peal_module_calls",
    "peal_module_failures",
    "peal_module_fuel",
    "peal_module_call_seconds",
    "peal_module_limit_hits",
    "process_start_time_seconds",
];

fn exported(receiver: &OtlpReceiver) -> BTreeMap<String, Metric> {
    let metrics = receiver.metrics().into_iter();
    metrics
        .map(|metric| (metric.name.clone(), metric))
        .collect()
}

fn family<'a>(stats: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    let families = stats["families"].as_array().unwrap();
    families.iter().find(|family| family["name"] == name)
}

/// Returns the samples of a family in the output of `peal stats -o json`.
fn wanted(family: &serde_json::Value) -> BTreeMap<Attributes, f64> {
    let sample = |sample: &serde_json::Value| {
        let labels = sample["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()));
        (labels.collect(), sample["value"].as_f64().unwrap())
    };
    family["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(sample)
        .collect()
}

#[needs(prepared, landlock)]
#[tokio::test(flavor = "multi_thread")]
async fn confined_server_reaches_its_collector() {
    let receiver = OtlpReceiver::start(None);
    let place = Place::new();
    place.configure(&format!(
        "[confinement]\nmode = \"require\"\n{}",
        configuration(receiver.address())
    ));
    let server = place.start();
    until("the metrics arrive", || !receiver.metrics().is_empty());
    server.tell(&["stop", "--wait"]);
    server.ends().expect_status(0);
}

#[needs(prepared)]
#[test]
fn settings_that_do_not_go_together_are_refused() {
    let place = Place::new();
    let cases = [
        (
            "endpoint = \"http://127.0.0.1:4318\"\nheaders_file = \"headers\"",
            "telemetry.headers_file is for a collector with TLS",
        ),
        (
            "endpoint = \"http://127.0.0.1:4318\"\nca = \"ca.pem\"",
            "telemetry.ca is for a collector with TLS",
        ),
        (
            "endpoint = \"http://collector.example.org:4318\"",
            "should be https://HOST:PORT",
        ),
        (
            "endpoint = \"https://collector.example.org/?a=b\"",
            "without a query",
        ),
        (
            "resource_attributes = [\"service\"]",
            "an attribute NAME=VALUE",
        ),
    ];
    for (settings, reason) in cases {
        place.configure(&format!("[telemetry]\n{settings}\n"));
        let mut check = peal_tests::peal(["config", "check", "--config"]);
        let checked = run(check.arg(place.path("peal.toml"))).expect_status(1);
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(said.contains(reason), "{settings}: {said}");
    }
    // A missing file is found when the server starts.
    let missing = "endpoint = \"https://127.0.0.1:4318\"\nheaders_file = \"/none\"";
    place.configure(&format!("[telemetry]\n{missing}\n"));
    let (mut serve, _states) = place.serve("notify");
    let refused = run(&mut serve).expect_status(125).stderr;
    assert!(
        refused.contains("the headers file \"/none\" could not be read"),
        "{refused}"
    );
}

/// Collector that runs until it is dropped.
struct Collector {
    child: Child,
    log: PathBuf,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collector {
    /// Starts a collector that prints what it gets.
    fn start(place: &Place, address: SocketAddr, signal: &str) -> Collector {
        let log = place.path("collector.log");
        let program = test_servers().join("rotel/rotel/rotel-agent");
        let mut command = Command::new(program);
        command.args(["start", "--otlp-grpc-endpoint", "127.0.0.1:0"]);
        command.args(["--otlp-http-endpoint", &address.to_string()]);
        command.args(["--exporter", "blackhole", "--debug-log", signal]);
        command.args(["--debug-log-verbosity", "detailed"]);
        let file = fs::File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap();
        let collector = Collector { child, log };
        until("the collector listens", || {
            TcpStream::connect(address).is_ok()
        });
        collector
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

/// Returns an address without a listener a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[needs(prepared, otlp_collector)]
#[tokio::test(flavor = "multi_thread")]
async fn real_collector_takes_traces() {
    let place = Place::new();
    let address = free_address();
    let collector = Collector::start(&place, address, "traces");
    place.configure(&configuration(address));
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let client = server.client("job", 0).await;
    raise(&client).await;
    until("the collector prints the spans", || {
        let log = collector.log();
        log.contains("policy same-user") && log.contains("handler limited")
    });
    let log = collector.log();
    for part in ["service.name", "event -3101", "peal.limit", "host_calls"] {
        assert!(log.contains(part), "{part}: {log}");
    }
    drop(client);
    // A collector that ends does not keep the server from ending.
    drop(collector);
    server.signal(Signal::TERM);
    server.ends().expect_status(0);
}

#[needs(prepared, otlp_collector)]
#[tokio::test(flavor = "multi_thread")]
async fn real_collector_takes_metrics() {
    let place = Place::new();
    let address = free_address();
    let collector = Collector::start(&place, address, "metrics");
    place.configure(&configuration(address));
    let server = place.start();
    until("the collector prints the metrics", || {
        let log = collector.log();
        log.contains("peal_connections_accepted") && log.contains("process_start_time_seconds")
    });
    drop(server);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn server_without_collector_serves_and_warns_once() {
    let place = Place::new();
    place.configure(&configuration(free_address()));
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let client = server.client("job", 0).await;
    for _ in 0..20 {
        raise(&client).await;
    }
    let failures = || -> u64 {
        let stats: serde_json::Value =
            serde_json::from_str(&server.tell(&["stats", "-o", "json"])).unwrap();
        let family = family(&stats, "peal_telemetry_export_failures").unwrap();
        family["samples"][0]["value"].as_u64().unwrap()
    };
    until("several posts have failed", || failures() > 3);
    drop(client);
    server.tell(&["stop", "--wait"]);
    let done = server.ends().expect_status(0);
    assert_eq!(
        done.stderr.matches("telemetry not exported").count(),
        1,
        "{done:?}"
    );
    assert!(done.stderr.contains("Connection refused"), "{done:?}");
}
