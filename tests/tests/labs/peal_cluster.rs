//! Jobs of Slurm on nodes whose servers meet on NATS: what Slurm does not carry between nodes reaches the other nodes.
use super::peal_nodes::{Configuration, Daemons, nodes_of, peal_on, peal_servers, peal_setup};
use peal_needs::needs;
use peal_tests::{
    labs::{
        CONTROL_NODE, ClientLibrary, NodeMount, ProbeCase, ProbeOutcome, RankLine, SlurmLab,
        SlurmSettings, check_probes_on,
    },
    nats_site::{SiteFiles, nats_server},
    until,
};
use serde_json::Value;
use std::process::{Child, Stdio};

/// Number of nodes with servers.
const NODES: u32 = 4;

/// Address of the NATS server, which is on the launcher's node.
const NATS_SERVER: &str = "tls://10.77.0.254:4222";

/// Directory of the cluster's files on the launcher's node, and that of a node's files on others.
const SITE_FILES: &str = "/run/peal-site";
const NODE_FILES: &str = "/etc/peal/cluster";

/// Nodes under Slurm with `peal serve` on each, all of one cluster.
struct ClusterLab {
    slurm: SlurmLab,
    _daemons: Daemons,
    _nats: Child,
    _files: SiteFiles,
    _config: Configuration,
}

impl ClusterLab {
    /// Starts the nodes, the NATS server and the servers, and waits until these have met. Their configuration has
    /// this text, too.
    fn start(text: &str) -> ClusterLab {
        let names: Vec<String> = (1..=NODES).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let files = SiteFiles::new(NATS_SERVER, &names);
        let config = Configuration::new(&format!(
            "[hosts]\nsocket = \"/run/peal/hosts.sock\"\n[sandbox]\ncache_dir = \"/run/peal-cache\"\n\
             [cluster]\nname = \"site\"\nservers = [\"{NATS_SERVER}\"]\n\
             credentials = \"{NODE_FILES}/node.seed\"\nca = \"{NODE_FILES}/ca.pem\"\n{text}"
        ));
        let mount = |node: &str, source, target: &str| NodeMount {
            node: Some(node.to_owned()),
            source,
            target: target.into(),
        };
        let setup = peal_setup(NODES, &peal_servers(ClientLibrary::Stock), &config.path());
        let setup = setup.mount(mount(CONTROL_NODE, files.path(), SITE_FILES));
        let setup = names.iter().fold(setup, |setup, node| {
            setup.mount(mount(node, files.of_node(node), NODE_FILES))
        });
        let slurm = SlurmLab::start(setup, &SlurmSettings::default()).unwrap();
        let nats = start_nats(&slurm);
        let daemons = Daemons::start(&slurm);
        for node in nodes_of(&slurm) {
            until("the node's server has met the others", || {
                let told = peal_on(&slurm, node.name(), &["status", "--json"]).stdout;
                let state: Value = serde_json::from_str(&told).unwrap();
                let place = &state["cluster"];
                place["id"].is_number() && place["servers"] == NODES
            });
        }
        ClusterLab {
            slurm,
            _daemons: daemons,
            _nats: nats,
            _files: files,
            _config: config,
        }
    }
}

/// Starts the NATS server on the launcher's node, and sets its streams up.
fn start_nats(lab: &SlurmLab) -> Child {
    let control = lab.lab.node(CONTROL_NODE).unwrap();
    let directory = format!("{SITE_FILES}/servers/10.77.0.254-4222");
    let nats = control
        .command_in(&directory, nats_server())
        .args(["-c", "nats-server.conf"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the streams are set up", || {
        let init = ["cluster", "init", "--apply", "--dir", SITE_FILES];
        peal_on(lab, CONTROL_NODE, &init).status == Some(0)
    });
    nats
}

/// Probes of what Slurm carries for nobody. That of the session comes last: later jobs of the user hear its event, too.
const CLUSTER: [ProbeCase; 5] = [
    ProbeCase {
        probe: "event namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
    ProbeCase {
        probe: "late namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
    ProbeCase {
        probe: "group",
        outcome: ProbeOutcome::Completes(&[RankLine::of_ranks(0, 7, "construct SUCCESS")]),
    },
    ProbeCase {
        probe: "publish",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "publish SUCCESS"),
            RankLine::of(7, "lookup SUCCESS"),
        ]),
    },
    ProbeCase {
        probe: "event session all FILE",
        outcome: HEARD_BY_ALL,
    },
];

/// Event that all ranks hear once.
const HEARD_BY_ALL: ProbeOutcome = ProbeOutcome::Completes(&[
    RankLine::of(0, "notify SUCCESS"),
    RankLine::of_ranks(0, 7, "heard 1"),
]);

#[needs(slurm_lab, nats)]
#[test]
fn what_slurm_does_not_carry_reaches_other_nodes() {
    let lab = ClusterLab::start("");
    check_probes_on(NODES, &lab.slurm, &CLUSTER);
}
