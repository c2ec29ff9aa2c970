//! `cargo xtask bench`: measures Peal beside the C library and bare wasmtime, in the same run on
//! the same machine. `docs/src/reference/benchmarks.md` explains the output.
mod arm;
mod attacking;
mod cluster;
mod compare;
mod counts;
mod crowd;
mod instructions;
mod launch;
mod launchers;
mod machine;
mod memory;
mod module_costs;
mod nodes;
mod observed;
mod plan;
mod processes;
mod programs;
mod registering;
mod report;
mod samples;
mod served;
mod siege;
mod start;
mod turns;

use anyhow::Result;
use clap::ValueEnum;
use compare::BaseCommit;
pub use counts::Count;
use plan::{Peers, Plan, Size};
use programs::Programs;
use samples::Samples;
use std::{
    fs,
    io::IsTerminal,
    path::{Path, PathBuf},
    time::Instant,
};

const LONG_HELP: &str = "\
Each number is compared with that of a peer, measured in the same run: the C library (libpmix, as client and as server), \
bare wasmtime, or a launcher of Open MPI. Their ratio is the result. Everything is measured once in each of several rounds, so \
that a busy machine causes a wide spread. Builds its programs first; the first time that takes some minutes.";

const EXAMPLES: &str = "\
Examples:
  cargo xtask bench                      everything; keep the machine quiet meanwhile
  cargo xtask bench --quick chain step   a first look at the chains, in seconds
  cargo xtask bench fence --rounds 9     more rounds where the spread is wide
  cargo xtask bench --compare HEAD~3 fence chain    the same of another commit, by turns: did a row move?
  cargo xtask bench --json bench.json    write JSON, too (format: docs/src/reference/benchmarks.md)

A row that misses its bound shows \"fail\"; the command succeeds in any case.
Without libpmix, the measurements that need it are left out, and listed.";

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(about = "Measure Peal beside the C library and bare wasmtime", long_about = LONG_HELP, after_help = EXAMPLES)]
pub struct Bench {
    /// Measure only these groups; the default is all
    #[arg(value_enum, value_name = "GROUP")]
    groups: Vec<Group>,
    /// Write the results to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Use fewer rounds and repetitions: a check that it works, not of the speed
    #[arg(long)]
    quick: bool,
    /// Measure this commit, too, by turns with the present files, and name the rows that have moved. The first time
    /// builds it, for some minutes
    #[arg(long, value_name = "COMMIT")]
    compare: Option<String>,
    /// Set the number of rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// Group of measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Group {
    /// An event through a chain of handlers that do nothing
    Chain,
    /// A handler that reads one info and pushes one result
    Step,
    /// Modules: the first call after a start and the memory of an instance, by language; start and memory of a server
    /// with many; only as root
    Modules,
    /// An event from one client to another past one and eight policies, beside none
    Policies,
    /// Events and fences at a server that looks for more work before it sleeps, beside one that does not
    Spin,
    /// An event from one client to another, one way
    Latency,
    /// An event from one client to another and an answer
    Pingpong,
    /// As many events as possible from one client to another
    Flood,
    /// An event from one client to another while a third one floods the server
    UnderFlood,
    /// An event from one client to another while a hosted handler exceeds its limits again and
    /// again
    UnderLimitHits,
    /// An event from one client to another past a policy, beside a shadow that spins
    BesideShadow,
    /// An event from one client to another past a policy or behind handlers, with an audit trail
    /// and without
    Audit,
    /// An event through handlers while a browser shows the console, or a collector takes traces
    Observed,
    /// An event from one client to many
    Fanout,
    /// A fence of all procs of a job
    Fence,
    /// A group of all procs of a job, formed and destructed
    #[value(name = "group")]
    Groups,
    /// Jobs of 64 to 1,024 procs: until all have initialized, fences, groups, events and queries, a killed proc, the
    /// end; and the server's processor time and instructions for a proc
    Scale,
    /// A line that a client logs, through a channel component and by the launcher
    Log,
    /// Heartbeats: the rate, and the cost of many clients that send one a second each
    Monitor,
    /// One C program on Peal's libpmix and server, and on the C library's
    Libpmix,
    /// The memory of the server per connected client
    Memory,
    /// Cost of the trace, beside a server without it
    Trace,
    /// The work of a user while another one attacks the server; only as root
    Attack,
    /// The work of a user while another one attacks a supervised server in all ways at once; only as root
    Siege,
    /// Start and memory of a server with all its processes, and an event through handlers of a user in
    /// a process of their own; only as root
    Processes,
    /// A job that is registered while large components of a user are compiled
    Register,
    /// An MPI program that says hello, from the start of its launcher to the end
    Start,
    /// Programs under Slurm and mpirun on several nodes with Peal's library, from start to end, and
    /// fences over the nodes; only as root
    Launchers,
    /// An event to another node and a fence over nodes, under Slurm with servers that meet on NATS; only as root
    Nodes,
    /// A cluster of a thousand servers on one NATS server: the join of all, an event to all
    Cluster,
}

