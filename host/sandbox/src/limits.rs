//! What a module may use: memory, time, output, host calls. Each excess is a failure of the call, never of the host.
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MIB: usize = 1024 * 1024;

/// The most core instances of one component. Components of interpreted languages are made of dozens of modules.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// The most memories of one component; those of interpreted languages have three.
pub(crate) const MAX_MEMORIES: u32 = 8;
/// The most tables of one component; those of interpreted languages have tens.
pub(crate) const MAX_TABLES: u32 = 64;
/// How many core instances one place of the engine has room for, and likewise memories and tables. An instance that has more takes
/// more places.
pub(crate) const CORE_INSTANCES_PER_PLACE: u32 = 8;
/// See [`CORE_INSTANCES_PER_PLACE`].
pub(crate) const MEMORIES_PER_PLACE: u32 = 2;
/// See [`CORE_INSTANCES_PER_PLACE`].
pub(crate) const TABLES_PER_PLACE: u32 = 4;
/// The most bytes that the engine keeps for one instance without counting them as its memory: passive segments, globals and
/// functions that are referred to. Components of interpreted languages have tens of thousands of these, a megabyte or two.
pub(crate) const MAX_BOOKKEEPING: u64 = 8 * 1024 * 1024;
/// The most handles of WASI that an instance has at once.
pub(crate) const MAX_HANDLES: u32 = 1024;

/// Who shares the memory of an instance, and so might come to know what a call has left there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Isolation {
    /// All calls of the module.
    #[default]
    Module,
    /// Calls that procs of the same namespace have caused. Those that no proc has caused are among themselves.
    Namespace,
    /// Nobody: each call has an instance of its own.
    Call,
}

/// The limits of one module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleLimits {
    /// Bytes of all memories and tables of one instance together. A table element counts as a pointer. What else the engine
    /// keeps for an instance is bounded when the module is loaded.
    pub memory: usize,
    /// The same of all its instances together, warm and running.
    pub memory_total: usize,
    /// How long one call may run, host calls that may wait not counted. The start and the init of an instance have as long each, so that
    /// the first call of a fresh instance can take three times as long in all.
    pub call_time: Duration,
    /// How long one call may spend in host calls that may wait, or work on many values at once.
    pub host_time: Duration,
    /// Fuel of one call: about one for each instruction. As `call_time` it is given anew for the start and the init. None is
    /// no limit, and then nothing is counted unless the engine counts for all.
    pub fuel: Option<u64>,
    /// Bytes that one call may push: results, nested arrays and notifications, as they lie in the host's memory. An array
    /// counts when it is passed and again wherever it is referred to.
    pub output: usize,
    /// Events that one call may raise. Beyond them `notify` refuses.
    pub notifications: usize,
    /// Host calls of one call, log messages among them.
    pub host_calls: u32,
    /// Lines that it may write to the trace in a second, reports of its failures among them; at once twice as many. At
    /// least one.
    pub log_lines: u32,
    /// Calls after which an instance is replaced by a fresh one.
    pub max_calls: u64,
    /// Warm instances kept for the next calls. More exist while more calls run at once.
    pub instances: usize,
    /// Who shares the memory of an instance.
    pub isolation: Isolation,
    /// Failures within `failure_window` after which the module is quarantined; 0 for never.
    pub failures: u32,
    /// The time in which failures are counted.
    pub failure_window: Duration,
}

impl Default for ModuleLimits {
    /// Safe and roomy: 64 MiB (a Python component starts with 13), 512 MiB in all, 100 ms, 1 s in host calls, 1 MiB of
    /// output, 16 events raised, 5,000 host calls, 50 lines a second, 10,000 calls per instance, 8 warm instances that all
    /// calls share, 10 failures in a minute.
    fn default() -> ModuleLimits {
        ModuleLimits {
            memory: 64 * MIB,
            memory_total: 512 * MIB,
            call_time: Duration::from_millis(100),
            host_time: Duration::from_secs(1),
            fuel: None,
            output: MIB,
            notifications: 16,
            host_calls: 5000,
            log_lines: 50,
            max_calls: 10_000,
            instances: 8,
            isolation: Isolation::Module,
            failures: 10,
            failure_window: Duration::from_secs(60),
        }
    }
}

impl ModuleLimits {
    /// The most bytes that the engine copies out of the guest in one host call, whatever becomes of them. Not below what a
    /// log message may take, so that a module without output can still log.
    pub(crate) fn copied_per_host_call(&self) -> usize {
        const FLOOR: usize = 64 * 1024;
        self.output.max(FLOOR)
    }
}
