//! What a server tells a client of a job: the answer to its first request.
use crate::{Kval, Nspace, Proc, Rank, Size};
use std::{ops::Deref, sync::Arc};

/// One entry of job data, in the order in which they travel.
#[derive(Clone, PartialEq, Debug)]
pub enum JobEntry {
    /// A value of the job, its session, a node or an application (the last three are arrays under their own keys).
    Job(Kval),
    /// Values of one rank.
    Rank(Rank, Vec<Kval>),
}

impl JobEntry {
    /// The memory that it takes, in bytes, nearly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            JobEntry::Job(kval) => Size::of_kval(kval).bytes,
            JobEntry::Rank(_, kvals) => kvals.iter().map(|kval| Size::of_kval(kval).bytes).sum(),
        }
    }
}

/// The data of a job (`pmix-wire.md`, section 6).
#[derive(Clone, PartialEq, Debug)]
pub struct JobInfo {
    /// The job.
    pub nspace: Nspace,
    /// What is known of it.
    pub entries: Vec<JobEntry>,
}

/// What one proc has put, as an answer to a get.
#[derive(Clone, PartialEq, Debug)]
pub struct RankData {
    /// The proc, or the whole job for job-level values.
    pub proc: Proc,
    /// Its values.
    pub kvals: Vec<Kval>,
}

/// What a proc has put, shared by all who are told it, with the memory that it takes worked out once.
#[derive(Clone, PartialEq, Debug)]
pub struct SharedData(Arc<(RankData, usize)>);

impl SharedData {
    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.1
    }

    /// The data, copied only if somebody else has them too.
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
