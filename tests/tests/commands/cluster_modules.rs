//! `peal module deploy` with several servers on the real NATS server, as an administrator sees it.
use peal_needs::needs;
use peal_server::admin::{ClusterModuleList, ClusterNodeState, ModuleState};
use peal_tests::{
    Done,
    daemon::{Daemon, Place, put},
    guest,
    nats_site::NatsSite,
    peal, run, until,
};
use std::{fs, path::PathBuf};

/// Node with its place. Only the configuration differs between nodes.
struct Node {
    place: Place,
    daemon: Daemon,
}

impl Node {
    fn start(site: &NatsSite, name: &str, more: &str) -> Node {
        let place = site.place(name);
        configure(site, &place, name, more);
        let daemon = place.start();
        Node { place, daemon }
    }

    fn restarted(self) -> Node {
        let Node { place, daemon } = self;
        daemon.tell(&["stop", "--wait"]);
        drop(daemon);
        let daemon = place.start();
        Node { place, daemon }
    }

    fn config(&self) -> PathBuf {
        self.place.path("peal.toml")
    }

    fn cluster(&self) -> ClusterModuleList {
        self.place.modules().cluster.unwrap()
    }

    /// Runs `peal module deploy` on this node.
    fn deploy(&self, args: &[&str]) -> Done {
        let mut command = peal(["module", "deploy", "--config"]);
        command
            .arg(self.config())
            .arg("--socket")
            .arg(self.place.socket());
        run(command.args(args).current_dir(self.place.path(".")))
    }

    /// Runs `peal module rollback --cluster` on this node.
    fn roll_back(&self, args: &[&str]) -> Done {
        let mut command = peal(["module", "rollback", "--cluster", "--socket"]);
        run(command.arg(self.place.socket()).args(args))
    }

    /// Returns the names of the active modules.
    fn active(&self) -> Vec<String> {
        let modules = self.place.modules().modules;
        modules
            .into_iter()
            .filter(|module| module.state == ModuleState::Active)
            .map(|module| module.name)
            .collect()
    }

    /// Waits until the trail of this node has a text.
    fn until_recorded(&self, text: &str) {
        until("the trail has it", || {
            let list = run(peal(["audit", "list", "--config"]).arg(self.config()));
            list.expect_status(0).stdout.contains(text)
        });
    }

    /// Waits until this node knows this number of nodes that run a set.
    fn until_run(&self, set: Option<u64>, count: usize) {
        until(&format!("{count} nodes run {set:?}"), || {
            let nodes = self.cluster().nodes;
            nodes.iter().filter(|node| node.runs == set).count() == count
        });
    }
}

fn configure(site: &NatsSite, place: &Place, name: &str, more: &str) {
    let section = site.section_with(name, &place.path("cluster"));
    place.configure(&format!(
        "[store]\npath = {:?}\n[audit]\npath = {:?}\non_failure = \"deny\"\n{more}\n{section}",
        place.path("store.db"),
        place.path("audit.db")
    ));
}

/// Writes a file with a module of this name, and its component.
fn module(at: &Node, name: &str, component: &str, more: &str) -> String {
    put(
        &at.place.path(&format!("{name}.wasm")),
        fs::read(guest(component)).unwrap(),
    );
    let file = at.place.path(&format!("{name}.deploy"));
    put(
        &file,
        format!("[[module]]\nname = {name:?}\npath = \"{name}.wasm\"\n{more}"),
    );
    file.to_str().unwrap().to_owned()
}

fn keygen(at: &Node) -> (String, String) {
    let name = at.place.path("site");
    run(peal(["module", "keygen", "--no-password"]).arg(&name)).expect_status(0);
    let public = fs::read_to_string(at.place.path("site.pub")).unwrap();
    let key = at.place.path("site.key");
    (
        key.to_str().unwrap().to_owned(),
        public.lines().nth(1).unwrap().to_owned(),
    )
}

