//! One thing that is measured: which program under which server, and what comes out of it.
use super::{
    attacking::{self, Attack, VictimWork},
    launch::{self, Scratch},
    memory,
    programs::Programs,
    registering::{self, Installed},
    start, turns,
};
use crate::mpi::Release;
use anyhow::{Context, Result};
use std::{fs, path::PathBuf, process::Command};

/// What was measured: a name (`us`, `per_s`, ...) and a number.
pub type Values = Vec<(String, f64)>;

/// What is measured once a round.
pub struct Arm {
    /// As in the results: `latency.peal`. Several where the work is several jobs that measure by turns.
    pub names: Vec<String>,
    /// What is done.
    pub work: MeasuredWork,
}

/// What is done to measure.
pub enum MeasuredWork {
    /// A chain in one process.
    Chain {
        component: &'static str,
        by: &'static str,
        handlers: u32,
        modules: u32,
        code: &'static str,
        count: u32,
        warm: u32,
    },
    /// A job whose procs measure.
    Job(JobMeasurement),
    /// Several that do so by turns.
    Turns(Vec<JobMeasurement>),
    /// Messages through three threads that do nothing else.
    Relay { count: u32, warm: u32 },
    /// The growth of the server's memory from few clients to many.
    Growth { side: Side, few: u32, many: u32 },
    /// The work of a victim, beside an attack or without one.
    Victim {
        work: VictimWork,
        attack: Option<Attack>,
        count: u32,
    },
    /// Registrations of jobs.
    Register { installed: Installed, count: u32 },
    /// Starts of an MPI program.
    Start {
        launcher: start::Launcher,
        release: Release,
        procs: u32,
        count: u32,
    },
}

/// Procs that measure, and the server they run under.
pub struct JobMeasurement {
    /// Which server, and which client.
    pub side: Side,
    /// How many.
    pub procs: u32,
    /// What they do.
    pub mode: &'static str,
    /// How often.
    pub count: u32,
    /// How often before.
    pub warm: u32,
    /// Handlers of a chain, events that may be unacknowledged, or turns.
    pub extra: u32,
    /// What Peal's server hosts.
    pub hosts: Hosts,
}

/// What a server hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// Nothing.
    Nothing,
    /// A handler that does harm.
    Bomb,
    /// A policy that everybody who raises an event waits for.
    Policy,
    /// The same, and a shadow that never comes to an end.
    PolicyAndShadow,
    /// A policy, all of whose calls and decisions are recorded before anybody is told.
    PolicyRecorded,
    /// Eight handlers, of which the last answers.
    Handlers,
    /// The same, each call recorded.
    HandlersRecorded,
    /// The channels of standard output and error.
    Stdio,
}

/// A server with its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Peal's server, clients of the C library.
    Peal,
    /// Peal's server, clients of Peal.
    PealClient,
    /// The C library's server and clients.
    C,
    /// The same with `TCP_NODELAY`.
    CNoDelay,
}

impl Side {
    /// In the names of arms.
    pub fn name(self) -> &'static str {
        match self {
            Side::Peal => "peal",
            Side::PealClient => "peal-client",
            Side::C => "c",
            Side::CNoDelay => "c-nodelay",
        }
    }

    /// Whether it can do without `libpmix`.
    pub fn is_without_c(self) -> bool {
        self == Side::PealClient
    }
}

impl Arm {
    /// Measures once: what comes out under each of the names.
    pub fn measure(&self, programs: &Programs) -> Result<Vec<Values>> {
        Ok(vec![match &self.work {
            MeasuredWork::Chain {
                component,
                by,
                handlers,
                modules,
                code,
                count,
                warm,
            } => {
                let mut command = Command::new(&programs.bench);
                command
                    .arg("chain")
                    .arg(programs.components.join(component).with_extension("wasm"));
                command.args([
                    "--by",
                    by,
                    "--code",
                    code,
                    "--handlers",
                    &handlers.to_string(),
                    "--modules",
                    &modules.to_string(),
                ]);
                command.args(["--count", &count.to_string(), "--warm", &warm.to_string()]);
                launch::values(&launch::finish(command, &Scratch::new()?)?)?
            }
            MeasuredWork::Job(job) => {
                let scratch = Scratch::new()?;
                launch::values(&launch::finish(job.command(programs, &scratch)?, &scratch)?)?
            }
            MeasuredWork::Turns(jobs) => return turns::measure(jobs, programs),
            MeasuredWork::Relay { count, warm } => {
                let mut command = Command::new(&programs.bench);
                command.args(["relay", &count.to_string(), &warm.to_string()]);
                launch::values(&launch::finish(command, &Scratch::new()?)?)?
            }
            MeasuredWork::Growth { side, few, many } => {
                memory::growth(programs, *side, *few, *many)?
            }
            MeasuredWork::Victim {
                work,
                attack,
                count,
            } => attacking::time(programs, *work, *attack, *count)?,
            MeasuredWork::Register { installed, count } => {
                registering::time(programs, *installed, *count)?
            }
            MeasuredWork::Start {
                launcher,
                release,
                procs,
                count,
            } => start::time(programs, *launcher, *release, *procs, *count)?,
        }])
    }
}

