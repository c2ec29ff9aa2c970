//! Jobs under Open MPI's `mpirun`, on the installed `libpmix` on both sides.
use super::probes::{ABORT, BARRIER, EXIT, LOCAL_EVENT, LOGS, LOST, NO_GROUPS, PUBLISHED};
use peal_needs::needs;
use peal_tests::{
    labs::{
        LabLibraries, MpirunLab, PROBE_NODES, ProbeCase, ProbeOutcome, ProbedLab, RankLine,
        all_is_tried, check_probes, lab_setup, run_in_lab,
    },
    mpi::{SUITE_LIMIT, counted, mpi4py},
    run_within,
};
use std::path::Path;

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

/// Runs the tests of mpi4py about collectives on two nodes, with programs on the library in this
/// directory or on the installed one. The short form takes some of them.
pub fn check_mpi4py_collectives(lab: &impl ProbedLab, library: Option<&Path>) {
    // Ranks wait by polling, so that more of them than cores take minutes.
    let (procs_per_node, modules, classes) = match all_is_tried() {
        true => (2, "test_cco_(obj|nb_buf)", "Test"),
        false => (1, "test_cco_obj", "World"),
    };
    let installed = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let directories = match library {
        Some(library) => format!("{}:{installed}", library.display()),
        None => installed,
    };
    let path = format!("LD_LIBRARY_PATH={directories}");
    let mut suite = mpi4py(modules);
    suite.extend(["-k".into(), classes.into()]);
    let suite = suite.iter().map(|word| word.display().to_string());
    let words: Vec<String> = ["env".to_owned(), path].into_iter().chain(suite).collect();
    let done = run_within(SUITE_LIMIT, &mut lab.job(procs_per_node, &words)).expect_status(0);
    // Each rank ran the same number of tests, and none failed.
    let counts = counted(&done);
    let ran = counts.iter().filter(|(what, _)| *what == "Ran ");
    assert_eq!(ran.count(), 1, "{counts:?}");
    let passed = done.stderr.matches("\nOK").count();
    assert_eq!(passed, 2 * procs_per_node as usize, "{}", done.stderr);
}
