//! Requests: a command and its arguments.
use crate::{
    GroupDestruct, WireError, job_data,
    packed::{AllocDirective, CommandNumber, Cpuset, PackedTime, ResourceBlockDirective},
    reader::MessageReader,
    writer::MessageWriter,
};
use peal_model::{CommandCode as C, Info, Proc, Request};

/// Reads a whole request.
pub(crate) fn read(r: &mut MessageReader<'_>) -> Result<Request, WireError> {
    let CommandNumber(number) = r.one()?;
    let command = C::try_from(number).map_err(|_| WireError::UnknownCommand { number })?;
    let request = arguments(r, command)?;
    r.finish("a request")?;
    Ok(request)
}

fn arguments(r: &mut MessageReader<'_>, command: C) -> Result<Request, WireError> {
    Ok(match command {
        C::JobData => Request::JobData,
        C::Abort => Request::Abort {
            status: r.one()?,
            message: r.one()?,
            targets: r.counted()?,
        },
        C::Commit => Request::Commit(r.list_until_end("commit", job_data::commit)?),
        C::Fence => Request::Fence {
            procs: r.counted()?,
            infos: r.counted()?,
        },
        C::Get => {
            let proc = Proc::new(r.one()?, r.one()?);
            Request::Get {
                proc,
                infos: r.counted()?,
                // Old clients leave the key out. NULL asks for all values as well.
                key: r.one_or_end()?.flatten(),
            }
        }
        C::Finalize => Request::Finalize,
        C::Publish => Request::Publish {
            uid: r.one()?,
            infos: r.counted()?,
        },
        C::Lookup => Request::Lookup {
            uid: r.one()?,
            // `libpmix` packs each key as a field of its own.
            keys: r.counted_singly()?,
            infos: r.counted()?,
        },
        C::Unpublish => Request::Unpublish {
            uid: r.one()?,
            keys: r.counted_singly()?,
            infos: r.counted()?,
        },
        C::Spawn => Request::Spawn {
            infos: r.counted()?,
            apps: r.counted()?,
        },
        C::Connect => {
            let procs = r.counted()?;
            let mut infos = r.counted()?;
            // From 6.0 on, the data that the proc has put for other nodes and its job data follow.
            infos.extend(r.until_end::<Info>()?);
            Request::Connect { procs, infos }
        }
        C::Disconnect => Request::Disconnect {
            procs: r.counted()?,
            infos: r.counted()?,
        },
        C::Notify => Request::Notify {
            code: r.one()?,
            range: r.one()?,
            infos: r.counted()?,
        },
        C::RegisterEvents => Request::RegisterEvents {
            codes: r.counted()?,
            infos: r.counted()?,
        },
        C::DeregisterEvents => Request::DeregisterEvents {
            codes: r.until_end()?,
        },
        C::Query => Request::Query {
            queries: r.counted()?,
        },
        C::Log => {
            let PackedTime(timestamp) = r.one()?;
            Request::Log {
                timestamp,
                data: r.counted()?,
                directives: r.counted()?,
            }
        }
        C::Allocate => {
            let AllocDirective(directive) = r.one()?;
            Request::Allocate {
                directive,
                infos: r.counted()?,
            }
        }
        C::JobControl => Request::JobControl {
            targets: r.counted()?,
            directives: r.counted()?,
        },
        C::Monitor => Request::Monitor {
            monitor: r.one()?,
            error: r.one()?,
            directives: r.counted()?,
        },
        C::GetCredential => Request::GetCredential {
            directives: r.counted()?,
        },
        C::ValidateCredential => Request::ValidateCredential {
            credential: r.one()?,
            directives: r.counted()?,
        },
        C::IofPull => Request::IofPull {
            sources: r.counted()?,
            directives: r.counted()?,
            channels: r.one()?,
            local_id: r.one()?,
        },
        C::IofPush => Request::IofPush {
            targets: r.counted()?,
            directives: r.counted()?,
            // Absent data close the input, as an empty byte object does.
            data: r.one_or_end()?,
        },
        C::IofDeregister => Request::IofDeregister {
            directives: r.counted()?,
            remote_id: r.one()?,
        },
        C::GroupConstruct => Request::GroupConstruct {
            group: r.one()?,
            procs: r.counted()?,
            directives: r.counted()?,
        },
        C::GroupDestruct => {
            let group = r.one()?;
            let members = match r.codec().dialect.group_destruct() {
                GroupDestruct::Short => Vec::new(),
                GroupDestruct::Members => r.counted()?,
            };
            Request::GroupDestruct {
                group,
                members,
                directives: r.counted()?,
            }
        }
        C::GroupLeave => Request::GroupLeave {
            group: r.one()?,
            directives: r.counted()?,
        },
        C::FabricRegister => Request::FabricRegister {
            directives: r.counted()?,
        },
        C::FabricUpdate => Request::FabricUpdate { index: r.one()? },
        C::DeviceDistances => {
            let topology = r.one()?;
            let Cpuset(cpuset) = r.one()?;
            Request::DeviceDistances {
                topology,
                cpuset,
                infos: r.counted()?,
            }
        }
        C::RefreshCache => Request::RefreshCache {
            proc: Proc::new(r.one()?, r.one()?),
        },
        C::ResourceBlock => {
            let ResourceBlockDirective(directive) = r.one()?;
            Request::ResourceBlock {
                directive,
                block: r.one()?,
                units: r.counted()?,
                infos: r.counted()?,
            }
        }
        C::SessionControl => Request::SessionControl {
            session: r.one()?,
            infos: r.counted()?,
        },
        C::ResolvePeers => Request::ResolvePeers {
            node: r.one()?,
            nspace: r.one()?,
        },
        C::ResolveNode => Request::ResolveNode { nspace: r.one()? },
    })
}

