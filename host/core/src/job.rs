//! Jobs as their server knows them.
use crate::{job_values::JobValues, proc_phases::ProcPhases, rank_ranges::RankRanges};
use peal_model::{
    DataArray, JobEntry, Key, KeyName, Nspace, Proc, Rank, Text, UserIdentity, Value, key, rank,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A job with procs on this node, as the host environment describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// The namespace.
    pub nspace: Nspace,
    /// The applications. Their procs have consecutive ranks.
    pub apps: Vec<AppSpec>,
    /// The name of the node.
    pub hostname: String,
    /// The user that the procs run as.
    pub identity: UserIdentity,
    /// The proc that spawned the job, if any.
    pub parent: Option<Proc>,
    /// The number of procs of earlier jobs in the same spawn tree (`PMIX_NPROC_OFFSET`).
    pub offset: u32,
    /// The number of procs that the node has slots for (`PMIX_UNIV_SIZE`).
    pub slots: u32,
    /// The topology of the node as XML of hwloc, if procs get it.
    pub topology: Option<Text>,
    /// The processors of the procs by rank; none if they may run on all.
    pub processors: Option<Vec<ProcProcessors>>,
    /// The nodes of the procs, and the source of the job data.
    pub placement: JobPlacement,
}

/// The processors that a proc is bound to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcProcessors {
    /// Their numbers, as in `0-3,8` (`PMIX_CPUSET`).
    pub cpuset: Text,
    /// The units that they belong to, as in `SK0:L30:CR0:HT0` (`PMIX_LOCALITY_STRING`).
    pub locality: Text,
}

/// The nodes of a job's procs, and the source of its job data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum JobPlacement {
    /// All procs are on this node. The server derives the job data from the [`JobSpec`].
    ThisNode,
    /// The host environment has placed the procs on this and other nodes.
    Registered(Arc<RegisteredJob>),
}

/// The way to procs of other nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum NodeRoute {
    /// The server transport: servers of Peal have the procs.
    Servers,
    /// The host environment.
    HostEnvironment,
}

/// A job with procs on several nodes: registered with `PMIx_server_register_nspace`, or placed on
/// nodes with servers of Peal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RegisteredJob {
    /// The number of procs on all nodes.
    pub size: u32,
    /// The ranks of this node.
    pub local: BTreeSet<Rank>,
    /// The nodes of all procs, as far as they are known.
    pub nodes: Vec<NodeRanks>,
    /// The way to procs of other nodes.
    pub route: NodeRoute,
    /// The job data.
    pub entries: Vec<JobEntry>,
    /// The party that monitors procs on several nodes.
    pub monitoring: LauncherMonitoring,
}

/// Ability of a launcher to monitor procs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum LauncherMonitoring {
    /// The launcher monitors procs.
    Offered,
    /// It does not.
    #[default]
    Missing,
}

/// The procs of a job on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeRanks {
    /// The name of the node.
    pub hostname: String,
    /// The ranks on that node, in ascending order.
    pub ranks: Vec<Rank>,
}

/// The node of a proc of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcNode {
    /// This node.
    This,
    /// Another node.
    Other,
}

/// An application of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AppSpec {
    /// The number of procs.
    pub size: u32,
    /// The command line, if known.
    pub command: Option<String>,
    /// The working directory, if known.
    pub wdir: Option<String>,
}

impl JobSpec {
    /// Creates a job with one application and no further data.
    pub fn new(
        nspace: Nspace,
        size: u32,
        hostname: impl Into<String>,
        identity: UserIdentity,
    ) -> JobSpec {
        let apps = vec![AppSpec {
            size,
            command: None,
            wdir: None,
        }];
        JobSpec {
            nspace,
            apps,
            hostname: hostname.into(),
            identity,
            parent: None,
            offset: 0,
            slots: size,
            topology: None,
            processors: None,
            placement: JobPlacement::ThisNode,
        }
    }

    /// Returns the number of procs on all nodes.
    pub fn size(&self) -> u32 {
        match &self.placement {
            JobPlacement::ThisNode => self
                .apps
                .iter()
                .fold(0, |sum, app| sum.saturating_add(app.size)),
            JobPlacement::Registered(job) => job.size,
        }
    }

    /// Returns the ranks of this node.
    pub fn local_ranks(&self) -> Vec<Rank> {
        match &self.placement {
            JobPlacement::ThisNode => (0..self.size()).map(Rank).collect(),
            JobPlacement::Registered(job) => job.local.iter().copied().collect(),
        }
    }

