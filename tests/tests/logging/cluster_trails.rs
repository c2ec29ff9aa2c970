//! Audit trails of the nodes of a cluster, with their seals on the real NATS server, as an administrator
//! verifies them.
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    nats_site::NatsSite,
    peal, run, until,
};
use serde_json::Value;
use std::{fs, path::Path};

/// Node with an audit trail.
struct Node {
    place: Place,
    section: String,
}

impl Node {
    fn new(site: &NatsSite, name: &str) -> Node {
        let place = site.place(name);
        let section = site.section_with(name, &place.path("cluster"));
        let node = Node { place, section };
        node.configure("audit.key");
        node
    }

    /// Configures the trail, with this key, sealed as soon as there are records.
    fn configure(&self, key: &str) {
        let section = &self.section;
        let (trail, key) = (self.trail(), self.place.path(key));
        self.place.configure(&format!(
            "{section}[audit]\npath = {trail:?}\nkey = {key:?}\non_failure = \"deny\"\ncheckpoint_ms = 10\n"
        ));
    }

    fn trail(&self) -> std::path::PathBuf {
        self.place.path("audit.db")
    }

    /// Starts its server, and waits until it is a member and the cluster has a seal of this run.
    fn start(&self) -> Daemon {
        let daemon = self.place.start();
        until("the server is a member and the cluster has a seal", || {
            ["peal_cluster_member", "peal_cluster_seals_stored"]
                .iter()
                .all(|name| metric(&daemon, name) != 0)
        });
        daemon
    }

    fn remove_trail(&self) {
        for suffix in ["", "-wal", "-shm", "-tail", "-tail2"] {
            let _ = fs::remove_file(self.place.path(&format!("audit.db{suffix}")));
        }
    }

    fn verify(&self, args: &[&str]) -> Done {
        let config = self.place.path("peal.toml");
        let mut verify = peal(["audit", "verify", "--cluster", "--config"]);
        run(verify.arg(config).args(args))
    }

    /// Returns the state of a node, and the contradictions of its trail.
    fn state_of(&self, name: &str, status: i32) -> (String, Vec<String>) {
        let told = self.verify(&["-o", "json"]).expect_status(status).stdout;
        let told: Value = serde_json::from_str(&told).unwrap();
        let mut nodes = told["nodes"].as_array().unwrap().iter();
        let node = nodes.find(|node| node["node"] == name).unwrap();
        let lines = node["trail"]["contradictions"].as_array();
        let lines = lines.into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&node["state"]), lines.map(text).collect())
    }
}

/// Returns the value of a metric with one sample.
fn metric(daemon: &Daemon, name: &str) -> Value {
    let told = daemon.ask(&["stats", "-o", "json"]).stdout;
    let told: Value = serde_json::from_str(&told).unwrap();
    let mut families = told["families"].as_array().unwrap().iter();
    let family = families.find(|one| one["name"] == name);
    family.unwrap()["samples"][0]["value"].clone()
}

/// Copies the trail of a node with its key, as an administrator does.
fn copy(node: &Node, name: &str, directory: &Path) {
    let to = |suffix: &str| directory.join(format!("{name}.{suffix}"));
    fs::copy(node.trail(), to("db")).unwrap();
    fs::copy(node.place.path("audit.key.pub"), to("pub")).unwrap();
}

