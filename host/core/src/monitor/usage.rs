//! Requests for resource usage.
use peal_model::{Key, KeyName, Proc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Key of the time that a proc and all of its descendants have run on any core, those that have
/// ended included: a `PMIX_TIMEVAL`. Available, as the other keys of a process tree, where the proc
/// has a control group of its own.
pub const TREE_TIME: KeyName = KeyName("peal.proc.tree.time");
/// Key of the current memory of a proc and its descendants, page cache included: a `PMIX_FLOAT`, in
/// megabytes.
pub const TREE_MEMORY: KeyName = KeyName("peal.proc.tree.mem");
/// Key of the peak of that memory: a `PMIX_FLOAT`, in megabytes.
pub const TREE_PEAK_MEMORY: KeyName = KeyName("peal.proc.tree.pkmem");
/// Key of the number of processes in the tree: a `PMIX_UINT64`.
pub const TREE_PROCESSES: KeyName = KeyName("peal.proc.tree.nprocs");

/// Key of the time since the start of a process: a `PMIX_TIMEVAL`.
pub const PROC_ELAPSED: KeyName = KeyName("peal.proc.elapsed");

/// The usage to measure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UsageRequest {
    /// The resource.
    pub of: UsageOf,
    /// The requested attributes; none for all that are available.
    pub fields: BTreeSet<Key>,
    /// The names of the nodes (`PMIX_MONITOR_TARGET_NODES`, and the nodes of process ids); none for
    /// this one.
    pub nodes: BTreeSet<String>,
}

/// A resource whose usage is measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum UsageOf {
    /// Procs and other processes (`PMIX_MONITOR_PROC_RESOURCE_USAGE`).
    Procs {
        /// Single known procs, each once.
        procs: Vec<Proc>,
        /// Process ids (`PMIX_MONITOR_TARGET_PIDS`). Their owners are not checked yet.
        pids: BTreeSet<u32>,
    },
    /// The node (`PMIX_MONITOR_NODE_RESOURCE_USAGE`).
    Node,
    /// Disks of the node with these ids; none for all (`PMIX_MONITOR_DISK_RESOURCE_USAGE`).
    Disks(BTreeSet<String>),
    /// Networks of the node with these ids; none for all (`PMIX_MONITOR_NET_RESOURCE_USAGE`).
    Networks(BTreeSet<String>),
}