    /// Returns the ranks of this node as ranges.
    pub(crate) fn local_ranges(&self) -> RankRanges {
        match &self.placement {
            JobPlacement::ThisNode => RankRanges::below(self.size()),
            JobPlacement::Registered(job) => job.local.iter().copied().collect(),
        }
    }

    /// Returns the ranks on a node; without a name, on this node.
    pub fn ranks_on(&self, node: Option<&str>) -> Vec<Rank> {
        match (node, &self.placement) {
            (None, _) => self.local_ranks(),
            (Some(node), _) if node == self.hostname => self.local_ranks(),
            (Some(_), JobPlacement::ThisNode) => Vec::new(),
            (Some(node), JobPlacement::Registered(job)) => {
                let nodes = job.nodes.iter().filter(|other| other.hostname == node);
                nodes.flat_map(|other| other.ranks.clone()).collect()
            }
        }
    }

    /// Returns the names of the nodes of the job.
    pub fn nodes(&self) -> Vec<&str> {
        match &self.placement {
            JobPlacement::Registered(job) if !job.nodes.is_empty() => job
                .nodes
                .iter()
                .map(|node| node.hostname.as_str())
                .collect(),
            _ => vec![self.hostname.as_str()],
        }
    }

    /// Returns the node of a rank; `None` if the job has no such rank.
    pub fn node_of(&self, rank: Rank) -> Option<ProcNode> {
        match &self.placement {
            _ if rank.0 >= self.size() => None,
            JobPlacement::Registered(job) if !job.local.contains(&rank) => Some(ProcNode::Other),
            _ => Some(ProcNode::This),
        }
    }

    /// Returns the name of the node of a rank, if it is known.
    pub fn hostname_of(&self, rank: Rank) -> Option<&str> {
        match (self.node_of(rank)?, &self.placement) {
            (ProcNode::Other, JobPlacement::Registered(job)) => {
                let node = job.nodes.iter().find(|node| node.ranks.contains(&rank))?;
                Some(&node.hostname)
            }
            _ => Some(&self.hostname),
        }
    }

    /// Returns the way to procs of other nodes.
    pub fn route(&self) -> NodeRoute {
        match &self.placement {
            // There are none. Servers of the transport may have procs of other jobs.
            JobPlacement::ThisNode => NodeRoute::Servers,
            JobPlacement::Registered(job) => job.route,
        }
    }

    /// Returns true if a rank, or any rank that a wildcard stands for, is on another node.
    pub fn is_elsewhere(&self, rank: Rank) -> bool {
        match rank {
            rank::PMIX_RANK_WILDCARD => self.has_procs_elsewhere(),
            one => self.node_of(one) == Some(ProcNode::Other),
        }
    }

    /// Returns true if the launcher of the job monitors procs.
    pub fn is_monitored_by_launcher(&self) -> bool {
        match &self.placement {
            JobPlacement::ThisNode => false,
            JobPlacement::Registered(job) => job.monitoring == LauncherMonitoring::Offered,
        }
    }

    /// Returns true if some procs of the job are on other nodes.
    pub fn has_procs_elsewhere(&self) -> bool {
        match &self.placement {
            JobPlacement::ThisNode => false,
            JobPlacement::Registered(job) => {
                u32::try_from(job.local.len()).unwrap_or(u32::MAX) < job.size
            }
        }
    }
}

/// The phase of a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ProcPhase {
    /// Registered by the host environment, not connected yet.
    Expected,
    /// Connected, with this number of connections (child processes of a proc may connect as its
    /// clones).
    Connected(u32),
    /// Finalized. The process lives on and may initialize again.
    Finalized,
    /// Finalized, and the process has ended.
    Terminated,
    /// Lost its connection, or was reported as ended, without having finalized.
    Lost,
}

/// Key of the time since the start or the registration of a job, in seconds: a `PMIX_UINT64`. Answers
/// about jobs have it.
pub const JOB_ELAPSED: KeyName = KeyName("peal.job.elapsed");

/// The progress of a job: the number of its procs in each phase.
#[derive(Clone, PartialEq, Debug)]
pub struct JobProgress {
    /// The job.
    pub spec: JobSpec,
    /// Procs not connected yet.
    pub expected: u32,
    /// Connected procs.
    pub connected: u32,
    /// Finalized procs.
    pub finalized: u32,
    /// Procs that ended or lost their connection without having finalized.
    pub lost: u32,
}

