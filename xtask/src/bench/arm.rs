//! Arms of the bench: a program, the server that it runs under, and the measured values.
use super::{
    attacking::{self, Attack, VictimWork},
    cluster, crowd,
    instructions::CountedWork,
    launch::{self, Scratch},
    launchers::{self, LauncherJob},
    memory,
    module_costs::{self, GuestLanguage, IdleModules},
    nodes::{self, NodesJob},
    observed::{self, Observer},
    processes::{self, UserProcess},
    programs::Programs,
    registering::{self, Installed},
    siege::{self, CoreUse, SiegeCounts},
    start, turns,
};
use crate::mpi::Release;
use anyhow::{Context, Result};
use peal_labs::LabLauncher;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Measured values: a name (`us`, `per_s`, ...) and a number each.
pub type Values = Vec<(String, f64)>;

/// Arm, which is measured once in each round.
pub struct Arm {
    /// Names in the results, such as `latency.peal`. There are several if the work is several jobs
    /// that measure by turns.
    pub names: Vec<String>,
    /// Work that is measured.
    pub work: MeasuredWork,
}

/// Work of an arm.
pub enum MeasuredWork {
    /// Chain of handlers in one process.
    Chain {
        component: &'static str,
        by: &'static str,
        handlers: u32,
        modules: u32,
        code: &'static str,
        count: u32,
        warm: u32,
    },
    /// Job whose procs measure.
    Job(JobMeasurement),
    /// Several jobs that measure by turns.
    Turns(Vec<JobMeasurement>),
    /// Messages through three threads that do nothing else.
    Relay {
        way: RelayWay,
        count: u32,
        warm: u32,
    },
    /// Messages of procs to a thread that answers each and does nothing else.
    Floor {
        work: FloorWork,
        procs: u32,
        count: u32,
        warm: u32,
    },
    /// Instructions of the server for a unit of work of its procs.
    Instructions(CountedWork),
    /// Growth of the server's memory from few clients to many.
    Growth { side: Side, few: u32, many: u32 },
    /// Job of many procs, from its start to its end.
    Crowd { side: Side, procs: u32 },
    /// Work of a victim, beside an attack or without one.
    Victim {
        work: VictimWork,
        attack: Option<Attack>,
        count: u32,
    },
    /// Work of a victim, alone and then beside all attacks at once.
    Siege { cores: CoreUse, counts: SiegeCounts },
    /// Registrations of jobs.
    Register { installed: Installed, count: u32 },
    /// Starts of a server with all its processes.
    ServerStart { modules: IdleModules, count: u32 },
    /// Memory of all processes of a server without clients.
    IdleMemory { modules: IdleModules },
    /// First events of jobs through a handler.
    FirstCall { language: GuestLanguage, count: u32 },
    /// Growth of a server's memory from few instances of a component to many.
    Instances {
        language: GuestLanguage,
        few: u32,
        many: u32,
    },
    /// Events through modules of a user.
    UserChain {
        process: UserProcess,
        count: u32,
        warm: u32,
    },
    /// Events through handlers beside an observer.
    Observed {
        observer: Observer,
        count: u32,
        warm: u32,
    },
    /// Starts of an MPI program.
    Start {
        launcher: start::Launcher,
        release: Release,
        procs: u32,
        count: u32,
    },
    /// Jobs over several nodes, on each side the same.
    Launcher {
        launcher: LabLauncher,
        job: LauncherJob,
        count: u32,
    },
    /// Jobs of Slurm on nodes whose servers meet on NATS.
    Nodes(Vec<NodesJob>),
    /// Servers of a cluster that join at the same time, and events to all of them.
    Cluster { servers: u32, events: u32 },
}

/// Work whose messages are sent in a floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloorWork {
    /// Fence of all.
    Fence,
    /// Event to all.
    Event,
    /// Group of all, formed and destructed.
    Group,
    /// Line that is logged.
    Log,
    /// Heartbeat.
    Beats,
}

impl FloorWork {
    /// Returns the name, as the measuring program has it.
    pub fn name(self) -> &'static str {
        match self {
            FloorWork::Fence => "fence",
            FloorWork::Event => "event",
            FloorWork::Group => "group",
            FloorWork::Log => "log",
            FloorWork::Beats => "beats",
        }
    }
}

/// Way of messages through a relay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayWay {
    /// To the target, one after the other.
    There,
    /// To the target and back, one after the other.
    Back,
    /// To the target, as many as possible.
    Flood,
}

impl RelayWay {
    /// Returns the name, as the measuring program has it.
    pub fn name(self) -> &'static str {
        match self {
            RelayWay::There => "there",
            RelayWay::Back => "back",
            RelayWay::Flood => "flood",
        }
    }
}

/// Procs that measure, and their server.
pub struct JobMeasurement {
    /// Server and clients.
    pub side: Side,
    /// Number of procs.
    pub procs: u32,
    /// Mode of the measuring program.
    pub mode: &'static str,
    /// Number of repetitions.
    pub count: u32,
    /// Number of repetitions before the measurement.
    pub warm: u32,
    /// Number of handlers in a chain, of events without a reply, or of turns.
    pub extra: u32,
    /// Modules of Peal's server.
    pub hosts: Hosts,
}

