//! Commands that ask the servers of all nodes of a cluster, on the real NATS server.
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    nats_site::NatsSite,
    peal, run, until,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread,
};

/// Node with a store, which these nodes may observe.
struct Node {
    place: Place,
    section: String,
}

impl Node {
    fn new(site: &NatsSite, name: &str, viewers: &[&str]) -> Node {
        let place = site.place(name);
        let section = site.section_with(name, &place.path("cluster"));
        let node = Node { place, section };
        node.configure(viewers);
        node
    }

    fn configure(&self, viewers: &[&str]) {
        let (section, store) = (&self.section, self.place.path("store.db"));
        self.place.configure(&format!(
            "{section}viewers = {viewers:?}\n[store]\npath = {store:?}\n"
        ));
    }

    /// Starts its server, and waits until it is a member of a cluster of this number of servers.
    fn start(&self, servers: u64) -> Daemon {
        let daemon = self.place.start();
        await_servers(&daemon, servers);
        daemon
    }

    fn ask(&self, args: &[&str]) -> Done {
        let config = self.place.path("peal.toml");
        run(peal(args).arg("--cluster").arg("--config").arg(config))
    }

    fn ask_json(&self, args: &[&str], status: i32) -> Vec<Value> {
        let told = self.ask(args).expect_status(status).stdout;
        serde_json::from_str::<Vec<Value>>(&told).unwrap()
    }
}

fn await_servers(daemon: &Daemon, servers: u64) {
    until("the server is a member", || {
        let told = daemon.ask(&["status", "-o", "json"]).stdout;
        let told: Value = serde_json::from_str(&told).unwrap();
        let place = &told["cluster"];
        place["id"].is_number() && place["servers"] == servers
    });
}

#[needs(prepared, nats)]
#[test]
fn jobs_metrics_and_records_of_all_nodes_are_shown_to_viewers() {
    let site = NatsSite::start(&["n1", "n2"]);
    let first = Node::new(&site, "n1", &[]);
    let second = Node::new(&site, "n2", &["n1"]);
    let daemon = first.start(1);
    let other = second.start(2);
    await_servers(&daemon, 2);
    daemon.tell(&["job", "register", "near", "-n", "2"]);
    other.tell(&["job", "register", "far", "-n", "3"]);
    let told = first.ask(&["ps"]).expect_status(0).stdout;
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("node  job   user"), "{told}");
    assert!(
        lines.iter().any(|line| line.starts_with("n1    near")),
        "{told}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("n2    far")),
        "{told}"
    );
    let nodes = first.ask_json(&["ps", "-o", "json", "far"], 0);
    assert_eq!(
        (&nodes[0]["node"], &nodes[1]["node"]),
        (&"n1".into(), &"n2".into())
    );
    assert_eq!(nodes[0]["jobs"], Value::Array(Vec::new()));
    assert_eq!(nodes[1]["jobs"][0]["nspace"], "far");
    let missing = first.ask(&["ps", "none"]).expect_status(1).stderr;
    assert_eq!(missing, "peal: no job in the cluster is called \"none\"\n");
    let nodes = first.ask_json(&["stats", "-o", "json"], 0);
    let jobs = |node: &Value| {
        let mut families = node["families"].as_array().unwrap().iter();
        let family = families.find(|one| one["name"] == "peal_jobs").unwrap();
        family["samples"][0]["value"].clone()
    };
    assert_eq!((jobs(&nodes[0]), jobs(&nodes[1])), (1.into(), 1.into()));
    let told = first.ask(&["stats"]).expect_status(0).stdout;
    assert!(
        told.starts_with("node n1\n") && told.contains("\nnode n2\n"),
        "{told}"
    );
    let nodes = first.ask_json(&["job", "record", "far", "-o", "json"], 0);
    assert_eq!(nodes[0]["record"], Value::Null);
    assert_eq!(nodes[1]["record"]["size"], 3);
    let told = first.ask(&["job", "record", "far"]).expect_status(0).stdout;
    assert!(
        told.starts_with("node n2\n") && told.contains("job far of 3 procs"),
        "{told}"
    );
    let none = first
        .ask(&["job", "record", "none"])
        .expect_status(125)
        .stderr;
    assert!(
        none.contains("no node of the cluster has a record of job \"none\""),
        "{none}"
    );
    // Node n1 is observed by none but its own administrators.
    let told = second.ask(&["ps"]).expect_status(3);
    assert!(
        told.stdout.contains("n2    far") && !told.stdout.contains("near"),
        "{}",
        told.stdout
    );
    let reason =
        "peal: node n1: it refuses: cluster.viewers in its configuration does not name node n2\n";
    assert_eq!(told.stderr, reason);
    for args in [
        &["stats", "-o", "json"][..],
        &["job", "record", "near", "-o", "json"],
    ] {
        let nodes = second.ask_json(args, 3);
        let failure = nodes[0]["failure"].as_str().unwrap();
        assert!(
            failure.starts_with("it refuses: cluster.viewers"),
            "{failure}"
        );
    }
    // A server that is stopped is named when the time is over.
    other.signal(rustix::process::Signal::STOP);
    let told = first.ask(&["ps", "--timeout", "1"]).expect_status(3);
    assert!(told.stdout.contains("n1    near"), "{}", told.stdout);
    assert_eq!(told.stderr, "peal: node n2: no answer within 1s\n");
    other.signal(rustix::process::Signal::CONT);
    other.tell(&["stop", "--wait"]);
    daemon.tell(&["stop", "--wait"]);
}

