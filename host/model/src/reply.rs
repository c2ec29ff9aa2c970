//! Replies of a server.
use crate::{
    Bytes, DeviceDistance, Info, JobEntry, JobInfo, Kval, Nspace, Pdata, Proc, SharedData, Size,
    Status, Text, Value,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Result of a group construct, shared by all replies that contain it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupResult {
    /// Status of the construct.
    pub status: Status,
    /// Members in their order.
    pub members: Vec<Proc>,
    /// Context id, if one was requested.
    pub context_id: Option<u64>,
    /// Jobs of the members.
    pub jobs: Vec<JobInfo>,
    /// Infos of the members, or the reason of the failure.
    pub infos: Vec<Info>,
}

/// Reply to a request. All except job data begin with a status; the rest depends on the request.
#[derive(Clone, PartialEq, Debug)]
#[allow(
    missing_docs,
    reason = "the members are the results of the API call that the request names"
)]
#[derive(Serialize, Deserialize)]
pub enum Reply {
    /// Reply to JobData. It has no status: an error closes the connection.
    JobData(Arc<JobInfo>),
    /// Reply that is only a status: an error, or a success without data. It is valid for every
    /// request.
    Status(Status),
    /// Reply to Get: the data of each requested proc.
    Data {
        status: Status,
        ranks: Vec<SharedData>,
    },
    /// Reply to Lookup.
    Published { status: Status, data: Vec<Pdata> },
    /// Reply to Spawn.
    Spawned {
        status: Status,
        nspace: Option<Nspace>,
        kvals: Vec<Kval>,
    },
    /// Reply to Connect: the job data of each other namespace in it.
    Connected { status: Status, jobs: Vec<JobInfo> },
    /// Reply to Query, Log, Allocate, JobControl, Monitor, ValidateCredential, FabricRegister,
    /// FabricUpdate or SessionControl.
    Infos { status: Status, infos: Vec<Info> },
    /// Reply to GetCredential.
    Credential {
        status: Status,
        credential: Bytes,
        infos: Vec<Info>,
    },
    /// Reply to IofPull.
    IofHandle { status: Status, remote_id: u64 },
    /// Reply to GroupConstruct. The client's release determines which parts are sent.
    Group(Arc<GroupResult>),
    /// Reply to DeviceDistances.
    Distances {
        status: Status,
        distances: Vec<DeviceDistance>,
    },
    /// Reply to RefreshCache.
    Kvals { status: Status, kvals: Vec<Kval> },
    /// Reply to ResolvePeers.
    Procs { status: Status, procs: Vec<Proc> },
    /// Reply to ResolveNode: node names separated by commas.
    Nodes { status: Status, nodes: Option<Text> },
}

impl Reply {
    /// Returns the status; job data count as success.
    pub fn status(&self) -> Status {
        match self {
            // An error closes the connection, so job data that are sent are a success.
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

    /// Returns the approximate memory that the reply takes, in bytes. Job data of a `JobData` reply
    /// do not count: they exist once for all replies.
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
                    // `Size::of` counts the value, but not the proc and the key around it.
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
                    // Cloned to share the one function that knows the sizes of compound types.
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
