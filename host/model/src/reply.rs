//! What a server answers.
use crate::{Bytes, DeviceDistance, Info, JobInfo, Kval, Nspace, Pdata, Proc, RankData, Status, Text};
use std::sync::Arc;

/// The answer to a request. All but the job data begin with a status; what follows it depends on the request.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "the members are the results of the API call that the request names")]
pub enum Reply {
    /// To JobData. It has no status: an error is shown by closing the connection.
    JobData(Arc<JobInfo>),
    /// The short form: an error, or a success that carries nothing. Always understood.
    Status(Status),
    /// To Get: what is known of each proc asked for.
    Data { status: Status, ranks: Vec<RankData> },
    /// To Lookup.
    Published { status: Status, data: Vec<Pdata> },
    /// To Spawn.
    Spawned { status: Status, nspace: Option<Nspace>, kvals: Vec<Kval> },
    /// To Connect: the job data of each other namespace that takes part.
    Connected { status: Status, jobs: Vec<JobInfo> },
    /// To Query, Allocate, JobControl, Monitor, ValidateCredential, FabricRegister, FabricUpdate, SessionControl.
    Infos { status: Status, infos: Vec<Info> },
    /// To GetCredential.
    Credential { status: Status, credential: Bytes, infos: Vec<Info> },
    /// To IofPull.
    IofHandle { status: Status, remote_id: u64 },
    /// To GroupConstruct; which of the members travel depends on the client's release.
    Group { status: Status, members: Vec<Proc>, context_id: Option<u64>, jobs: Vec<JobInfo>, infos: Vec<Info> },
    /// To DeviceDistances.
    Distances { status: Status, distances: Vec<DeviceDistance> },
    /// To RefreshCache.
    Kvals { status: Status, kvals: Vec<Kval> },
    /// To ResolvePeers.
    Procs { status: Status, procs: Vec<Proc> },
    /// To ResolveNode: a comma list.
    Nodes { status: Status, nodes: Option<Text> },
}

impl Reply {
    /// The status it begins with; job data count as success.
    pub fn status(&self) -> Status {
        match self {
            Reply::JobData(_) => crate::code::PMIX_SUCCESS,
            Reply::Status(status)
            | Reply::Data { status, .. }
            | Reply::Published { status, .. }
            | Reply::Spawned { status, .. }
            | Reply::Connected { status, .. }
            | Reply::Infos { status, .. }
            | Reply::Credential { status, .. }
            | Reply::IofHandle { status, .. }
            | Reply::Group { status, .. }
            | Reply::Distances { status, .. }
            | Reply::Kvals { status, .. }
            | Reply::Procs { status, .. }
            | Reply::Nodes { status, .. } => *status,
        }
    }
}
