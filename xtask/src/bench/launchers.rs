//! Jobs over several nodes under real Slurm and `mpirun` (`tests/labs`), whose PMIx servers are the
//! installed library or Peal's. The jobs of all sides alternate.
use super::{
    arm::Values,
    launch::{self, Scratch},
    programs::Programs,
    samples::Spread,
};
use anyhow::{Context, Result, ensure};
use peal_labs::{
    COMMAND, ClientLibrary, LabLauncher, LabLibraries, LabSetup, MpirunLab, NodeMount,
    ServerLibrary, SlurmLab, SlurmSettings,
};
use std::{process::Command, time::Instant};

/// Number of nodes.
pub const NODES: u32 = 3;

/// Number of procs on each node in a job of fences.
const PROCS_WITH_FENCES: u32 = 2;

/// Variable of the algorithm by which Slurm's plugin carries out fences, and its value. By itself
/// the plugin takes a tree for a fence without data, and with fewer nodes than `TreeWidth` (50)
/// such a fence waits for no other node on the installed library. Peal's library gives each fence a
/// byte, so that the plugin takes the ring, which waits for all. A fence that does not wait is no
/// peer: here it takes the ring on all sides.
pub const FENCE: [&str; 2] = ["SLURM_PMIX_FENCE", "ring"];

/// Libraries of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LauncherSide {
    /// Peal's in the launcher and in procs.
    Peal,
    /// Peal's in the launcher, the C library in procs.
    PealServers,
    /// The C library in both.
    C,
}

impl LauncherSide {
    /// All sides.
    pub const ALL: [LauncherSide; 3] = [
        LauncherSide::Peal,
        LauncherSide::PealServers,
        LauncherSide::C,
    ];

    /// Returns the name in names of arms.
    pub fn name(self) -> &'static str {
        match self {
            LauncherSide::Peal => "peal-libpmix",
            LauncherSide::PealServers => "peal",
            LauncherSide::C => "c",
        }
    }
}

/// Job that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LauncherJob {
    /// From the start of the launcher of a program that says hello to the launcher's end.
    Start { procs: u32 },
    /// Fences of procs on all nodes.
    Fences { count: u32, warm: u32 },
}

/// Lab of one side.
enum BenchLab {
    Slurm(SlurmLab),
    Mpirun(MpirunLab),
}

/// Runs the job on each side this number of times. Returns the median values of the sides in their
/// order.
pub fn measure(
    programs: &Programs,
    launcher: LabLauncher,
    job: LauncherJob,
    count: u32,
) -> Result<Vec<Values>> {
    let labs = LauncherSide::ALL
        .iter()
        .map(|side| BenchLab::start(programs, launcher, *side))
        .collect::<Result<Vec<_>>>()?;
    // The first job of a side is not measured: it reads files from the disk that are cached
    // afterwards.
    for lab in &labs {
        lab.run(programs, job)?;
    }
    let mut runs: Vec<Vec<Values>> = labs.iter().map(|_| Vec::new()).collect();
    for turn in 0..count as usize {
        let mut order: Vec<_> = labs.iter().zip(&mut runs).collect();
        order.rotate_left(turn % labs.len().max(1));
        for (lab, runs) in order {
            runs.push(lab.run(programs, job)?);
        }
    }
    runs.iter().map(|runs| medians(runs)).collect()
}

/// Returns the median of each value over several runs.
fn medians(runs: &[Values]) -> Result<Values> {
    let first = runs.first().context("no run")?;
    let median = |(name, _): &(String, f64)| -> Result<(String, f64)> {
        let of = |run: &Values| {
            run.iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| *value)
        };
        let spread = Spread::of(runs.iter().filter_map(of).collect());
        Ok((name.clone(), spread.context("no value")?.median))
    };
    first.iter().map(median).collect()
}

impl BenchLab {
    fn start(programs: &Programs, launcher: LabLauncher, side: LauncherSide) -> Result<BenchLab> {
        let c = programs.c.as_ref().context("libpmix is not there")?;
        let library = c
            .peal_library
            .as_ref()
            .context("Peal's libpmix is not built")?;
        let server = match side {
            LauncherSide::C => ServerLibrary::Stock,
            LauncherSide::Peal | LauncherSide::PealServers => {
                ServerLibrary::File(library.join("libpmix.so.2"))
            }
        };
        let client = match side {
            LauncherSide::Peal => ClientLibrary::Directory(library.clone()),
            LauncherSide::PealServers | LauncherSide::C => ClientLibrary::Stock,
        };
        let setup = LabSetup::new(NODES)
            .with_packages(&programs.slurm)
            .with_libraries(LabLibraries { server, client })
            .share(&c.labs)
            .share(library)
            .mount(NodeMount {
                node: None,
                source: programs.peal.clone(),
                target: COMMAND.into(),
            });
        Ok(match launcher {
            LabLauncher::Slurm => {
                BenchLab::Slurm(SlurmLab::start(setup, &SlurmSettings::default())?)
            }
            LabLauncher::Mpirun => BenchLab::Mpirun(MpirunLab::start(setup)?),
        })
    }

    /// Runs a job, and returns what it measured.
    fn run(&self, programs: &Programs, job: LauncherJob) -> Result<Values> {
        let labs = &programs.c.as_ref().context("libpmix is not there")?.labs;
        let program = |name: &str| labs.join(name).display().to_string();
        let values = match job {
            LauncherJob::Start { procs } => {
                let command = self.job(procs, [program(self.hello())])?;
                let began = Instant::now();
                let output = launch::finish(command, &Scratch::new()?)?;
                let ms = began.elapsed().as_secs_f64() * 1000.0;
                let greetings = output
                    .lines()
                    .filter(|line| line.starts_with("rank "))
                    .count();
                ensure!(
                    usize::try_from(procs).ok() == Some(greetings),
                    "{greetings} of {procs} procs said hello: {output:?}"
                );
                vec![("ms".to_owned(), ms)]
            }
            LauncherJob::Fences { count, warm } => {
                let words = [program("fence_pmix"), count.to_string(), warm.to_string()];
                let mut command = self.job(NODES * PROCS_WITH_FENCES, words)?;
                let [variable, algorithm] = FENCE;
                command.env(variable, algorithm);
                launch::values(&launch::finish(command, &Scratch::new()?)?)?
            }
        };
        if let BenchLab::Slurm(slurm) = self {
            // What is left of a job must not disturb that of another side.
            slurm.wait_for_end_of_jobs()?;
        }
        Ok(values)
    }

    /// Returns the program that says hello. Ranks of Open MPI that wait yield their processor under
    /// its own launcher alone: with more ranks than processors, `srun` would measure how long they
    /// spin.
    fn hello(&self) -> &'static str {
        match self {
            BenchLab::Slurm(_) => "hello_pmix",
            BenchLab::Mpirun(_) => "hello_mpi",
        }
    }

    /// Returns the command of a job whose procs are spread over all nodes.
    fn job<const WORDS: usize>(&self, procs: u32, program: [String; WORDS]) -> Result<Command> {
        let procs = procs.to_string();
        match self {
            BenchLab::Slurm(slurm) => {
                let nodes = NODES.to_string();
                // By itself Slurm fills the first node.
                let spread = "--distribution=cyclic";
                slurm.srun(["-N", &nodes, "-n", &procs, spread], program)
            }
            BenchLab::Mpirun(mpirun) => mpirun.mpirun(["-n", &procs, "--map-by", "node"], program),
        }
    }
}
