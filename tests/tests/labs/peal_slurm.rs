//! Jobs under Slurm whose servers are Peal's: the library is in the place of the installed one, and Slurm is unchanged.
use super::slurm::check_hello;
use peal_needs::needs;
use peal_tests::{
    Done, guest,
    labs::{
        CONTROL_NODE, ClientLibrary, ExpectedExit, LabLibraries, NodeMount, PROBE_NODES, ProbeCase,
        ProbeOutcome, RankLine, ServerLibrary, SlurmLab, SlurmSettings, all_is_tried, check_probes,
        lab_setup, run_in_lab,
    },
    program, provided, root, run, until,
};
use std::{
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

/// Configuration of the servers on a node.
const CONFIG: &str = "/etc/peal/peal.toml";

/// Place of the command on nodes, where the library looks for it.
const COMMAND: &str = "/usr/bin/peal";

/// Probes of Peal's library: Slurm offers fences, direct modex and abort, and Peal answers the rest for the node.
const PEAL: [ProbeCase; 9] = [
    // With the installed library each of these ends the job.
    ProbeCase {
        probe: "event local 0,1 FILE",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "notify SUCCESS"),
            RankLine::of_ranks(0, 1, "heard 1"),
            RankLine::of_ranks(2, 5, "heard 0"),
        ]),
    },
    ProbeCase {
        probe: "event namespace 0,1 FILE",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "notify SUCCESS"),
            RankLine::of_ranks(0, 1, "heard 1"),
            RankLine::of_ranks(2, 5, "heard 0"),
        ]),
    },
    ProbeCase {
        probe: "event session 0,1 FILE",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "notify SUCCESS"),
            RankLine::of_ranks(0, 1, "heard 1"),
            RankLine::of_ranks(2, 5, "heard 0"),
        ]),
    },
    ProbeCase {
        probe: "late namespace 0,1 FILE",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "notify SUCCESS"),
            RankLine::of_ranks(0, 1, "heard 1"),
            RankLine::of_ranks(2, 5, "heard 0"),
        ]),
    },
    // Its members are on three nodes.
    ProbeCase {
        probe: "group",
        outcome: ProbeOutcome::Completes(&[RankLine::of_ranks(0, 5, "construct NOT-SUPPORTED")]),
    },
    // The data are those of the node, and rank 5 is on another one.
    ProbeCase {
        probe: "publish",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "publish SUCCESS"),
            RankLine::of(5, "lookup NOT-FOUND"),
        ]),
    },
    ProbeCase {
        probe: "query",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "query SUCCESS")]),
    },
    // With the installed library no rank is held in a tree of this width.
    ProbeCase {
        probe: "barrier FILE held",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
            RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
            RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
        ]),
    },
    ProbeCase {
        probe: "abort",
        outcome: ProbeOutcome::IsEnded(ExpectedExit::Status(7)),
    },
];

/// Directory with Peal's library.
fn libraries() -> PathBuf {
    let directory = root().join("target/libpmix/lib");
    provided(directory.join("libpmix.so.2"));
    directory
}

/// Returns Peal's library for Slurm's servers, with this library for programs.
fn peal_servers(client: ClientLibrary) -> LabLibraries {
    LabLibraries {
        server: ServerLibrary::File(libraries().join("libpmix.so.2")),
        client,
    }
}

/// Starts Slurm on nodes that have Peal's library, its command, and this configuration.
fn start(nodes: u32, libraries: &LabLibraries, config: &Path) -> SlurmLab {
    let file = |source: &Path, target: &str| NodeMount {
        node: None,
        source: source.to_owned(),
        target: target.into(),
    };
    let setup = lab_setup(nodes, libraries)
        .mount(file(&program("peal"), COMMAND))
        .mount(file(config, CONFIG));
    SlurmLab::start(setup, &SlurmSettings::default()).unwrap()
}

/// Configuration in a file of its own.
struct Configuration {
    directory: tempfile::TempDir,
}

impl Configuration {
    fn new(text: &str) -> Configuration {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("peal.toml"), text).unwrap();
        Configuration { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("peal.toml")
    }
}

/// `peal serve` on each node but the launcher's. They end with their nodes.
struct Daemons {
    _servers: Vec<Child>,
}

impl Daemons {
    fn start(lab: &SlurmLab) -> Daemons {
        let nodes = lab.lab.nodes().filter(|node| node.name() != CONTROL_NODE);
        let servers = nodes.map(|node| {
            let mut command = node.command(COMMAND);
            command
                .args(["serve", "--config", CONFIG])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let server = command.spawn().unwrap();
            until("the node's server listens", || {
                node.path("/run/peal/hosts.sock").exists()
            });
            server
        });
        Daemons {
            _servers: servers.collect(),
        }
    }
}