/// A job and its procs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TrackedJob {
    pub(crate) spec: JobSpec,
    pub(crate) info: JobValues,
    pub(crate) procs: ProcPhases,
    /// Number of starts of each rank, where the host environment reports them.
    starts: BTreeMap<Rank, u32>,
    /// Key of the process ids, which the data of all ranks share.
    pid_key: Key,
}

impl TrackedJob {
    pub(crate) fn new(spec: JobSpec) -> TrackedJob {
        TrackedJob {
            info: JobValues::of_job(&spec),
            procs: ProcPhases::expected(spec.local_ranks()),
            starts: BTreeMap::new(),
            pid_key: Key::from(key::PMIX_PROC_PID),
            spec,
        }
    }

    /// Takes a changed description of the job. Procs of this node that are new are expected; those
    /// that it names no more are forgotten, unless they have connected.
    pub(crate) fn respecify(&mut self, spec: JobSpec) {
        self.procs.expect(spec.local_ranks());
        self.info = JobValues::of_job(&spec);
        self.spec = spec;
    }

    pub(crate) fn progress(&self) -> JobProgress {
        let counts = self.procs.counts();
        JobProgress {
            spec: self.spec.clone(),
            expected: counts.expected,
            connected: counts.connected,
            // A terminated proc has finalized before.
            finalized: counts.finalized + counts.terminated,
            lost: counts.lost,
        }
    }

    /// Returns the phases of the procs of this node, in the order of their ranks.
    pub(crate) fn phases(&self) -> impl Iterator<Item = (Rank, ProcPhase)> {
        self.procs.iter()
    }

    /// Records that a rank was started as a process, for the first time or again.
    pub(crate) fn started(&mut self, rank: Rank, pid: u32) {
        let starts = self.starts.entry(rank).or_default();
        // `PMIX_REINCARNATION` is the number of restarts, which is 0 at the first start.
        let before = std::mem::replace(starts, starts.saturating_add(1));
        let restarts = Some(Value::Uint32(before));
        if before > 0 {
            self.set_value(rank, key::PMIX_REINCARNATION, restarts);
        } else if self.value(rank, key::PMIX_REINCARNATION).is_none() {
            let key = Key::from(key::PMIX_REINCARNATION);
            self.info.set_asked(rank, &key, restarts);
        }
        self.info
            .set_asked(rank, &self.pid_key, Some(Value::Pid(pid)));
    }

    /// Records that a rank is about to be restarted, from a checkpoint if there is one
    /// (`PMIX_JOB_CTRL_RESTART`).
    pub(crate) fn restarts(&mut self, rank: Rank, checkpoint: Option<&str>) {
        self.set_value(
            rank,
            key::PMIX_JOB_CTRL_RESTART,
            checkpoint.map(Value::string),
        );
        // The old process is about to end, and the new one has no pid yet.
        self.info.set_asked(rank, &self.pid_key, None);
    }

    /// Adds a process set to the data of a rank.
    pub(crate) fn joins_set(&mut self, rank: Rank, name: &Text) {
        let mut names = self.sets_of(rank);
        names.push(name.clone());
        self.set_sets(rank, names);
    }

    /// Removes a process set from the data of a rank.
    pub(crate) fn leaves_set(&mut self, rank: Rank, name: &Text) {
        let mut names = self.sets_of(rank);
        names.retain(|known| known != name);
        self.set_sets(rank, names);
    }

    fn sets_of(&self, rank: Rank) -> Vec<Text> {
        let names = match self.value(rank, key::PMIX_PSET_NAMES) {
            Some(Value::DataArray(names)) => names.items().to_vec(),
            _ => Vec::new(),
        };
        let text = |name| match name {
            Value::String(name) => name,
            _ => None,
        };
        names.into_iter().filter_map(text).collect()
    }

    /// Sets the process sets of a rank. A key has one value, which holds all names.
    fn set_sets(&mut self, rank: Rank, names: Vec<Text>) {
        let value = (!names.is_empty()).then(|| Value::DataArray(DataArray::strings(names)));
        self.set_value(rank, key::PMIX_PSET_NAMES, value);
    }

    /// Returns a value from the data of a rank.
    pub(crate) fn value(&self, rank: Rank, key: KeyName) -> Option<&Value> {
        self.info.value(rank, key)
    }

    /// Sets or removes a value in the data of a rank.
    pub(crate) fn set_value(&mut self, rank: Rank, key: KeyName, value: Option<Value>) {
        self.info.set(rank, &Key::from(key), value);
    }
}