#[needs(prepared, nats)]
#[test]
fn modules_reach_all_nodes_and_go_back_together() {
    let mut site = NatsSite::start(&["n1", "n2", "n3"]);
    let n1 = Node::start(&site, "n1", "");
    let n2 = Node::start(&site, "n2", "");
    n1.until_run(None, 2);
    let file = module(&n1, "rule", "namespace-only", "");
    let dry = n1.deploy(&["--dry-run", &file]).expect_status(0).stdout;
    assert_eq!(
        dry,
        "would deploy rule\n2 nodes of cluster site would run the set when 100% are ready\n"
    );
    assert!(n1.cluster().sets.is_empty());
    let told = n1
        .deploy(&["--cluster", "site", &file])
        .expect_status(0)
        .stdout;
    assert!(
        told.starts_with("cluster site: set 1 is that of all nodes\n"),
        "{told}"
    );
    for node in [&n1, &n2] {
        assert_eq!(node.active(), ["rule"]);
    }
    n2.until_run(Some(1), 2);
    // The trail of each node has what a local deployment leaves.
    n2.until_recorded("set 1 of the cluster, by node n1: rule");
    // Another module is added; the first one stays.
    let other = module(&n1, "other", "same-user", "");
    n1.deploy(&[&other]).expect_status(0);
    for node in [&n1, &n2] {
        assert_eq!(node.active(), ["rule", "other"]);
    }
    // A server that starts later takes the set.
    let n3 = Node::start(&site, "n3", "");
    n1.until_run(Some(2), 3);
    assert_eq!(n3.active(), ["rule", "other"]);
    n1.deploy(&["--remove", "rule"]).expect_status(0);
    assert_eq!(n2.active(), ["other"]);
    n1.roll_back(&[]).expect_status(0);
    for node in [&n1, &n2, &n3] {
        until("the set before runs", || node.active() == ["rule", "other"]);
    }
    // The set that was active before is that of the highest number.
    let dry = n1.roll_back(&["--dry-run"]).expect_status(0).stdout;
    assert_eq!(dry, "would run set 3 on all nodes\n");
    // Without NATS servers a node keeps its modules, also after a restart.
    site.kill();
    let n2 = n2.restarted();
    assert_eq!(n2.active(), ["rule", "other"]);
    let away = n1.deploy(&[&file]).expect_status(125).stderr;
    assert!(away.contains("no NATS server answers"), "{away}");
    // The store is lost. The deployer and the others put it back.
    site.wipe();
    site.start_again();
    site.set_up();
    n1.until_run(Some(2), 3);
    assert_eq!(n2.active(), ["rule", "other"]);
}

#[needs(prepared, nats)]
#[test]
fn node_keeps_its_set_for_what_it_does_not_trust() {
    let site = NatsSite::start(&["n1", "n2"]);
    let n1 = Node::start(&site, "n1", "");
    let (key, public) = keygen(&n1);
    let signed =
        format!("[modules]\nrequire_signature = [\"site\"]\ntrusted_keys = [{public:?}]\n");
    let n2 = Node::start(&site, "n2", &signed);
    n1.until_run(None, 2);
    let file = module(&n2, "rule", "namespace-only", "");
    let refused = n2.deploy(&["--dry-run", &file]).expect_status(125).stderr;
    assert!(
        refused.contains("settings of module rule must be signed"),
        "{refused}"
    );
    let file = module(&n1, "rule", "namespace-only", "");
    let refused = n1.deploy(&[&file]).expect_status(1);
    let expected = "settings of module rule must be signed (modules.require_signature has \"site\"): it is not signed";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert_eq!(n1.active().len() + n2.active().len(), 0);
    n2.until_recorded("settings of module rule must be signed");
    // Signed settings do not suffice: the component must be signed, too.
    let refused = n1.deploy(&["--key", &key, &file]).expect_status(1);
    let expected = "module rule must be signed";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    let component = n1.place.path("rule.wasm");
    run(peal(["module", "sign", "--key", &key]).arg(component)).expect_status(0);
    n1.deploy(&["--key", &key, &file]).expect_status(0);
    assert_eq!(n2.active(), ["rule"]);
    // A module of the node itself has the name of the next one.
    let own = n2.place.path("own.wasm");
    put(&own, fs::read(guest("same-user")).unwrap());
    let more = format!("[[module]]\nname = \"other\"\npath = {own:?}\n");
    configure(&site, &n2.place, "n2", &more);
    n2.daemon.tell(&["reload"]);
    let other = module(&n2, "other", "same-user", "");
    let refused = n2.deploy(&["--dry-run", &other]).expect_status(125).stderr;
    assert!(
        refused.contains("module other is configured on this node"),
        "{refused}"
    );
    let other = module(&n1, "other", "same-user", "");
    let refused = n1.deploy(&[&other]).expect_status(1).stderr;
    let expected = "n2 refuses: ";
    assert!(
        refused.contains(expected) && refused.contains("module other is configured on this node"),
        "{refused}"
    );
    // Half of the nodes suffice. The other one keeps its set, says why, and follows when it can.
    let told = n1
        .deploy(&["--quota", "50", &other])
        .expect_status(0)
        .stdout;
    assert!(told.contains("refuses"), "{told}");
    assert_eq!(n1.active(), ["rule", "other"]);
    assert_eq!(n2.active(), ["other", "rule"]);
    let active = n1.cluster().active;
    // It tries to prepare the set that the others run once more.
    until("n2 refuses the set", || {
        let nodes = n1.cluster().nodes;
        let shown = nodes.iter().find(|node| node.node == "n2").unwrap();
        assert_ne!(shown.runs, active);
        shown.state == ClusterNodeState::Refuses
    });
    configure(&site, &n2.place, "n2", "");
    n2.daemon.tell(&["reload"]);
    n1.until_run(active, 2);
    // What a module of the cluster may do is decided by each node.
    configure(
        &site,
        &n2.place,
        "n2",
        "[modules]\ncluster_grants = [\"clock\"]\n",
    );
    n2.daemon.tell(&["reload"]);
    let third = module(&n1, "third", "same-user", "grants = [\"logging\"]\n");
    let refused = n1.deploy(&[&third]).expect_status(1).stderr;
    let expected = "module third has the grant \"logging\", which modules.cluster_grants of this node does not allow";
    assert!(refused.contains(expected), "{refused}");
}