/// Runs `peal` on a node.
fn peal_on(lab: &SlurmLab, node: &str, args: &[&str]) -> Done {
    run(lab.lab.node(node).unwrap().command(COMMAND).args(args))
}

#[needs(slurm_lab)]
#[test]
fn procs_on_three_nodes_use_servers_that_slurm_starts() {
    let config = Configuration::new("");
    let lab = start(3, &peal_servers(ClientLibrary::Stock), &config.path());
    check_hello(&lab, 3, 2);
    // Nothing of them is left when the job has ended.
    lab.wait_for_end_of_jobs().unwrap();
    for node in lab.lab.nodes() {
        let left = run(node
            .command("sh")
            .args(["-c", "ls /run/peal 2>/dev/null; pgrep -x peal"]));
        assert_eq!(left.stdout, "", "{}", node.name());
    }
}

#[needs(slurm_lab)]
#[test]
fn ranks_on_both_libraries_run_under_slurm() {
    let config = Configuration::new("");
    for client in [
        ClientLibrary::Directory(libraries()),
        ClientLibrary::DirectoryOnOddRanks(libraries()),
    ] {
        let lab = start(2, &peal_servers(client), &config.path());
        check_hello(&lab, 2, 2);
    }
}

#[needs(slurm_lab, mpirun_lab)]
#[test]
fn mpi_programs_run_under_slurm_on_peal() {
    let config = Configuration::new("");
    let lab = start(3, &peal_servers(ClientLibrary::Stock), &config.path());
    super::mpirun::check_mpi_programs(&lab);
}

#[needs(slurm_lab)]
#[test]
fn peal_under_slurm_serves_more_than_the_stock_library() {
    let config = Configuration::new("");
    let lab = start(
        PROBE_NODES,
        &peal_servers(ClientLibrary::Stock),
        &config.path(),
    );
    check_probes(&lab, &PEAL);
}

#[needs(slurm_lab)]
#[test]
fn server_of_the_node_serves_the_jobs_of_slurm() {
    let config = Configuration::new("[hosts]\nsocket = \"/run/peal/hosts.sock\"\n");
    let lab = start(
        PROBE_NODES,
        &peal_servers(ClientLibrary::Stock),
        &config.path(),
    );
    let _daemons = Daemons::start(&lab);
    check_hello(&lab, PROBE_NODES, 2);
    if all_is_tried() {
        check_probes(&lab, &PEAL);
    }
    lab.wait_for_end_of_jobs().unwrap();
    // The server goes on, and the job is gone.
    let jobs = peal_on(&lab, "n1", &["job", "list", "--json"]).expect_status(0);
    assert_eq!(jobs.stdout.trim(), "[]");
}

#[needs(slurm_lab)]
#[test]
fn peer_of_a_killed_rank_hears_of_it_before_slurm_ends_the_job() {
    let config = Configuration::new("");
    let libraries = peal_servers(ClientLibrary::Stock);
    let lab = start(PROBE_NODES, &libraries, &config.path());
    let done = run_in_lab(&lab, 2, "probe_pmix lost");
    assert_ne!(done.status, Some(0), "{}", done.stdout);
    // The last rank is on the third node, with this one.
    let heard = "rank 4: heard PROC TERMINATED WITHOUT SYNC";
    assert!(done.stdout.contains(heard), "{}\n{}", done.stdout, done.stderr);
}

#[needs(slurm_lab)]
#[test]
fn policy_of_the_site_denies_events_under_slurm() {
    let policy = guest("namespace-only");
    let config = format!("[[module]]\nname = \"namespace-only\"\npath = {policy:?}\n");
    let config = Configuration::new(&config);
    let libraries = peal_servers(ClientLibrary::Stock);
    let lab = start(1, &libraries, &config.path());
    let denied = run_in_lab(&lab, 2, "probe_pmix event global none /run/lab/shared/denied");
    let granted = run_in_lab(&lab, 2, "probe_pmix event namespace all /run/lab/shared/granted");
    let heard = |done: &Done, line: &str| {
        let context = format!("{}\n{}\n{}", done.stdout, done.stderr, lab.log("n1").unwrap());
        assert!(done.stdout.contains(line), "{context}");
    };
    heard(&denied, "rank 1: heard 0");
    heard(&granted, "rank 1: heard 1");
}