impl Bench {
    /// Builds the programs, measures, and prints the results.
    pub fn run(&self, root: &Path) -> Result<()> {
        let groups = if self.groups.is_empty() {
            Group::value_variants()
        } else {
            &self.groups
        };
        // Before anything is built.
        let base = self.compare.as_deref();
        let base = base.map(|name| compare::commit(root, name)).transpose()?;
        let programs = programs::build(root, groups)?;
        let base = base
            .map(|commit| BaseCommit::build(root, &commit, &programs))
            .transpose()?;
        let size = if self.quick { Size::Quick } else { Size::Full };
        let plan = Plan::new(groups, size, &Peers::find(root, groups, &programs));
        let rounds = self.rounds.unwrap_or(if self.quick { 2 } else { 5 });
        let before = machine::load();
        let both: Vec<&Programs> = [&programs]
            .into_iter()
            .chain(base.as_ref().map(|base| &base.programs))
            .collect();
        let mut measured = measure(&plan, &both, rounds).into_iter();
        let samples = measured.next().unwrap_or_default();
        let machine = machine::describe(root, &programs, [before, machine::load()]);
        report::print(&plan, &samples, &machine);
        if let Some((base, of_base)) = base.as_ref().zip(measured.next()) {
            base.print(&plan, &of_base, &samples);
        }
        if let Some(file) = &self.json {
            let json = report::json(&plan, &samples, &machine, rounds, self.quick);
            fs::write(file, format!("{json:#}\n"))?;
            eprintln!("wrote {}", file.display());
        }
        Ok(())
    }
}

/// Measures every arm once a round with each of the programs. Every other round goes from the last to the first, so
/// that a machine that slows down affects all of them. Returns the samples of each of the programs.
fn measure(plan: &Plan, programs: &[&Programs], rounds: u32) -> Vec<Samples> {
    let mut samples: Vec<Samples> = programs.iter().map(|_| Samples::default()).collect();
    let on_terminal = std::io::stderr().is_terminal();
    for round in 0..rounds {
        let start = Instant::now();
        let arms = plan.arms.iter();
        let mut order: Vec<(&arm::Arm, usize)> = arms
            .flat_map(|arm| (0..programs.len()).map(move |of| (arm, of)))
            .collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (at, (arm, of)) in order.iter().enumerate() {
            if on_terminal {
                eprint!(
                    "\r\x1b[Kround {} of {rounds}: {} of {}, {}",
                    round + 1,
                    at + 1,
                    order.len(),
                    arm.names.join(", ")
                );
            }
            let (Some(programs), Some(samples)) = (programs.get(*of), samples.get_mut(*of)) else {
                continue;
            };
            match arm.measure(programs) {
                Ok(measured) => arm
                    .names
                    .iter()
                    .zip(measured)
                    .for_each(|(name, values)| samples.add(name, values)),
                Err(error) => arm
                    .names
                    .iter()
                    .for_each(|name| samples.fail(name, &format!("{error:#}"))),
            }
        }
        samples.iter_mut().for_each(Samples::end_round);
        let line_start = if on_terminal { "\r\x1b[K" } else { "" };
        eprintln!(
            "{line_start}round {} of {rounds}: {:.1} s",
            round + 1,
            start.elapsed().as_secs_f32()
        );
    }
    samples
}