#[needs(prepared, nats)]
#[test]
fn trails_that_were_cut_or_replaced_are_named_with_their_nodes() {
    let site = NatsSite::start(&["n1", "n2"]);
    let (first, second) = (Node::new(&site, "n1"), Node::new(&site, "n2"));
    let (daemon, other) = (first.start(), second.start());
    let told = first.verify(&[]).expect_status(0).stdout;
    let intact = told
        .lines()
        .filter(|line| line.ends_with("  as it was written"));
    assert_eq!(intact.count(), 2, "{told}");
    // A node without a server cannot be asked. Its trail can be, elsewhere.
    other.tell(&["stop", "--wait"]);
    let told = first.verify(&[]).expect_status(3).stdout;
    let away = "NOT VERIFIED: it is not in the cluster";
    assert!(
        told.lines()
            .any(|line| line.starts_with("n2") && line.ends_with(away)),
        "{told}"
    );
    let copies = tempfile::tempdir().unwrap();
    copy(&second, "n2", copies.path());
    let directory = copies.path().display().to_string();
    let of_copies = ["--trails", &directory, "--node", "n2"];
    let told = first.verify(&of_copies).expect_status(0).stdout;
    assert!(told.ends_with("as it was written\n"), "{told}");
    let told = first
        .verify(&["--trails", &directory])
        .expect_status(3)
        .stdout;
    assert!(told.contains("neither n1.db nor n1.jsonl is in "), "{told}");
    first.verify(&["--node", "n1"]).expect_status(0);
    // The last records are cut off, and the copy before them put back in place.
    let old = tempfile::tempdir().unwrap();
    copy(&second, "n2", old.path());
    let other = second.start();
    other.tell(&["stop", "--wait"]);
    second.remove_trail();
    fs::copy(old.path().join("n2.db"), second.trail()).unwrap();
    let told = first.verify(&[
        "--trails",
        &old.path().display().to_string(),
        "--node",
        "n2",
    ]);
    let told = told.expect_status(1).stdout;
    assert!(told.contains("CHANGED: record"), "{told}");
    let other = second.start();
    let (state, lines) = first.state_of("n2", 1);
    assert_eq!(state, "changed");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("rewritten") || line.contains("removed")),
        "{lines:?}"
    );
    assert_eq!(first.state_of("n1", 1).0, "intact");
    other.tell(&["stop", "--wait"]);
    // Another trail, with another key.
    second.remove_trail();
    second.configure("other.key");
    let other = second.start();
    let (_, lines) = first.state_of("n2", 1);
    assert!(
        lines[0].starts_with("the trail was replaced: "),
        "{lines:?}"
    );
    // That of before counts no more if the administrator says so.
    first.verify(&["--since", "0s"]).expect_status(0);
    other.tell(&["stop", "--wait"]);
    // No trail any more.
    second.place.configure(&second.section);
    let other = second.place.start();
    until("the server is a member", || {
        metric(&other, "peal_cluster_member") != 0
    });
    let (_, lines) = first.state_of("n2", 1);
    assert_eq!(lines, ["the node has no audit trail any more"]);
    other.tell(&["stop", "--wait"]);
    daemon.tell(&["stop", "--wait"]);
}

#[needs(prepared, nats)]
#[test]
fn verification_without_what_it_needs_says_so() {
    let site = NatsSite::start(&["n1"]);
    let node = Node::new(&site, "n1");
    let told = run(&mut peal(["audit", "verify", "--cluster"]))
        .expect_status(125)
        .stderr;
    assert!(
        told.contains("--cluster: no cluster is configured"),
        "{told}"
    );
    for (args, says) in [
        (&["--from", "x.db"][..], "cannot be used with"),
        (&["--key", "x"], "cannot be used with"),
        (&["--node", "é"], "\"é\" is no name of a node"),
        (
            &["--timeout", "0"],
            "\"0\" is no number of seconds from 1 to 86400",
        ),
        (&["--since", "later"], "nor a time such as"),
    ] {
        let told = node.verify(args).expect_status(2).stderr;
        assert!(told.contains(says), "{args:?}: {told}");
    }
    let told = run(&mut peal(["audit", "verify", "--node", "n1"]))
        .expect_status(2)
        .stderr;
    assert!(told.contains("--cluster"), "{told}");
    let told = node.verify(&["--node", "n9"]).expect_status(3).stdout;
    assert!(
        told.contains("NOT VERIFIED: it is not in the cluster"),
        "{told}"
    );
    let told = node
        .verify(&["--trails", "/no/such"])
        .expect_status(125)
        .stderr;
    assert!(told.contains("/no/such: No such file"), "{told}");
}