/// Modules of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// No modules.
    Nothing,
    /// Handler that exceeds its limits.
    Bomb,
    /// Policy that decides about every event.
    Policy,
    /// Eight such policies.
    Policies,
    /// No modules, and a server that looks for more work before it sleeps.
    Spinning,
    /// A policy that decides about every event, and such a server.
    SpinningPolicy,
    /// Such a policy, and a shadow module that never returns.
    PolicyAndShadow,
    /// Such a policy, with an audit trail that records all calls and decisions before the reply.
    PolicyRecorded,
    /// Eight handlers, of which the last raises the reply.
    Handlers,
    /// The same handlers, with an audit trail that records each call.
    HandlersRecorded,
    /// Fifteen handlers that do nothing, and one that raises the reply.
    NoopHandlers,
    /// Handler that returns what it gets, and one that raises the reply.
    Echo(GuestLanguage),
    /// Channels of standard output and error.
    Stdio,
}

/// Server with its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Peal's server, clients of the C library.
    Peal,
    /// Peal's server, the same clients on Peal's `libpmix`.
    PealLibrary,
    /// Peal's server, clients of Peal.
    PealClient,
    /// Peal's server with its trace off, clients of Peal.
    PealTraceOff,
    /// Peal's server with its trace compiled out, clients of Peal.
    PealWithoutTrace,
    /// Server and clients of the C library.
    C,
    /// The same with `TCP_NODELAY`.
    CNoDelay,
}

impl Side {
    /// Returns the name in names of arms.
    pub fn name(self) -> &'static str {
        match self {
            Side::Peal => "peal",
            Side::PealLibrary => "peal-libpmix",
            Side::PealClient => "peal-client",
            Side::PealTraceOff => "trace-off",
            Side::PealWithoutTrace => "without-trace",
            Side::C => "c",
            Side::CNoDelay => "c-nodelay",
        }
    }

    /// Returns the library of its clients, as rows have it.
    pub fn clients(self) -> &'static str {
        if self.is_without_c() {
            "Peal's"
        } else {
            "libpmix"
        }
    }

    /// Returns true if it does not need `libpmix`, with which the C programs are linked.
    pub fn is_without_c(self) -> bool {
        match self {
            Side::PealClient | Side::PealTraceOff | Side::PealWithoutTrace => true,
            Side::Peal | Side::PealLibrary | Side::C | Side::CNoDelay => false,
        }
    }
}

impl Arm {
    /// Measures once. Returns the values for each of the names.
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
                command.arg("chain").arg(programs.component(component));
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
            MeasuredWork::Launcher {
                launcher,
                job,
                count,
            } => return launchers::measure(programs, *launcher, *job, *count),
            MeasuredWork::Nodes(jobs) => return nodes::measure(programs, jobs),
            MeasuredWork::Relay { way, count, warm } => {
                let mut command = Command::new(&programs.bench);
                command.args(["relay", way.name()]);
                command.args([count, warm].map(u32::to_string));
                launch::values(&launch::finish(command, &Scratch::new()?)?)?
            }
            MeasuredWork::Floor {
                work,
                procs,
                count,
                warm,
            } => {
                let mut command = Command::new(&programs.bench);
                command.args(["floor", work.name()]);
                command.args([procs, count, warm].map(u32::to_string));
                launch::values(&launch::finish(command, &Scratch::new()?)?)?
            }
            MeasuredWork::Instructions(work) => work.measure(programs)?,
            MeasuredWork::Growth { side, few, many } => {
                memory::growth(programs, *side, *few, *many)?
            }
            MeasuredWork::Crowd { side, procs } => crowd::measure(programs, *side, *procs)?,
            MeasuredWork::Victim {
                work,
                attack,
                count,
            } => attacking::time(programs, *work, *attack, *count)?,
            MeasuredWork::Cluster { servers, events } => {
                cluster::measure(programs, *servers, *events)?
            }
            MeasuredWork::Siege { cores, counts } => siege::times(programs, *cores, *counts)?,
            MeasuredWork::Register { installed, count } => {
                registering::time(programs, *installed, *count)?
            }
            MeasuredWork::ServerStart { modules, count } => {
                processes::start_time(programs, *modules, *count)?
            }
            MeasuredWork::IdleMemory { modules } => processes::idle_memory(programs, *modules)?,
            MeasuredWork::FirstCall { language, count } => {
                module_costs::first_call(programs, *language, *count)?
            }
            MeasuredWork::Instances {
                language,
                few,
                many,
            } => module_costs::memory_of_instance(programs, *language, *few, *many)?,
            MeasuredWork::UserChain {
                process,
                count,
                warm,
            } => processes::user_chain(programs, *process, *count, *warm)?,
            MeasuredWork::Observed {
                observer,
                count,
                warm,
            } => observed::time(programs, *observer, *count, *warm)?,
            MeasuredWork::Start {
                launcher,
                release,
                procs,
                count,
            } => start::time(programs, *launcher, *release, *procs, *count)?,
        }])
    }
}

