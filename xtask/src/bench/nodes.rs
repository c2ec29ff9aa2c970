//! Jobs of Slurm on nodes whose servers meet on NATS.
use super::{
    arm::Values,
    launch::{self, Scratch},
    launchers::FENCE,
    programs::Programs,
};
use crate::test_servers;
use anyhow::{Context, Result};
use peal_labs::{
    ClientLibrary, ClusterOptions, ClusterPrograms, LabLibraries, LabSetup, ServerLibrary,
    SlurmCluster,
};

/// Number of nodes.
pub const NODES: u32 = 4;

/// Job that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodesJob {
    /// Events to a rank of the same node and to one of another, and their answers. Two ranks on each of two nodes.
    Events { count: u32, warm: u32 },
    /// Fences that Slurm carries, and fences of the same ranks that the servers carry. Two ranks on each node.
    Fences { count: u32, warm: u32 },
}

/// Runs each job, and returns their values in their order.
pub fn measure(programs: &Programs, jobs: &[NodesJob]) -> Result<Vec<Values>> {
    let c = programs.c.as_ref().context("libpmix is not there")?;
    let library = c
        .peal_library
        .as_ref()
        .context("Peal's libpmix is not built")?;
    let libraries = LabLibraries {
        server: ServerLibrary::File(library.join("libpmix.so.2")),
        client: ClientLibrary::Stock,
    };
    let setup = LabSetup::new(NODES)
        .with_packages(&programs.slurm)
        .with_libraries(libraries)
        .share(&c.labs)
        .share(library)
        .share(&programs.test_servers);
    let cluster = ClusterPrograms {
        peal: programs.peal.clone(),
        nats_server: test_servers::nats_server(&programs.test_servers),
    };
    let lab = SlurmCluster::start(setup, &cluster, &ClusterOptions::default())?;
    let program = c.labs.join("cluster_pmix").display().to_string();
    let run = |job: &NodesJob| {
        let (nodes, name, count, warm) = match *job {
            NodesJob::Events { count, warm } => (2, "events", count, warm),
            NodesJob::Fences { count, warm } => (NODES, "fences", count, warm),
        };
        let options = [
            format!("--nodes={nodes}"),
            "--ntasks-per-node=2".to_owned(),
            "--distribution=block".to_owned(),
        ];
        let words = [
            program.clone(),
            name.to_owned(),
            count.to_string(),
            warm.to_string(),
        ];
        let mut command = lab.slurm.srun(options, words)?;
        let [variable, algorithm] = FENCE;
        command.env(variable, algorithm);
        let values = launch::values(&launch::finish(command, &Scratch::new()?)?)?;
        lab.slurm.wait_for_end_of_jobs()?;
        Ok(values)
    };
    jobs.iter().map(run).collect()
}
