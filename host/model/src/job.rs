//! Job data: the answer of a server to a client's first request.
use crate::{Kval, Nspace, Proc, Rank, Size};
use serde::{Deserialize, Serialize};
use std::{ops::Deref, sync::Arc};

/// Entry of job data, in the order on the wire.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum JobEntry {
    /// Value of the job, its session, a node or an application (the last three are arrays with keys
    /// of their own).
    Job(Kval),
    /// Values of one rank.
    Rank(Rank, Vec<Kval>),
}

impl JobEntry {
    /// Returns the approximate memory that the entry takes, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            JobEntry::Job(kval) => Size::of_kval(kval).bytes,
            JobEntry::Rank(_, kvals) => kvals.iter().map(|kval| Size::of_kval(kval).bytes).sum(),
        }
    }
}

/// Data of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobInfo {
    /// Namespace of the job.
    pub nspace: Nspace,
    /// Entries of the job data.
    pub entries: Vec<JobEntry>,
}

/// Data that one proc has put, as the answer to a get.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RankData {
    /// The proc, or the whole job for job-level values.
    pub proc: Proc,
    /// Values of the proc.
    pub kvals: Vec<Kval>,
}

/// Data that a proc has put, shared by all answers that contain them. Their memory is computed
/// once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SharedData(Arc<(RankData, usize)>);

impl SharedData {
    /// Returns the memory that the data take, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.1
    }

    /// Returns the data, copied only if they are shared.
    pub fn into_inner(self) -> RankData {
        Arc::try_unwrap(self.0).map_or_else(|shared| shared.0.clone(), |(data, _)| data)
    }
}

impl From<RankData> for SharedData {
    fn from(data: RankData) -> SharedData {
        let bytes = data
            .kvals
            .iter()
            .map(|kval| Size::of_kval(kval).bytes)
            .sum();
        SharedData(Arc::new((data, bytes)))
    }
}

impl Deref for SharedData {
    type Target = RankData;

    fn deref(&self) -> &RankData {
        &self.0.0
    }
}