#[needs(prepared, nats)]
#[test]
fn canary_of_nodes_is_promoted_or_given_up() {
    let site = NatsSite::start(&["n1", "n2", "n3"]);
    let nodes: Vec<Node> = ["n1", "n2", "n3"]
        .map(|name| Node::start(&site, name, ""))
        .into();
    let [n1, ..] = nodes.as_slice() else {
        panic!("there are nodes");
    };
    n1.until_run(None, 3);
    let file = module(n1, "rule", "namespace-only", "");
    let running = || {
        nodes
            .iter()
            .filter(|node| node.active() == ["rule"])
            .count()
    };
    let told = n1
        .deploy(&["--canary", "30", &file])
        .expect_status(0)
        .stdout;
    assert!(told.contains("set 1 runs as a canary on n"), "{told}");
    assert_eq!(running(), 1);
    let busy = n1.deploy(&[&file]).expect_status(125).stderr;
    assert!(busy.contains("set 1 of node n1 is on its way"), "{busy}");
    let busy = n1.deploy(&["--dry-run", &file]).expect_status(125).stderr;
    assert!(busy.contains("set 1 of node n1 is on its way"), "{busy}");
    let dry = n1.roll_back(&["--dry-run"]).expect_status(0).stdout;
    assert_eq!(dry, "would give up set 1\n");
    n1.roll_back(&["--dry-run", "1"]).expect_status(125);
    n1.roll_back(&[]).expect_status(0);
    until("no node runs the canary", || running() == 0);
    n1.deploy(&["--canary", "50", &file]).expect_status(0);
    assert_eq!(running(), 2);
    let dry = n1.deploy(&["--promote", "--dry-run"]).expect_status(0);
    assert_eq!(dry.stdout, "3 nodes would run set 2\n");
    n1.deploy(&["--promote"]).expect_status(0);
    assert_eq!(running(), 3);
    let none = n1.deploy(&["--promote"]).expect_status(125).stderr;
    assert!(none.contains("no canary runs"), "{none}");
}

#[needs(prepared, nats)]
#[test]
fn what_cannot_be_deployed_is_refused_with_the_reason() {
    let site = NatsSite::start(&["n1", "n2"]);
    let n1 = Node::start(&site, "n1", "");
    let n2 = Node::start(&site, "n2", "");
    n1.until_run(None, 2);
    let file = module(&n1, "rule", "namespace-only", "");
    let text = |name: &str, text: &str| {
        let file = n1.place.path(name);
        put(&file, text);
        file.to_str().unwrap().to_owned()
    };
    for (args, status, says) in [
        (vec![], 2, "required"),
        (vec!["--quota", "0", &file], 2, "--quota"),
        (vec!["--canary", "100", &file], 2, "--canary"),
        (
            vec!["--cluster", "other", &file],
            125,
            "this node is in cluster site, not \"other\"",
        ),
        (vec!["nothing.toml"], 125, "nothing.toml"),
        (
            vec!["--remove", "nothing"],
            125,
            "the cluster has no module \"nothing\"",
        ),
        (
            vec!["--dry-run", "--remove", "nothing"],
            125,
            "the cluster has no module \"nothing\"",
        ),
        (vec!["--promote", "--dry-run"], 125, "no canary runs"),
        (vec![&*text("empty", "")], 125, "there is no [[module]]"),
        (
            vec![&*text(
                "no-file",
                "[[module]]\nname = \"a\"\npath = \"no.wasm\"\n",
            )],
            125,
            "no.wasm",
        ),
        (
            vec![&*text(
                "odd",
                "[[module]]\nname = \"a\"\npath = \"odd\"\nodd = 1\n",
            )],
            125,
            "odd",
        ),
    ] {
        let told = n1.deploy(&args).expect_status(status).stderr;
        assert!(told.contains(says), "{args:?}: {told}");
    }
    // Bytes that are no component reach the nodes, which refuse them.
    put(&n1.place.path("bytes.wasm"), "no component");
    let bytes = text("bytes", "[[module]]\nname = \"a\"\npath = \"bytes.wasm\"\n");
    let told = n1.deploy(&[&bytes]).expect_status(1).stderr;
    assert!(told.contains("was given up: n1 refuses: "), "{told}");
    // The key of this node may not deploy.
    let file = module(&n2, "rule", "namespace-only", "");
    let told = n2.deploy(&[&file]).expect_status(125).stderr;
    assert!(
        told.contains("the key of node n2 may not deploy modules to the cluster; `peal cluster init --deployer n2` lets it"),
        "{told}"
    );
    let alone = Place::new();
    let daemon = alone.start();
    let told = daemon
        .ask(&["module", "rollback", "--cluster"])
        .expect_status(125)
        .stderr;
    assert!(told.contains("the server is in no cluster"), "{told}");
}