/// Setting of a server that looks for more work before it sleeps.
const SPINS: &str = "server.spin_us = 50\n";

/// Settings of a module that handles the measured events.
pub const HANDLES: &str = "codes = [-3101]\nevent_classes = \"both\"";

/// Returns the section of a module of this component.
pub fn section(name: &str, component: &Path, rest: &str) -> String {
    format!("[[module]]\nname = {name:?}\npath = {component:?}\n{rest}\n")
}

/// Returns the section of a module that has the name of its component.
fn module(programs: &Programs, name: &str, rest: &str) -> String {
    section(name, &programs.component(name), rest)
}

/// Returns the sections of this number of modules of one component.
pub fn modules(programs: &Programs, component: &str, count: u32, rest: &str) -> String {
    let file = programs.component(component);
    let numbered = |number| section(&format!("{component}-{number}"), &file, rest);
    (0..count).map(numbered).collect()
}

/// Returns the sections of this number of handlers of one component, and of one that raises the reply.
pub fn handler_modules(programs: &Programs, name: &str, count: u32) -> String {
    let raises = format!("{HANDLES}\ngrants = [\"notify\"]");
    modules(programs, name, count, HANDLES) + &module(programs, "event-echo", &raises)
}

/// Writes the configuration with the modules. Quarantine is off where a handler exceeds its limits
/// on purpose.
fn configuration(hosts: Hosts, programs: &Programs, scratch: &Scratch) -> Result<PathBuf> {
    let config = scratch.path().join("peal.toml");
    let module = |name: &str, rest: &str| module(programs, name, rest);
    let handlers = |name: &str, count: u32| handler_modules(programs, name, count);
    let trail = || {
        format!(
            "[audit]\npath = {:?}\non_failure = \"deny\"\n",
            scratch.path().join("audit.db")
        )
    };
    let sections: String = match hosts {
        Hosts::Nothing => String::new(),
        Hosts::Spinning => SPINS.to_owned(),
        Hosts::SpinningPolicy => SPINS.to_owned() + &module("namespace-only", ""),
        Hosts::Bomb => module("limit-breaker", "limits = { failures = 0 }"),
        Hosts::Policy => module("namespace-only", ""),
        Hosts::Policies => modules(programs, "namespace-only", 8, ""),
        Hosts::PolicyRecorded => trail() + &module("namespace-only", ""),
        Hosts::Handlers => handlers("read-push", 7),
        Hosts::Stdio => {
            let both = "[\"stdout\", \"stderr\"]";
            module(
                "stdio",
                &format!("channels = {both}\nsinks = {both}\ngrants = [\"sink\"]"),
            )
        }
        Hosts::HandlersRecorded => trail() + &handlers("read-push", 7),
        Hosts::NoopHandlers => handlers("noop", 15),
        Hosts::Echo(language) => handlers(language.component(), 1),
        Hosts::PolicyAndShadow => {
            let spins = "mode = \"shadow\"\nlimits = { failures = 0, call_time_ms = 1000 }";
            module("namespace-only", "") + &module("slow-policy", spins)
        }
    };
    // Events that wait for handlers at the end do not matter.
    let text = format!("server.chain_drain_timeout_ms = 0\n{sections}");
    fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
    Ok(config)
}

impl JobMeasurement {
    /// Returns the command that runs the job.
    pub fn command(&self, programs: &Programs, scratch: &Scratch) -> Result<Command> {
        let procs = self.procs.to_string();
        let c = || programs.c.as_ref().context("libpmix is not there");
        let mut command = match self.side {
            Side::Peal
            | Side::PealLibrary
            | Side::PealClient
            | Side::PealTraceOff
            | Side::PealWithoutTrace => {
                let peal = match self.side {
                    Side::PealWithoutTrace => programs
                        .peal_without_trace
                        .as_ref()
                        .context("peal without its trace is not built")?,
                    _ => &programs.peal,
                };
                let mut peal = Command::new(peal);
                peal.args(["run", "-n", &procs]);
                if self.hosts != Hosts::Nothing {
                    peal.arg("--config")
                        .arg(configuration(self.hosts, programs, scratch)?);
                }
                if self.side == Side::PealLibrary {
                    let library = c()?
                        .peal_library
                        .as_ref()
                        .context("Peal's libpmix is not built")?;
                    peal.arg("-x")
                        .arg(format!("LD_LIBRARY_PATH={}", library.display()));
                    // The program ends if it runs on another library.
                    peal.args(["-x", "BENCH_LIBRARY=peal"]);
                }
                // With a cache of the bench, no round pays for compilation but the first.
                peal.arg("--")
                    .env("XDG_CACHE_HOME", &programs.cache)
                    .env_remove("PEAL_LOG");
                if self.side == Side::PealTraceOff {
                    peal.env("PEAL_LOG", "off");
                }
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
        if self.side.is_without_c() {
            command.arg(&programs.bench).arg("proc");
        } else {
            command.arg(&c()?.client);
        }
        command
            .arg(self.mode)
            .args([self.count.to_string(), self.warm.to_string()]);
        command.arg(scratch.path()).arg(self.extra.to_string());
        Ok(command)
    }
}
