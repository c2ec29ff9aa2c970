//! Jobs under Slurm whose servers are Peal's: the library is in the place of the installed one, and Slurm is unchanged.
use super::{
    peal_nodes::{Configuration, Daemons, libraries, nodes_of, peal_on, peal_servers, start},
    probes::{ABORT, BARRIER, HEARD_ON_NODE, LOCAL_EVENT, NO_GROUPS, QUERY},
    slurm::{check_hello, check_jobs_and_ranks},
};
use peal_needs::needs;
use peal_tests::{
    labs::{
        ClientLibrary, PROBE_NODES, ProbeCase, ProbeOutcome, RankLine, all_is_tried, check_probes,
    },
    run, until,
};

/// Probes of Peal's library: Slurm offers fences, direct modex and abort, and Peal answers the rest for the node.
const PEAL: [ProbeCase; 9] = [
    // With the installed library each of these ends the job.
    LOCAL_EVENT,
    ProbeCase {
        probe: "event namespace 0,1 FILE",
        outcome: HEARD_ON_NODE,
    },
    ProbeCase {
        probe: "event session 0,1 FILE",
        outcome: HEARD_ON_NODE,
    },
    ProbeCase {
        probe: "late namespace 0,1 FILE",
        outcome: HEARD_ON_NODE,
    },
    // Its members are on three nodes.
    NO_GROUPS,
    // The data are those of the node, and rank 5 is on another one.
    ProbeCase {
        probe: "publish",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "publish SUCCESS"),
            RankLine::of(5, "lookup NOT-FOUND"),
        ]),
    },
    QUERY,
    // With the installed library no rank is held in a tree of this width.
    BARRIER,
    ABORT,
];

#[needs(slurm_lab)]
#[test]
fn procs_on_three_nodes_use_servers_that_slurm_starts() {
    let config = Configuration::new("");
    let lab = start(3, &peal_servers(ClientLibrary::Stock), &config.path());
    check_hello(&lab, 3, 2);
    // Slurm's job may end some moments before the servers that its library has started.
    lab.wait_for_end_of_jobs().unwrap();
    for node in lab.lab.nodes() {
        let left = "find /run/peal /run/peal-launchers -mindepth 1; pgrep -x peal";
        until(
            &format!("nothing of them is left on {}", node.name()),
            || {
                let left = run(node.command("sh").args(["-c", left]));
                left.stdout.is_empty()
            },
        );
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
fn jobs_in_a_row_and_many_ranks_run_under_slurm_on_peal() {
    let config = Configuration::new("");
    let lab = start(3, &peal_servers(ClientLibrary::Stock), &config.path());
    check_jobs_and_ranks(&lab);
}

#[needs(slurm_lab, mpirun_lab, mpi4py)]
#[test]
fn mpi4py_collectives_pass_under_slurm_on_peal() {
    let config = Configuration::new("");
    let lab = start(2, &peal_servers(ClientLibrary::Stock), &config.path());
    super::mpirun::check_mpi4py_collectives(&lab, None);
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
    let config = Configuration::new(
        "[hosts]\nsocket = \"/run/peal/hosts.sock\"\n[sandbox]\ncache_dir = \"/run/peal-cache\"\n",
    );
    let lab = start(
        PROBE_NODES,
        &peal_servers(ClientLibrary::Stock),
        &config.path(),
    );
    // The servers run as this user.
    for node in nodes_of(&lab) {
        run(node.command("useradd").args(["--system", "peal"])).expect_status(0);
    }
    let _daemons = Daemons::start(&lab);
    check_hello(&lab, PROBE_NODES, 2);
    // Both procs of the node have connected to it, and the library that Slurm has loaded.
    let stats = peal_on(&lab, "n1", &["stats"]).expect_status(0).stdout;
    let connected = |line: &str| line.trim_start().starts_with("3  connections_accepted");
    assert!(stats.lines().any(connected), "{stats}");
    if all_is_tried() {
        check_probes(&lab, &PEAL);
    }
    lab.wait_for_end_of_jobs().unwrap();
    // The server goes on, and the job is gone.
    let jobs = peal_on(&lab, "n1", &["job", "list", "-o", "json"]).expect_status(0);
    assert_eq!(jobs.stdout.trim(), "[]");
    // Beside the directories of its user, Slurm's own servers have theirs.
    peal_on(&lab, "n2", &["stop", "--wait"]).expect_status(0);
    check_hello(&lab, PROBE_NODES, 2);
}
