//! Replies: nearly always a status, then the requested data.
//!
//! Peal adds the result of each channel to the reply to a log request. `libpmix` reads the status
//! and ignores the rest.
use crate::{GroupReply, WireError, job_data, reader::MessageReader, writer::MessageWriter};
use peal_model::{CommandCode as C, GroupResult, Reply, Status};

/// Context id that means "none" where a release always sends one.
const NO_CONTEXT_ID: u64 = u64::MAX;

/// Reads a whole reply. One that is only a status is [`Reply::Status`], whatever the command.
/// Returns an error for `DeregisterEvents`, which has no reply.
pub(crate) fn read(r: &mut MessageReader<'_>, command: C) -> Result<Reply, WireError> {
    let reply = match command {
        C::JobData => Reply::JobData(job_data::job(r)?.into()),
        C::DeregisterEvents => {
            return Err(WireError::ReplyMismatch {
                command,
                reply: "a message",
            });
        }
        _ => with_status(r, command)?,
    };
    r.finish("a reply")?;
    Ok(reply)
}

fn with_status(r: &mut MessageReader<'_>, command: C) -> Result<Reply, WireError> {
    let status = r.one()?;
    // Errors are sent as a status alone. `libpmix` answers some requests, such as a registration
    // for cleanup, with a status alone after a success, too.
    if r.is_empty() {
        return Ok(Reply::Status(status));
    }
    Ok(match command {
        C::Get => Reply::Data {
            status,
            ranks: job_data::ranks(r)?.into_iter().map(Into::into).collect(),
        },
        C::Lookup => Reply::Published {
            status,
            data: r.counted()?,
        },
        C::Spawn => Reply::Spawned {
            status,
            // The namespace is in error replies as well; it may be NULL there.
            nspace: r.one()?,
            kvals: r.until_end()?,
        },
        C::Connect => Reply::Connected {
            status,
            jobs: job_data::jobs(r)?,
        },
        C::Query
        | C::Log
        | C::Allocate
        | C::JobControl
        | C::Monitor
        | C::ValidateCredential
        | C::FabricRegister
        | C::FabricUpdate
        | C::SessionControl => Reply::Infos {
            status,
            infos: r.counted()?,
        },
        C::GetCredential => Reply::Credential {
            status,
            credential: r.one()?,
            infos: r.counted()?,
        },
        C::IofPull => Reply::IofHandle {
            status,
            remote_id: r.one()?,
        },
        C::GroupConstruct => group(r, status)?,
        C::DeviceDistances => Reply::Distances {
            status,
            distances: r.counted()?,
        },
        C::RefreshCache => Reply::Kvals {
            status,
            kvals: r.until_end()?,
        },
        C::ResolvePeers => Reply::Procs {
            status,
            procs: r.counted()?,
        },
        C::ResolveNode => Reply::Nodes {
            status,
            nodes: r.one()?,
        },
        _ => Reply::Status(status),
    })
}

fn group(r: &mut MessageReader<'_>, status: Status) -> Result<Reply, WireError> {
    let form = r.codec().dialect.group_reply();
    let members = if form == GroupReply::Id {
        Vec::new()
    } else {
        r.counted()?
    };
    let context_id = match form {
        GroupReply::MembersIdInfos if !r.one::<bool>()? => None,
        GroupReply::MembersIdInfos => Some(r.one()?),
        _ => Some(r.one()?).filter(|id| *id != NO_CONTEXT_ID),
    };
    let jobs = if form == GroupReply::MembersIdJobs {
        job_data::jobs(r)?
    } else {
        Vec::new()
    };
    // Servers of 6.0 end here and send no infos.
    let infos = if form == GroupReply::MembersIdInfos && !r.is_empty() {
        r.counted_singly()?
    } else {
        Vec::new()
    };
    Ok(Reply::Group(
        GroupResult {
            status,
            members,
            context_id,
            jobs,
            infos,
        }
        .into(),
    ))
}

