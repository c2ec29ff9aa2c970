//! Jobs under Slurm, on the installed `libpmix` on both sides.
use super::probes::{ABORT, EXIT, LOGS, LOST, NO_GROUPS};
use peal_needs::needs;
use peal_tests::labs::{
    ExpectedExit, LabLibraries, PROBE_NODES, ProbeCase, ProbeOutcome, ProbedLab, RankLine,
    SlurmLab, SlurmSettings, all_is_tried, check_probes, lab_setup, run_in_lab,
};

/// Probes of the installed library. An event that a program raises, or that the library raises after the death of a
/// rank, reaches Slurm's own handler, which ends the job.
const STOCK: [ProbeCase; 9] = [
    ProbeCase {
        probe: "event local ended FILE",
        outcome: ProbeOutcome::IsEnded(ExpectedExit::Failure),
    },
    ProbeCase {
        probe: "event custom none FILE",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "notify SUCCESS"),
            RankLine::of_ranks(0, 5, "heard 0"),
        ]),
    },
    LOGS,
    NO_GROUPS,
    ProbeCase {
        probe: "control",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "control NOT-SUPPORTED")]),
    },
    ProbeCase {
        probe: "publish",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of(0, "publish NOT-SUPPORTED"),
            RankLine::of(5, "lookup NOT-SUPPORTED"),
        ]),
    },
    ProbeCase {
        probe: "query",
        outcome: ProbeOutcome::Completes(&[RankLine::of(0, "query UNREACHABLE")]),
    },
    ABORT,
    ProbeCase {
        probe: "barrier FILE passed",
        outcome: ProbeOutcome::Completes(&[
            RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was not held"),
            RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was not held"),
            RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was not held"),
        ]),
    },
];

/// More probes, for `cargo xtask labs test`.
const STOCK_LONG: [ProbeCase; 5] = [
    ProbeCase {
        probe: "event namespace ended FILE",
        outcome: ProbeOutcome::IsEnded(ExpectedExit::Failure),
    },
    ProbeCase {
        probe: "event session ended FILE",
        outcome: ProbeOutcome::IsEnded(ExpectedExit::Failure),
    },
    ProbeCase {
        probe: "late namespace ended FILE",
        outcome: ProbeOutcome::IsEnded(ExpectedExit::Failure),
    },
    LOST,
    EXIT,
];

/// Probe with a tree in which the first node has others below it.
const NARROW_TREE: [ProbeCase; 1] = [ProbeCase {
    probe: "barrier FILE held",
    outcome: ProbeOutcome::Completes(&[
        RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
        RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
        RankLine::of_ranks(2, 5, "fence SUCCESS, rank 0 was held"),
    ]),
}];

fn stock(nodes: u32) -> SlurmLab {
    let setup = lab_setup(nodes, &LabLibraries::STOCK);
    SlurmLab::start(setup, &SlurmSettings::default()).unwrap()
}

/// Returns a lab in which fences without data wait for other nodes.
fn stock_in_narrow_tree(nodes: u32) -> SlurmLab {
    let settings = SlurmSettings {
        tree_width: 2,
        ..SlurmSettings::default()
    };
    SlurmLab::start(lab_setup(nodes, &LabLibraries::STOCK), &settings).unwrap()
}

/// Checks the output of `hello_pmix` with this number of procs on each of the nodes.
#[track_caller]
pub fn check_hello(lab: &impl ProbedLab, nodes: u32, procs_per_node: u32) {
    let done = run_in_lab(lab, procs_per_node, "hello_pmix").expect_status(0);
    let size = nodes * procs_per_node;
    let host = |rank: u32| format!("n{}", rank / procs_per_node + 1);
    let expected: Vec<String> = (0..size)
        .map(|rank| {
            let next = (rank + 1) % size;
            format!(
                "rank {rank}: of {size} on {}, rank {next} on {}",
                host(rank),
                host(next)
            )
        })
        .collect();
    assert_eq!(done.by_rank(), expected, "{}", lab.logs());
}

#[needs(slurm_lab)]
#[test]
fn procs_on_three_nodes_exchange_data_under_slurm() {
    check_hello(&stock(3), 3, 2);
}

#[needs(slurm_lab, mpirun_lab)]
#[test]
fn mpi_programs_run_on_three_nodes_under_slurm() {
    // With the wider tree, whose fences do not wait, 4 of 100 runs of `allreduce_mpi` crashed; with this one none.
    super::mpirun::check_mpi_programs(&stock_in_narrow_tree(3));
}

#[needs(slurm_lab)]
#[test]
fn stock_library_under_slurm_serves_the_modex_alone() {
    let lab = stock(PROBE_NODES);
    check_probes(&lab, &STOCK);
    if all_is_tried() {
        check_probes(&lab, &STOCK_LONG);
    }
}

#[needs(slurm_lab)]
#[test]
fn fences_without_data_wait_in_a_narrow_tree_of_slurm() {
    check_probes(&stock_in_narrow_tree(PROBE_NODES), &NARROW_TREE);
}

#[needs(slurm_lab)]
#[test]
fn killed_node_serves_again_after_restart() {
    if !all_is_tried() {
        return check_restart();
    }
    check_node_loss();
    check_restart();
}

/// Kills a node without a job, and starts it again.
fn check_restart() {
    let mut lab = stock(2);
    lab.restart_node("n2").unwrap();
    check_hello(&lab, 2, 1);
}

/// Kills a node with a job.
fn check_node_loss() {
    let settings = SlurmSettings {
        node_timeout: 10,
        ..SlurmSettings::default()
    };
    let mut lab = SlurmLab::start(lab_setup(3, &LabLibraries::STOCK), &settings).unwrap();
    let words = [super::placement::path_of("probe_pmix"), "hang".to_owned()];
    let job = lab
        .job(1, &words)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    peal_tests::until("the job runs on n2", || {
        let tasks = lab
            .lab
            .node("n2")
            .unwrap()
            .command("pgrep")
            .arg("probe_pmix")
            .output();
        tasks.unwrap().status.success()
    });
    lab.lab.kill_node("n2").unwrap();
    let done = peal_tests::finish(job);
    assert_ne!(done.status, Some(0), "{done:?}");
    lab.restart_node("n2").unwrap();
    check_hello(&lab, 3, 1);
}

/// Runs jobs one after the other on three nodes, and then one of many ranks.
#[track_caller]
pub fn check_jobs_and_ranks(lab: &SlurmLab) {
    let (jobs, procs_per_node) = if all_is_tried() { (100, 22) } else { (3, 8) };
    for _ in 0..jobs {
        check_hello(lab, 3, 1);
    }
    check_hello(lab, 3, procs_per_node);
}

#[needs(slurm_lab)]
#[test]
fn jobs_in_a_row_and_many_ranks_run_under_slurm() {
    check_jobs_and_ranks(&stock(3));
}
