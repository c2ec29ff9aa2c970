//! Jobs under Open MPI's `mpirun`, on the installed `libpmix` on both sides.
use super::probes::{ABORT, BARRIER, EXIT, LOCAL_EVENT, LOGS, LOST, NO_GROUPS, PUBLISHED};
use peal_needs::needs;
use peal_tests::labs::{
    LabLibraries, MpirunLab, PROBE_NODES, ProbeCase, ProbeOutcome, ProbedLab, RankLine,
    all_is_tried, check_probes, lab_setup, run_in_lab,
};

/// Probes of the installed library. After an event that leaves the node, fences and `PMIx_Finalize` hang, so that no probe here
/// raises one.
const STOCK: [ProbeCase; 7] = [
    LOCAL_EVENT,
    LOGS,
    NO_GROUPS,
    ProbeCase {
        probe: "control",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "control SUCCESS")]),
    },
    PUBLISHED,
    ProbeCase {
        probe: "query",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "query ERROR")]),
    },
    BARRIER,
];

/// More probes, for `cargo xtask labs test`.
const STOCK_LONG: [ProbeCase; 3] = [LOST, EXIT, ABORT];

fn stock(nodes: u32) -> MpirunLab {
    MpirunLab::start(lab_setup(nodes, &LabLibraries::STOCK)).unwrap()
}

/// Runs MPI programs with two procs on each of three nodes.
#[track_caller]
pub fn check_mpi_programs(lab: &impl ProbedLab) {
    let hello = run_in_lab(lab, 2, "hello_mpi").expect_status(0);
    let expected: Vec<String> = (0..6)
        .map(|rank| {
            format!(
                "rank {rank}: of 6 on n{}, {} on the left",
                rank / 2 + 1,
                (rank + 5) % 6
            )
        })
        .collect();
    assert_eq!(hello.by_rank(), expected, "{}", lab.logs());
    let ring = run_in_lab(lab, 2, "ring_mpi").expect_status(0);
    assert_eq!(ring.by_rank(), ["rank 0: ring of 6, token 150"]);
    let sums = run_in_lab(lab, 2, "allreduce_mpi").expect_status(0);
    let expected: Vec<String> = (0..6)
        .map(|rank| format!("rank {rank}: sum 15, 0 of the vector wrong"))
        .collect();
    assert_eq!(sums.by_rank(), expected);
}

#[needs(mpirun_lab)]
#[test]
fn mpi_programs_run_on_three_nodes_under_mpirun() {
    check_mpi_programs(&stock(3));
}

#[needs(mpirun_lab)]
#[test]
fn stock_library_under_mpirun_serves_all_but_groups() {
    let lab = stock(PROBE_NODES);
    check_probes(&lab, &STOCK);
    if all_is_tried() {
        check_probes(&lab, &STOCK_LONG);
    }
}
