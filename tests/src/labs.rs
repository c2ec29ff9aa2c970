//! Labs with Slurm and with `mpirun`, and probes of what their PMIx servers do with each library.
use crate::{Done, c_program, c_programs, root, run_within, test_servers};
pub use peal_labs::{
    COMMAND, CONFIG, CONTROL_NODE, ClientLibrary, ClusterOptions, ClusterPrograms, Lab,
    LabLibraries, LabNode, LabSetup, MpirunLab, NodeMount, ServerLibrary, SlurmCluster, SlurmLab,
    SlurmSettings, wait_until,
};
use std::{path::PathBuf, process::Command, time::Duration};

/// Time limit of a job in a lab. Slurm itself waits for ten minutes for a step that dies at its
/// start.
pub const JOB_LIMIT: Duration = Duration::from_secs(60);

/// Directory of the labs that all nodes share.
const SHARED: &str = "/run/lab/shared";

/// Returns true if tests that take longer run, too (`cargo xtask labs test`).
pub fn all_is_tried() -> bool {
    std::env::var_os("PEAL_LABS_WHOLE").is_some()
}

/// Returns the description of a lab in which the programs of this workspace are visible, for tests
/// with `#[needs(slurm_lab)]` or `#[needs(mpirun_lab)]`.
pub fn lab_setup(nodes: u32, libraries: &LabLibraries) -> LabSetup {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).expect("tests lie in target/*/deps");
    LabSetup::new(nodes)
        .with_libraries(libraries.clone())
        .with_packages(test_servers().join("slurm"))
        .share(root())
        .share(c_programs())
        .share(test_servers())
        .share(built)
}

/// Returns the path of a C program of the labs.
#[track_caller]
pub fn lab_program(name: &str) -> PathBuf {
    c_program(&format!("labs/{name}"))
}

/// Launcher of a lab on which the same jobs run.
pub trait ProbedLab {
    /// Returns the command of a job with this number of procs on each node.
    fn job(&self, procs_per_node: u32, program: &[String]) -> Command;

    /// Waits until the job that ended last has left the nodes.
    fn wait_for_end_of_jobs(&self);

    /// Returns the logs of the launcher, to be shown after a failure.
    fn logs(&self) -> String;
}

impl ProbedLab for SlurmLab {
    fn job(&self, procs_per_node: u32, program: &[String]) -> Command {
        let nodes = self.lab.nodes().count() - 1;
        let options = [
            format!("--nodes={nodes}"),
            format!("--ntasks-per-node={procs_per_node}"),
        ];
        self.srun(options, program).unwrap()
    }

    fn wait_for_end_of_jobs(&self) {
        SlurmLab::wait_for_end_of_jobs(self).unwrap();
    }

    fn logs(&self) -> String {
        let nodes = self.lab.nodes().map(|node| {
            let log = self.log(node.name()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(20)..];
            format!("{}:\n{}\n", node.name(), end.join("\n"))
        });
        nodes.collect()
    }
}

impl ProbedLab for MpirunLab {
    fn job(&self, procs_per_node: u32, program: &[String]) -> Command {
        let map = format!("ppr:{procs_per_node}:node");
        self.mpirun(["--map-by", map.as_str()], program).unwrap()
    }

    fn wait_for_end_of_jobs(&self) {}

    fn logs(&self) -> String {
        String::new()
    }
}

/// Runs a program of the labs with this number of procs on each node.
#[track_caller]
pub fn run_in_lab(lab: &impl ProbedLab, procs_per_node: u32, words: &str) -> Done {
    let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    words[0] = lab_program(&words[0]).display().to_string();
    run_within(JOB_LIMIT, &mut lab.job(procs_per_node, &words))
}

/// Line that some ranks print.
#[derive(Clone, Copy, Debug)]
pub struct RankLine {
    first: u32,
    last: u32,
    text: &'static str,
}

impl RankLine {
    /// Returns a line of this rank.
    pub const fn of(rank: u32, text: &'static str) -> RankLine {
        RankLine::of_ranks(rank, rank, text)
    }