/// Writes a whole reply. Returns an error if it is not a reply to the command.
pub(crate) fn write(w: &mut MessageWriter<'_>, command: C, reply: &Reply) -> Result<(), WireError> {
    match (command, reply) {
        (C::JobData, Reply::JobData(job)) => return job_data::put_job(w, job),
        // The reply to `JobData` has no status, and `DeregisterEvents` has no reply.
        (C::JobData | C::DeregisterEvents, _) => return mismatch(command, reply),
        _ => w.one(&reply.status())?,
    }
    match (command, reply) {
        // Reply handlers of `libpmix` read the status first and stop at an error.
        (_, Reply::Status(_)) => Ok(()),
        (C::Get, Reply::Data { ranks, .. }) => job_data::put_ranks(w, ranks),
        (C::Lookup, Reply::Published { data, .. }) => w.counted(data),
        (C::Spawn, Reply::Spawned { nspace, kvals, .. }) => {
            w.one(nspace)?;
            w.each(kvals)
        }
        (C::Connect, Reply::Connected { jobs, .. }) => job_data::put_jobs(w, jobs),
        (
            C::Query
            | C::Log
            | C::Allocate
            | C::JobControl
            | C::Monitor
            | C::ValidateCredential
            | C::FabricRegister
            | C::FabricUpdate
            | C::SessionControl,
            Reply::Infos { infos, .. },
        ) => w.counted(infos),
        (
            C::GetCredential,
            Reply::Credential {
                credential, infos, ..
            },
        ) => {
            w.one(credential)?;
            w.counted(infos)
        }
        (C::IofPull, Reply::IofHandle { remote_id, .. }) => w.one(remote_id),
        // These replies have no room for the reason of a failure, which the result contains.
        (C::GroupDestruct | C::GroupLeave, Reply::Group(_)) => Ok(()),
        // Releases before 6 read members whatever the status is, and would assume that the group
        // exists.
        (C::GroupConstruct, Reply::Group(result))
            if result.status.ok().is_err()
                && w.codec().dialect.group_reply() != GroupReply::MembersIdInfos =>
        {
            Ok(())
        }
        (C::GroupConstruct, Reply::Group(result)) => put_group(w, result),
        (C::DeviceDistances, Reply::Distances { distances, .. }) => w.counted(distances),
        (C::RefreshCache, Reply::Kvals { kvals, .. }) => w.each(kvals),
        (C::ResolvePeers, Reply::Procs { procs, .. }) => w.counted(procs),
        (C::ResolveNode, Reply::Nodes { nodes, .. }) => w.one(nodes),
        _ => mismatch(command, reply),
    }
}

/// Writes the parts of a group's result that the client's release reads.
fn put_group(w: &mut MessageWriter<'_>, result: &GroupResult) -> Result<(), WireError> {
    let GroupResult {
        members,
        context_id,
        jobs,
        infos,
        ..
    } = result;
    let form = w.codec().dialect.group_reply();
    if form != GroupReply::Id {
        w.counted(members)?;
    }
    if form == GroupReply::MembersIdInfos {
        w.one(&context_id.is_some())?;
        context_id.iter().try_for_each(|id| w.one(id))?;
        return w.counted_singly(infos);
    }
    // Releases before 6 read a number in any case. Without the field, 4.2.2 reports garbage as the
    // context id.
    w.one(&context_id.unwrap_or(NO_CONTEXT_ID))?;
    if form == GroupReply::MembersIdJobs {
        job_data::put_jobs(w, jobs)
    } else {
        Ok(())
    }
}

fn mismatch(command: C, reply: &Reply) -> Result<(), WireError> {
    let reply = match reply {
        Reply::JobData(_) => "job data",
        Reply::Status(_) => "a status",
        Reply::Data { .. } => "rank data",
        Reply::Published { .. } => "published data",
        Reply::Spawned { .. } => "a spawned namespace",
        Reply::Connected { .. } => "job data of connected namespaces",
        Reply::Infos { .. } => "infos",
        Reply::Credential { .. } => "a credential",
        Reply::IofHandle { .. } => "an IOF handle",
        Reply::Group(_) => "a group",
        Reply::Distances { .. } => "distances",
        Reply::Kvals { .. } => "values",
        Reply::Procs { .. } => "procs",
        Reply::Nodes { .. } => "nodes",
    };
    Err(WireError::ReplyMismatch { command, reply })
}
