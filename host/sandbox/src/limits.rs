//! Limits of a module: memory, time, output, host calls. Exceeding one fails the call, never the
//! host.
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MIB: usize = 1024 * 1024;

/// Bound on the core instances of one component. Components of interpreted languages are made of
/// dozens of core modules.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// Bound on the memories of one component; those of interpreted languages have three.
pub(crate) const MAX_MEMORIES: u32 = 8;
/// Bound on the tables of one component; those of interpreted languages have tens.
pub(crate) const MAX_TABLES: u32 = 64;
/// Core instances in one place of the engine; memories and tables are counted likewise. An instance
/// that has more takes more places.
pub(crate) const CORE_INSTANCES_PER_PLACE: u32 = 8;
/// See [`CORE_INSTANCES_PER_PLACE`].
pub(crate) const MEMORIES_PER_PLACE: u32 = 2;
/// See [`CORE_INSTANCES_PER_PLACE`].
pub(crate) const TABLES_PER_PLACE: u32 = 4;
/// Bound on the bytes that the engine keeps for one instance beside its memory: passive segments,
/// globals and functions that are referred to. Components of interpreted languages have tens of
/// thousands of these, one or two megabytes.
pub(crate) const MAX_BOOKKEEPING: u64 = 8 * 1024 * 1024;
/// Bound on the WASI handles of an instance.
pub(crate) const MAX_HANDLES: u32 = 1024;

/// Calls that share the memory of an instance, and so could read data that an earlier call left
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Isolation {
    /// All calls of the module.
    #[default]
    Module,
    /// Calls caused by procs of one namespace. Calls that no proc has caused share instances of
    /// their own.
    Namespace,
    /// No calls: each call has an instance of its own.
    Call,
}

/// Limits of one module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleLimits {
    /// Bytes of all memories and tables of one instance together. A table element counts as a
    /// pointer. Other data that the engine keeps for an instance are bounded when the module is
    /// loaded.
    pub memory_bytes: usize,
    /// Bytes of the memories and tables of all instances together, warm and running.
    pub total_memory_bytes: usize,
    /// Time of one call, without host calls that may wait. The start and the init of an instance
    /// have the same time each, so the first call of a fresh instance can take three times as long
    /// in all.
    pub call_time: Duration,
    /// Time that one call may spend in host calls that may wait or that work on many values at
    /// once.
    pub host_call_time: Duration,
    /// Fuel of one call, about one for each instruction. As with `call_time`, the start and the
    /// init have the same fuel each. `None` is no limit; fuel is then not counted, unless the
    /// engine counts for all modules.
    pub fuel: Option<u64>,
    /// Bytes that one call may push: results, nested arrays and raised events, measured in the
    /// host's memory. An array counts when it is passed and again for each reference to it.
    pub output_bytes: usize,
    /// Events that one call may raise. Beyond them `notify` is refused.
    pub raised_events: usize,
    /// Host calls of one call, log messages among them.
    pub host_calls: u32,
    /// Lines that the module may write to the trace per second, reports of its failures among them,
    /// at least 1. A burst may have twice as many.
    pub log_lines_per_second: u32,
    /// Calls after which an instance is replaced by a fresh one.
    pub calls_per_instance: u64,
    /// Warm instances kept for the next calls. More exist while more calls run at once.
    pub idle_instances: usize,
    /// Calls that share the memory of an instance.
    pub isolation: Isolation,
    /// Failures within `failure_window` after which the module is quarantined; 0 for never.
    pub failures: u32,
    /// Window in which failures are counted.
    pub failure_window: Duration,
}

impl Default for ModuleLimits {
    /// 64 MiB (a Python component starts with 13), 512 MiB in all, 100 ms, 1 s in host calls, 1 MiB
    /// of output, 16 raised events, 5,000 host calls, 50 lines a second, 10,000 calls per instance,
    /// 8 warm instances that all calls share, 10 failures in a minute.
    fn default() -> ModuleLimits {
        ModuleLimits {
            memory_bytes: 64 * MIB,
            total_memory_bytes: 512 * MIB,
            call_time: Duration::from_millis(100),
            host_call_time: Duration::from_secs(1),
            fuel: None,
            output_bytes: MIB,
            raised_events: 16,
            host_calls: 5000,
            log_lines_per_second: 50,
            calls_per_instance: 10_000,
            idle_instances: 8,
            isolation: Isolation::Module,
            failures: 10,
            failure_window: Duration::from_secs(60),
        }
    }
}

impl ModuleLimits {
    /// Returns the bound on the bytes that the engine copies out of the guest in one host call,
    /// used or not. It is at least the size of a log message, so that a module without output can
    /// still log.
    pub(crate) fn copied_per_host_call(&self) -> usize {
        const FLOOR: usize = 64 * 1024;
        self.output_bytes.max(FLOOR)
    }
}
