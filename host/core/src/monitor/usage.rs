//! What of the resources in use somebody wants to know.
use peal_model::{Key, KeyName, Proc};
use std::collections::BTreeSet;

/// How long a proc and all that it has started have run on any core, those that have ended included: a `PMIX_TIMEVAL`. Told, like the
/// others of a tree, where the kernel keeps the proc in a control group of its own.
pub const TREE_TIME: KeyName = KeyName("peal.proc.tree.time");
/// What memory they take now, with their part of the page cache: a `PMIX_FLOAT`, in megabytes.
pub const TREE_MEMORY: KeyName = KeyName("peal.proc.tree.mem");
/// The most that it has been: a `PMIX_FLOAT`, in megabytes.
pub const TREE_PEAK_MEMORY: KeyName = KeyName("peal.proc.tree.pkmem");
/// How many processes they are: a `PMIX_UINT64`.
pub const TREE_PROCESSES: KeyName = KeyName("peal.proc.tree.nprocs");

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageRequest {
    /// Whose.
    pub of: UsageOf,
    /// The attributes that are wanted; none: all that can be had.
    pub fields: BTreeSet<Key>,
    /// The nodes by name (`PMIX_MONITOR_TARGET_NODES`); none: this one.
    pub nodes: BTreeSet<String>,
}

/// Whose resources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UsageOf {
    /// Those of procs and other processes (`PMIX_MONITOR_PROC_RESOURCE_USAGE`).
    Procs {
        /// Single procs, each once and known.
        procs: Vec<Proc>,
        /// Processes by their ids (`PMIX_MONITOR_TARGET_PIDS`). Nobody has asked yet whose they are.
        pids: BTreeSet<u32>,
    },
    /// Those of the node (`PMIX_MONITOR_NODE_RESOURCE_USAGE`).
    Node,
    /// Those of its disks (`PMIX_MONITOR_DISK_RESOURCE_USAGE`), of these ids; none: of all.
    Disks(BTreeSet<String>),
    /// Those of its networks (`PMIX_MONITOR_NET_RESOURCE_USAGE`), of these ids; none: of all.
    Networks(BTreeSet<String>),
}
