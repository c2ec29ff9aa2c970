//! What of the resources in use somebody wants to know.
use peal_model::{Key, Proc};
use std::collections::BTreeSet;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
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
