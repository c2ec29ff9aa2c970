//! Jobs under Open MPI's `mpirun`, whose daemons run on Peal's servers: the library is in the place of the installed one.
use super::{
    mpirun::{check_mpi_programs, check_mpi4py_collectives},
    peal_nodes::{Configuration, libraries, peal_servers, peal_setup},
    probes::{ABORT, BARRIER, EXIT, LOCAL_EVENT, LOGS, LOST, PUBLISHED, QUERY},
    slurm::check_hello,
};
use peal_needs::needs;
use peal_tests::labs::{
    ClientLibrary, MpirunLab, PROBE_NODES, ProbeCase, ProbeOutcome, RankLine, all_is_tried,
    check_probes, run_in_lab,
};

/// Outcome of an event that all ranks hear, each once.
const HEARD_BY_ALL: ProbeOutcome = ProbeOutcome::Completes(&[
    RankLine::of(0, "notify SUCCESS"),
    RankLine::of_ranks(0, 5, "heard 1"),
]);

/// Probes of Peal's library under `mpirun`.
const PEAL: [ProbeCase; 8] = [
    LOCAL_EVENT,
    // With the installed library, the neighbor of the source on its node hears nothing.
    ProbeCase {
        probe: "event namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
    ProbeCase {
        probe: "event session all FILE",
        outcome: HEARD_BY_ALL,
    },
    ProbeCase {
        probe: "late namespace all FILE",
        outcome: HEARD_BY_ALL,
    },
    LOGS,
    PUBLISHED,
    QUERY,
    BARRIER,
];

/// More probes, for `cargo xtask labs test`.
const PEAL_LONG: [ProbeCase; 3] = [LOST, EXIT, ABORT];

fn start(nodes: u32, client: ClientLibrary) -> MpirunLab {
    let config = Configuration::new("");
    let setup = peal_setup(nodes, &peal_servers(client), &config.path());
    MpirunLab::start(setup).unwrap()
}

#[needs(mpirun_lab)]
#[test]
fn programs_run_under_mpirun_on_peal_with_both_libraries() {
    for client in [
        ClientLibrary::Stock,
        ClientLibrary::Directory(libraries()),
        ClientLibrary::DirectoryOnOddRanks(libraries()),
    ] {
        let lab = start(3, client);
        check_hello(&lab, 3, 2);
        check_mpi_programs(&lab);
    }
}

#[needs(mpirun_lab)]
#[test]
fn mpi_procs_start_others_under_mpirun_on_peal() {
    for client in [ClientLibrary::Stock, ClientLibrary::Directory(libraries())] {
        let lab = start(2, client);
        let done = run_in_lab(&lab, 1, "spawn_mpi").expect_status(0);
        let mut lines: Vec<&str> = done.stdout.lines().collect();
        lines.sort_unstable();
        // Two parents count 1 each, and four children 100 each.
        let children = (0..4).map(|rank| format!("child {rank}: of 4, sum 402"));
        let parents = (0..2).map(|rank| format!("rank {rank}: parent of 2, sum 402"));
        assert_eq!(lines, children.chain(parents).collect::<Vec<_>>());
    }
}

#[needs(mpirun_lab, mpi4py)]
#[test]
fn mpi4py_collectives_pass_under_mpirun_on_peal() {
    let libraries = libraries();
    let lab = start(2, ClientLibrary::Stock);
    check_mpi4py_collectives(&lab, None);
    if all_is_tried() {
        check_mpi4py_collectives(&lab, Some(&libraries));
    }
}

#[needs(mpirun_lab)]
#[test]
fn peal_under_mpirun_serves_events_data_and_logs() {
    let lab = start(PROBE_NODES, ClientLibrary::Stock);
    check_probes(&lab, &PEAL);
    if all_is_tried() {
        check_probes(&lab, &PEAL_LONG);
    }
}