/// A configuration with what is to be hosted. Quarantine would end the harm of what does some.
fn configuration(hosts: Hosts, programs: &Programs, scratch: &Scratch) -> Result<PathBuf> {
    let config = scratch.path().join("peal.toml");
    let module = |name: &str, rest: &str| {
        let component = programs.components.join(name).with_extension("wasm");
        format!("[[module]]\nname = {name:?}\npath = {component:?}\n{rest}\n")
    };
    // The last of eight replies.
    let handlers = || -> String {
        let few = (0..7).map(|at| {
            module("answer", "codes = [-3101]\nevent_classes = \"both\"").replacen(
                "answer",
                &format!("answer-{at}"),
                1,
            )
        });
        few.chain([module(
            "reply",
            "codes = [-3101]\nevent_classes = \"both\"\ngrants = [\"notify\"]",
        )])
        .collect()
    };
    let trail = || {
        format!(
            "[audit]\npath = {:?}\non_failure = \"deny\"\n",
            scratch.path().join("audit.db")
        )
    };
    let modules: String = match hosts {
        Hosts::Nothing => String::new(),
        Hosts::Bomb => module("bomb", "limits = { failures = 0 }"),
        Hosts::Policy => module("discreet", ""),
        Hosts::PolicyRecorded => trail() + &module("discreet", ""),
        Hosts::Handlers => handlers(),
        Hosts::Stdio => {
            let both = "[\"stdout\", \"stderr\"]";
            module(
                "stdio",
                &format!("channels = {both}\nsinks = {both}\ngrants = [\"sink\"]"),
            )
        }
        Hosts::HandlersRecorded => trail() + &handlers(),
        Hosts::PolicyAndShadow => {
            let spins = "mode = \"shadow\"\nlimits = { failures = 0, call_time_ms = 1000 }";
            module("discreet", "") + &module("brood", spins)
        }
    };
    // What waits for a handler at the end is nothing to wait for.
    let text = format!("server.chain_drain_timeout_ms = 0\n{modules}");
    fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
    Ok(config)
}

impl JobMeasurement {
    /// The command that runs it.
    pub fn command(&self, programs: &Programs, scratch: &Scratch) -> Result<Command> {
        let procs = self.procs.to_string();
        let c = || programs.c.as_ref().context("libpmix is not there");
        let mut command = match self.side {
            Side::Peal | Side::PealClient => {
                let mut peal = Command::new(&programs.peal);
                peal.args(["run", "-n", &procs]);
                if self.hosts != Hosts::Nothing {
                    peal.arg("--config")
                        .arg(configuration(self.hosts, programs, scratch)?);
                }
                peal.arg("--")
                    .env("XDG_CACHE_HOME", &programs.cache)
                    .env_remove("PEAL_LOG");
                peal
            }
            Side::C | Side::CNoDelay => {
                let mut host = Command::new(&c()?.host);
                host.arg(&procs);
                host
            }
        };
        if self.side == Side::CNoDelay {
            command.env("LD_PRELOAD", &c()?.no_delay);
        }
        match self.side {
            Side::PealClient => command.arg(&programs.bench).arg("proc"),
            _ => command.arg(&c()?.client),
        };
        command
            .arg(self.mode)
            .args([self.count.to_string(), self.warm.to_string()]);
        command.arg(scratch.path()).arg(self.extra.to_string());
        Ok(command)
    }
}
