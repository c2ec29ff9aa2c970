//! What a server tells a client of a job: the answer to its first request.
use crate::{Kval, Nspace, Proc, Rank};

/// One entry of job data, in the order in which they travel.
#[derive(Clone, PartialEq, Debug)]
pub enum JobEntry {
    /// A value of the job, its session, a node or an application (the last three are arrays under their own keys).
    Job(Kval),
    /// Values of one rank.
    Rank(Rank, Vec<Kval>),
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