/// Writes a whole request.
pub(crate) fn write(w: &mut MessageWriter<'_>, request: &Request) -> Result<(), WireError> {
    let command = request.command();
    w.codec().dialect.check_command(command)?;
    w.one(&CommandNumber(command.number()))?;
    match request {
        Request::JobData | Request::Finalize => Ok(()),
        Request::Abort {
            status,
            message,
            targets,
        } => {
            w.one(status)?;
            w.one(message)?;
            w.counted(targets)
        }
        Request::Commit(commits) => commits
            .iter()
            .try_for_each(|commit| job_data::put_commit(w, commit)),
        Request::Fence { procs, infos }
        | Request::Connect { procs, infos }
        | Request::Disconnect { procs, infos } => {
            w.counted(procs)?;
            w.counted(infos)
        }
        Request::Get { proc, infos, key } => {
            w.one(&proc.nspace)?;
            w.one(&proc.rank)?;
            w.counted(infos)?;
            w.one(key)
        }
        Request::Publish { uid: number, infos }
        | Request::SessionControl {
            session: number,
            infos,
        } => {
            w.one(number)?;
            w.counted(infos)
        }
        Request::Lookup { uid, keys, infos } | Request::Unpublish { uid, keys, infos } => {
            w.one(uid)?;
            w.counted_singly(keys)?;
            w.counted(infos)
        }
        Request::Spawn { infos, apps } => {
            w.counted(infos)?;
            w.counted(apps)
        }
        Request::Notify { code, range, infos } => {
            w.one(code)?;
            w.one(range)?;
            w.counted(infos)
        }
        Request::RegisterEvents { codes, infos } => {
            w.counted(codes)?;
            w.counted(infos)
        }
        Request::DeregisterEvents { codes } => w.each(codes),
        Request::Query { queries } => w.counted(queries),
        Request::Log {
            timestamp,
            data,
            directives,
        } => {
            w.one(&PackedTime(*timestamp))?;
            w.counted(data)?;
            w.counted(directives)
        }
        Request::Allocate { directive, infos } => {
            w.one(&AllocDirective(*directive))?;
            w.counted(infos)
        }
        Request::JobControl {
            targets,
            directives,
        } => {
            w.counted(targets)?;
            w.counted(directives)
        }
        Request::Monitor {
            monitor,
            error,
            directives,
        } => {
            w.one(monitor)?;
            w.one(error)?;
            w.counted(directives)
        }
        Request::GetCredential { directives } | Request::FabricRegister { directives } => {
            w.counted(directives)
        }
        Request::ValidateCredential {
            credential,
            directives,
        } => {
            w.one(credential)?;
            w.counted(directives)
        }
        Request::IofPull {
            sources,
            directives,
            channels,
            local_id,
        } => {
            w.counted(sources)?;
            w.counted(directives)?;
            w.one(channels)?;
            w.one(local_id)
        }
        Request::IofPush {
            targets,
            directives,
            data,
        } => {
            w.counted(targets)?;
            w.counted(directives)?;
            data.iter().try_for_each(|data| w.one(data))
        }
        Request::IofDeregister {
            directives,
            remote_id,
        } => {
            w.counted(directives)?;
            w.one(remote_id)
        }
        Request::GroupConstruct {
            group,
            procs,
            directives,
        } => {
            w.one(group)?;
            w.counted(procs)?;
            w.counted(directives)
        }
        Request::GroupDestruct {
            group,
            members,
            directives,
        } => {
            w.one(group)?;
            // In the short form, members would be read as infos.
            if w.codec().dialect.group_destruct() == GroupDestruct::Members {
                w.counted(members)?;
            }
            w.counted(directives)
        }
        Request::GroupLeave { group, directives } => {
            w.one(group)?;
            w.counted(directives)
        }
        Request::FabricUpdate { index } => w.one(index),
        Request::DeviceDistances {
            topology,
            cpuset,
            infos,
        } => {
            w.one(topology)?;
            w.one(&Cpuset(cpuset.clone()))?;
            w.counted(infos)
        }
        Request::RefreshCache { proc } => {
            w.one(&proc.nspace)?;
            w.one(&proc.rank)
        }
        Request::ResourceBlock {
            directive,
            block,
            units,
            infos,
        } => {
            w.one(&ResourceBlockDirective(*directive))?;
            w.one(block)?;
            w.counted(units)?;
            w.counted(infos)
        }
        Request::ResolvePeers { node, nspace } => {
            w.one(node)?;
            w.one(nspace)
        }
        Request::ResolveNode { nspace } => w.one(nspace),
    }
}
