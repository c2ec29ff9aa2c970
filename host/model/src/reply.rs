//! What a server answers.
use crate::{
    Bytes, DeviceDistance, Info, JobEntry, JobInfo, Kval, Nspace, Pdata, Proc, SharedData, Size,
    Status, Text, Value,
};
use std::sync::Arc;

/// How the construct of a group ended, shared by all who are told the same.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupResult {
    /// Whether it is there.
    pub status: Status,
    /// Who is in it, in their order.
    pub members: Vec<Proc>,
    /// Its number, if one was asked for.
    pub context_id: Option<u64>,
    /// The jobs of its members.
    pub jobs: Vec<JobInfo>,
    /// What members say of themselves, or why it is not there.
    pub infos: Vec<Info>,
}

/// The answer to a request. All but the job data begin with a status; what follows it depends on the request.
#[derive(Clone, PartialEq, Debug)]
#[allow(
    missing_docs,
    reason = "the members are the results of the API call that the request names"
)]
pub enum Reply {
    /// To JobData. It has no status: an error is shown by closing the connection.
    JobData(Arc<JobInfo>),
    /// The short form: an error, or a success that carries nothing. Always understood.
    Status(Status),
    /// To Get: what is known of each proc asked for.
    Data {
        status: Status,
        ranks: Vec<SharedData>,
    },
    /// To Lookup.
    Published { status: Status, data: Vec<Pdata> },
    /// To Spawn.
    Spawned {
        status: Status,
        nspace: Option<Nspace>,
        kvals: Vec<Kval>,
    },
    /// To Connect: the job data of each other namespace that takes part.
    Connected { status: Status, jobs: Vec<JobInfo> },
    /// To Query, Log, Allocate, JobControl, Monitor, ValidateCredential, FabricRegister, FabricUpdate, SessionControl.
    Infos { status: Status, infos: Vec<Info> },
    /// To GetCredential.
    Credential {
        status: Status,
        credential: Bytes,
        infos: Vec<Info>,
    },
    /// To IofPull.
    IofHandle { status: Status, remote_id: u64 },
    /// To GroupConstruct; which of the members travel depends on the client's release.
    Group(Arc<GroupResult>),
    /// To DeviceDistances.
    Distances {
        status: Status,
        distances: Vec<DeviceDistance>,
    },
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
            | Reply::Distances { status, .. }
            | Reply::Kvals { status, .. }
            | Reply::Procs { status, .. }
            | Reply::Nodes { status, .. } => *status,
            Reply::Group(result) => result.status,
        }
    }

    /// The memory that it takes, in bytes, nearly. Job data are there once, however many are told.
    pub fn bytes(&self) -> usize {
        let infos = |infos: &[Info]| {
            infos
                .iter()
                .map(|info| Size::of_info(info).bytes)
                .sum::<usize>()
        };
        let kvals = |kvals: &[Kval]| {
            kvals
                .iter()
                .map(|kval| Size::of_kval(kval).bytes)
                .sum::<usize>()
        };
        let jobs = |jobs: &[JobInfo]| {
            jobs.iter()
                .flat_map(|job| &job.entries)
                .map(JobEntry::bytes)
                .sum::<usize>()
        };
        let more = match self {
            Reply::JobData(_) | Reply::Status(_) | Reply::IofHandle { .. } => 0,
            Reply::Data { ranks, .. } => ranks.iter().map(SharedData::bytes).sum(),
            Reply::Published { data, .. } => data
                .iter()
                .map(|data| {
                    size_of::<Pdata>() + Size::of(&data.value).bytes + data.key.as_str().len()
                })
                .sum(),
            Reply::Spawned { kvals: all, .. } | Reply::Kvals { kvals: all, .. } => kvals(all),
            Reply::Connected { jobs: all, .. } => jobs(all),
            Reply::Infos { infos: all, .. } => infos(all),
            Reply::Credential {
                credential,
                infos: all,
                ..
            } => credential.as_slice().len() + infos(all),
            Reply::Group(result) => {
                size_of_val(result.members.as_slice()) + jobs(&result.jobs) + infos(&result.infos)
            }
            Reply::Distances { distances, .. } => {
                let size = |distance: &DeviceDistance| {
                    Size::of(&Value::DeviceDistance(distance.clone().into())).bytes
                };
                distances.iter().map(size).sum()
            }
            Reply::Procs { procs, .. } => size_of_val(procs.as_slice()),
            Reply::Nodes { nodes, .. } => nodes.as_ref().map_or(0, |nodes| nodes.as_bytes().len()),
        };
        size_of::<Reply>().saturating_add(more)
    }
}