    /// Returns a line of each rank from the first to the last.
    pub const fn of_ranks(first: u32, last: u32, text: &'static str) -> RankLine {
        RankLine { first, last, text }
    }
}

/// Expected end of a probe.
#[derive(Clone, Copy, Debug)]
pub enum ProbeOutcome {
    /// The job succeeds. Its ranks print these lines, and that `PMIx_Finalize` succeeded.
    Completes(&'static [RankLine]),
    /// The launcher ends the job. No rank gets to `PMIx_Finalize`, and no rank waits in vain for
    /// its end.
    IsEnded(ExpectedExit),
}

/// Exit status of a launcher that ended a job.
#[derive(Clone, Copy, Debug)]
pub enum ExpectedExit {
    /// Any status but zero.
    Failure,
    /// This status.
    Status(i32),
}

/// Run of `tests/labs/c/probe_pmix.c` with two procs on each node.
#[derive(Clone, Copy, Debug)]
pub struct ProbeCase {
    /// Arguments. In them, `FILE` stands for a path that all nodes share.
    pub probe: &'static str,
    /// Expected end.
    pub outcome: ProbeOutcome,
}

/// Number of nodes of a lab for probes.
pub const PROBE_NODES: u32 = 3;

/// Procs on each node.
const PROCS_PER_NODE: u32 = 2;

/// Runs probes in a lab of [`PROBE_NODES`] nodes, and compares each with its expected end.
#[track_caller]
pub fn check_probes(lab: &impl ProbedLab, cases: &[ProbeCase]) {
    check_probes_on(PROBE_NODES, lab, cases);
}

/// Runs probes in a lab of this number of nodes, and compares each with its expected end.
#[track_caller]
pub fn check_probes_on(nodes: u32, lab: &impl ProbedLab, cases: &[ProbeCase]) {
    for (number, case) in cases.iter().enumerate() {
        let file = format!("{SHARED}/probe-{number}");
        let words = format!("probe_pmix {}", case.probe.replace("FILE", &file));
        let done = run_in_lab(lab, PROCS_PER_NODE, &words);
        let mut lines = done.by_rank();
        let context = format!(
            "{words}: status {:?}, {lines:#?}\n{}\n{}",
            done.status,
            done.stderr,
            lab.logs()
        );
        match case.outcome {
            ProbeOutcome::Completes(expected) => {
                let ends = [RankLine::of_ranks(
                    0,
                    nodes * PROCS_PER_NODE - 1,
                    "finalize SUCCESS",
                )];
                let mut expected: Vec<String> = expected
                    .iter()
                    .chain(&ends)
                    .flat_map(|line| {
                        (line.first..=line.last).map(|rank| format!("rank {rank}: {}", line.text))
                    })
                    .collect();
                expected.sort();
                lines.sort();
                assert_eq!(done.status, Some(0), "{context}");
                assert_eq!(lines, expected, "{context}");
            }
            ProbeOutcome::IsEnded(exit) => {
                match exit {
                    ExpectedExit::Failure => assert_ne!(done.status, Some(0), "{context}"),
                    ExpectedExit::Status(status) => {
                        assert_eq!(done.status, Some(status), "{context}")
                    }
                }
                let unexpected = ["finalize", "not ended"];
                assert!(
                    !lines
                        .iter()
                        .any(|line| unexpected.iter().any(|end| line.contains(end))),
                    "{context}"
                );
            }
        }
        lab.wait_for_end_of_jobs();
    }
}

/// Asserts that a probe's ranks have loaded these files: their own library, and that of the
/// launcher's server.
#[track_caller]
pub fn check_libraries(lab: &impl ProbedLab, own: &str, servers: &str) {
    let done = run_in_lab(lab, 1, "probe_pmix libraries").expect_status(0);
    for (what, path) in [("own", own), ("parent's", servers)] {
        let expected = format!(": {what} {path}");
        let lines = done.stdout.lines().filter(|line| line.ends_with(&expected));
        let nodes = done
            .stdout
            .lines()
            .filter(|line| line.contains(": own "))
            .count();
        assert!(nodes > 0, "{}", done.stdout);
        assert_eq!(lines.count(), nodes, "{expected}\n{}", done.stdout);
    }
}
