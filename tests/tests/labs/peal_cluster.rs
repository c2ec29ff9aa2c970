//! Jobs of Slurm on nodes whose servers meet on NATS: what Slurm does not carry between nodes reaches the other nodes.
use super::{
    peal_nodes::{
        Configuration, Daemons, WaitingJob, nodes_of, peal_on, peal_servers, peal_setup, processes,
        signal,
    },
    peal_slurm_site::{SYSLOG, start_syslog},
};
use peal_needs::needs;
use peal_tests::{
    Done, c_program, guest,
    labs::{
        CONTROL_NODE, ClientLibrary, JOB_LIMIT, LabNode, NodeMount, ProbeCase, ProbeOutcome,
        ProbedLab, RankLine, SlurmLab, SlurmSettings, check_probes_on,
    },
    nats_site::{SiteFiles, nats_server},
    peal, program, run, run_within, until,
};
use serde_json::Value;
use std::process::{Child, Stdio};

/// Number of nodes with servers.
const NODES: u32 = 4;

/// Node that writes to syslog for the others.
const GATEWAY: &str = "n4";

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
        ClusterLab::with_modules(text, |_| {})
    }

    /// Does the same, after something was installed on the nodes. The last one is the gateway of the others.
    fn with_modules(text: &str, install: impl Fn(&LabNode)) -> ClusterLab {
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
        nodes_of(&slurm).for_each(install);
        let daemons = Daemons::start_with(&slurm, gateway);
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

/// Returns the options of a node's server.
fn gateway(node: &LabNode) -> Vec<&'static str> {
    if node.name() == GATEWAY {
        vec!["--set", "server.gateway=true"]
    } else {
        Vec::new()
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

/// Shell commands of eight procs that form groups: `tests/c/group.c` and `invite.c`. No release of the C library here lets a proc call that
/// others add, so that one runs Peal's own client.
const GROUPS: [&str; 7] = [
    "exec group whole",
    "exec group part",
    "exec group several",
    "exec group leaves 5",
    "case $PMIX_RANK in 7) exec client bootstrap;; *) exec group bootstrap 7;; esac",
    "exec invite accept",
    "exec invite decline 6",
];

/// Returns the lines of eight procs of a program, by rank. A proc says how many others were before it in places.
fn lines_of(done: Done) -> Vec<String> {
    let mut lines = done.expect_status(0).by_rank();
    lines.sort();
    lines
}

#[needs(slurm_lab, nats)]
#[test]
fn groups_form_over_nodes_as_on_one() {
    let lab = ClusterLab::start("");
    for command in GROUPS {
        let mut command = command.replace(
            "exec client",
            &format!("exec {}", program("peal-grouped").display()),
        );
        for name in ["group", "invite"] {
            let path = c_program(name).display().to_string();
            command = command.replace(&format!("exec {name}"), &format!("exec {path}"));
        }
        let words = ["sh".to_owned(), "-c".to_owned(), command];
        let here = run(peal(["run", "-n", "8", "--"]).args(&words));
        let there = run_within(JOB_LIMIT, &mut lab.slurm.job(2, &words));
        assert_eq!(lines_of(there), lines_of(here), "{words:?}");
    }
}

#[needs(slurm_lab, nats)]
#[test]
fn death_of_a_proc_is_told_on_all_nodes() {
    let lab = ClusterLab::start("");
    let lab = &lab.slurm;
    let job = WaitingJob::listening(lab, "listening");
    // While Slurm's controller is stopped, nothing ends the job.
    let control = lab.lab.node(CONTROL_NODE).unwrap();
    let controller = &processes(control, "slurmctld")[0];
    signal(control, "STOP", controller);
    let n3 = lab.lab.node("n3").unwrap();
    signal(n3, "KILL", &processes(n3, "probe_pmix")[0]);
    let heard = |rank: u32| lab.lab.path(format!("shared/listening.{rank}.heard"));
    until("the procs of all nodes hear", || {
        let all = (0..2 * NODES).filter(|rank| heard(*rank).exists());
        all.count() == 7
    });
    signal(control, "CONT", controller);
    assert_ne!(job.end().status, Some(0));
}

#[needs(slurm_lab, nats, rsyslog)]
#[test]
fn gateway_logs_for_all_nodes_and_site_handler_runs_once() {
    let [report, syslog] = ["report", "syslog"].map(guest);
    let config = format!(
        "[audit]\npath = \"/var/lib/peal-audit.db\"\non_failure = \"deny\"\n\
         [[sink]]\nname = \"local-syslog\"\nsyslog.address = \"unix:/dev/log\"\n\
         [[module]]\nname = \"report\"\npath = {report:?}\ngrants = [\"logging\"]\n"
    );
    let channel = format!(
        "name = \"syslog\"\npath = {syslog:?}\nchannels = [\"local_syslog\", \"syslog\"]\n\
         sinks = [\"local-syslog\"]\ngrants = [\"sink\", \"clock\"]\nconfig = {{ local_format = \"rfc3164\" }}\n"
    );
    let lab = ClusterLab::with_modules(&config, |node| {
        if node.name() == GATEWAY {
            node.write("/etc/peal/modules.d/syslog.toml", &channel)
                .unwrap();
        }
    });
    let lab = &lab.slurm;
    let gateway = lab.lab.node(GATEWAY).unwrap();
    let _syslog = start_syslog(gateway);
    check_probes_on(NODES, lab, &LOGGING);
    let text = "slurm.pmix.1.0[0]: line\n";
    until("the line is in the syslog of the gateway", || {
        gateway.read(SYSLOG).is_ok_and(|log| log.contains(text))
    });
    // The event is handled at the server of rank 0, and at no other.
    let calls = |node: &LabNode| {
        let list = ["audit", "list", "-n", "0", "--module", "report"];
        let listed = peal_on(lab, node.name(), &list).expect_status(0).stdout;
        let of_probe = |line: &&str| line.contains("slurm.pmix.2.0") && line.contains("event ");
        listed.lines().filter(of_probe).count()
    };
    until("the event was handled", || {
        nodes_of(lab).map(calls).sum::<usize>() > 0
    });
    let calls: Vec<usize> = nodes_of(lab).map(calls).collect();
    assert_eq!(calls, [1, 0, 0, 0]);
}

/// Probes of a log request that a gateway writes, and of an event that a handler of the site gets.
const LOGGING: [ProbeCase; 2] = [
    ProbeCase {
        probe: "lines 1",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "log SUCCESS")]),
    },
    ProbeCase {
        probe: "event namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
];
