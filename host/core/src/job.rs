//! A job as its server knows it, and the job data that its procs are told.
use peal_model::{DataArray, Info, JobEntry, JobInfo, Key, KeyName, Kval, Nspace, Proc, Rank, RankData, Value, key};
use std::{collections::BTreeMap, sync::Arc};

/// A job on one node, as the host environment describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSpec {
    /// Its namespace.
    pub nspace: Nspace,
    /// How many procs it has, all of them on this node.
    pub size: u32,
    /// The node's name.
    pub hostname: String,
    /// User that its procs run as.
    pub uid: u32,
    /// Group that its procs run as.
    pub gid: u32,
}

impl JobSpec {
    /// Its ranks.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.size).map(Rank)
    }

    /// The job data of `pmix-wire.md` section 6: what a `libpmix` program and Open MPI look for on one node.
    pub fn job_info(&self) -> JobInfo {
        let (size, host) = (self.size, self.hostname.as_str());
        let peers = self.ranks().map(|rank| rank.0.to_string()).collect::<Vec<_>>().join(",");
        let mut entries = vec![
            job(key::PMIX_JOB_SIZE, Value::Uint32(size)),
            job(key::PMIX_UNIV_SIZE, Value::Uint32(size)),
            job(key::PMIX_MAX_PROCS, Value::Uint32(size)),
            job(key::PMIX_JOBID, Value::string(self.nspace.as_str())),
            job(key::PMIX_NUM_NODES, Value::Uint32(1)),
            job(key::PMIX_NODE_LIST, Value::string(host)),
            job(key::PMIX_JOB_NUM_APPS, Value::Uint32(1)),
            array(
                key::PMIX_NODE_INFO_ARRAY,
                vec![
                    Info::new(key::PMIX_HOSTNAME, Value::string(host)),
                    Info::new(key::PMIX_NODEID, Value::Uint32(0)),
                    Info::new(key::PMIX_LOCAL_SIZE, Value::Uint32(size)),
                    Info::new(key::PMIX_NODE_SIZE, Value::Uint32(size)),
                    Info::new(key::PMIX_LOCAL_PEERS, Value::string(&peers)),
                    Info::new(key::PMIX_LOCALLDR, Value::Rank(Rank(0))),
                ],
            ),
            array(
                key::PMIX_APP_INFO_ARRAY,
                vec![
                    Info::new(key::PMIX_APPNUM, Value::Uint32(0)),
                    Info::new(key::PMIX_APP_SIZE, Value::Uint32(size)),
                    Info::new(key::PMIX_APPLDR, Value::Rank(Rank(0))),
                ],
            ),
        ];
        entries.extend(self.ranks().map(|rank| JobEntry::Rank(rank, self.rank_values(rank))));
        JobInfo { nspace: self.nspace.clone(), entries }
    }

    fn rank_values(&self, rank: Rank) -> Vec<Kval> {
        let on_node = u16::try_from(rank.0).unwrap_or(u16::MAX);
        vec![
            Kval::new(key::PMIX_LOCAL_RANK, Value::Uint16(on_node)),
            Kval::new(key::PMIX_NODE_RANK, Value::Uint16(on_node)),
            Kval::new(key::PMIX_APPNUM, Value::Uint32(0)),
            Kval::new(key::PMIX_APP_RANK, Value::Rank(rank)),
            Kval::new(key::PMIX_GLOBAL_RANK, Value::Rank(rank)),
            Kval::new(key::PMIX_HOSTNAME, Value::string(&self.hostname)),
            Kval::new(key::PMIX_NODEID, Value::Uint32(0)),
        ]
    }
}

fn job(key: KeyName, value: Value) -> JobEntry {
    JobEntry::Job(Kval::new(key, value))
}

fn array(key: KeyName, infos: Vec<Info>) -> JobEntry {
    job(key, Value::DataArray(DataArray::infos(infos)))
}

/// Where a proc is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Registered by the host, not yet connected.
    Expected,
    /// Connected, by so many connections (a proc's descendants may connect as its clones).
    Connected(u32),
    /// Left in order.
    Finalized,
    /// Lost its connection, or was reported as ended, without having left in order.
    Lost,
}

/// How far the procs of a job are: how many are in which part of their lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Census {
    /// The job.
    pub spec: JobSpec,
    /// Not yet connected.
    pub expected: u32,
    /// Connected.
    pub connected: u32,
    /// Left in order.
    pub finalized: u32,
    /// Ended, or lost their connection, without.
    pub lost: u32,
}

/// A job and its procs.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) spec: JobSpec,
    pub(crate) info: Arc<JobInfo>,
    pub(crate) procs: BTreeMap<Rank, Life>,
}

impl Job {
    pub(crate) fn new(spec: JobSpec) -> Job {
        let procs = spec.ranks().map(|rank| (rank, Life::Expected)).collect();
        Job { info: Arc::new(spec.job_info()), procs, spec }
    }

    pub(crate) fn census(&self) -> Census {
        let mut census = Census { spec: self.spec.clone(), expected: 0, connected: 0, finalized: 0, lost: 0 };
        for life in self.procs.values() {
            *match life {
                Life::Expected => &mut census.expected,
                Life::Connected(_) => &mut census.connected,
                Life::Finalized => &mut census.finalized,
                Life::Lost => &mut census.lost,
            } += 1;
        }
        census
    }

    /// What a rank is told from now on of the checkpoint from which it goes on (`PMIX_JOB_CTRL_RESTART`), if from one.
    pub(crate) fn restarts(&mut self, rank: Rank, checkpoint: Option<&str>) {
        let mut info = (*self.info).clone();
        for entry in &mut info.entries {
            if let JobEntry::Rank(of, kvals) = entry
                && *of == rank
            {
                kvals.retain(|kval| kval.key != key::PMIX_JOB_CTRL_RESTART);
                kvals.extend(checkpoint.map(|id| Kval::new(key::PMIX_JOB_CTRL_RESTART, Value::string(id))));
            }
        }
        self.info = Arc::new(info);
    }
}

/// What the host said of one rank, or of the job as a whole for the wildcard rank.
pub(crate) fn values_of(info: &JobInfo, proc: &Proc) -> RankData {
    RankData { proc: proc.clone(), kvals: said_of(info, proc).cloned().collect() }
}

/// Whether the host said something of this key about a rank, or about the job.
pub(crate) fn says(info: &JobInfo, proc: &Proc, key: &Key) -> bool {
    said_of(info, proc).any(|kval| kval.key == *key)
}

/// The procs of which the host said anything.
pub(crate) fn procs_of(info: &JobInfo) -> impl Iterator<Item = Proc> {
    info.entries.iter().filter_map(|entry| match entry {
        JobEntry::Rank(rank, _) => Some(Proc::new(info.nspace.clone(), *rank)),
        JobEntry::Job(_) => None,
    })
}

fn said_of<'a>(info: &'a JobInfo, proc: &Proc) -> impl Iterator<Item = &'a Kval> {
    let rank = proc.rank;
    info.entries.iter().flat_map(move |entry| match entry {
        JobEntry::Rank(of, kvals) if *of == rank => kvals.as_slice(),
        JobEntry::Job(kval) if !rank.is_valid() => std::slice::from_ref(kval),
        _ => &[],
    })
}