/// `peal event watch --cluster` with what it has printed.
struct WatchedCluster {
    process: Child,
    printed: Arc<Mutex<Printed>>,
}

#[derive(Default)]
struct Printed {
    /// Events, as JSON.
    events: Vec<Value>,
    notices: String,
}

impl WatchedCluster {
    fn start(node: &Node) -> WatchedCluster {
        let mut command = peal([
            "event",
            "watch",
            "-3001",
            "--cluster",
            "-o",
            "json",
            "--config",
        ]);
        command.arg(node.place.path("peal.toml"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let printed: Arc<Mutex<Printed>> = Arc::default();
        let (events, notices) = (printed.clone(), printed.clone());
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap();
                events.lock().unwrap().events.push(event);
            }
        });
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut printed = notices.lock().unwrap();
                printed.notices.push_str(&line);
                printed.notices.push('\n');
            }
        });
        WatchedCluster { process, printed }
    }

    /// Returns the nodes of the events with this number.
    fn nodes_of(&self, number: u64) -> Vec<String> {
        let printed = self.printed.lock().unwrap();
        let is_meant = |event: &&Value| event["infos"][0]["value"] == number;
        let events = printed.events.iter().filter(is_meant);
        events
            .map(|event| event["node"].as_str().unwrap().to_owned())
            .collect()
    }

    fn has_told(&self, text: &str) -> bool {
        self.printed.lock().unwrap().notices.contains(text)
    }
}

impl Drop for WatchedCluster {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn raise(daemon: &Daemon, number: u64) {
    let info = format!("site.number:uint64={number}");
    let pid = daemon.pid().to_string();
    daemon.tell(&[
        "event", "notify", "-3001", "--range", "session", "--info", &info, "--pid", &pid,
    ]);
}

#[needs(prepared, nats)]
#[test]
fn events_of_all_nodes_are_watched_once_each() {
    let site = NatsSite::start(&["n1", "n2"]);
    let first = Node::new(&site, "n1", &[]);
    let second = Node::new(&site, "n2", &["n1"]);
    let daemon = first.start(1);
    let other = second.start(2);
    await_servers(&daemon, 2);
    let watched = WatchedCluster::start(&first);
    // Events of before it had asked a node are not shown.
    for (number, (node, daemon)) in (0..).zip([("n1", &daemon), ("n2", &other)]) {
        until("the node is watched", || {
            raise(daemon, number);
            watched.nodes_of(number).contains(&node.to_owned())
        });
    }
    for number in 10..20 {
        raise(if number % 2 == 0 { &daemon } else { &other }, number);
    }
    until("all have come", || {
        (10..20).all(|number| !watched.nodes_of(number).is_empty())
    });
    for number in 10..20 {
        let node = if number % 2 == 0 { "n1" } else { "n2" };
        // It has reached both nodes.
        assert_eq!(watched.nodes_of(number), [node], "event {number}");
    }
    other.tell(&["stop", "--wait"]);
    until("the loss is told", || {
        watched.has_told("node n2: no server that takes requests runs there")
    });
    let other = second.start(2);
    until("the node is watched again", || {
        raise(&other, 30);
        !watched.nodes_of(30).is_empty()
    });
    assert!(watched.has_told("node n2: it answers again"));
    assert!(watched.has_told("node n2: events may be missing"));
    drop(watched);
    // The other way the node refuses.
    let told = WatchedCluster::start(&second);
    until("the refusal is told", || {
        told.has_told(
            "node n1: it refuses: cluster.viewers in its configuration does not name node n2",
        )
    });
    drop(told);
    other.tell(&["stop", "--wait"]);
    daemon.tell(&["stop", "--wait"]);
}
