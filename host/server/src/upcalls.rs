//! Dispatch of requests to the methods of the host environment, and conversion of the results to
//! replies.
use crate::{
    host_environment::{HostEnvironment, HostFindings, Spawned, UpcallFuture},
    other_servers::OtherServers,
};
use peal_core::job_control::Cleanup;
use peal_model::{App, Info, Proc, Query, Reply, Request, Status, Text, UserIdentity, code};

/// Requester of an upcall, with the part of a query's answer that the server contributes.
pub(crate) struct UpcallRequester {
    pub(crate) source: Proc,
    /// User that the requester runs as.
    pub(crate) identity: Option<UserIdentity>,
    /// Answers of the server itself to a query: those about job-control requests, groups, process
    /// sets, supported attributes and log channels that the requester may see.
    pub(crate) known: Vec<Info>,
    pub(crate) servers: OtherServers,
}

/// Passes a request to the host environment and returns the reply.
pub(crate) async fn make(
    host: &dyn HostEnvironment,
    asker: UpcallRequester,
    request: Request,
) -> Reply {
    answer(host, asker, request)
        .await
        .unwrap_or_else(Reply::Status)
}

/// Passes a request about published data to the host environment. Returns none if the server itself
/// carries it out.
pub(crate) async fn published(
    host: &dyn HostEnvironment,
    source: &Proc,
    request: &Request,
) -> Option<Reply> {
    let answer = match request {
        Request::Publish { uid, infos } => done(host.publish(source, *uid, infos)?).await,
        Request::Lookup { uid, keys, infos } => {
            let found = host.lookup(source, *uid, &present(keys), infos)?.await;
            found.map(|data| Reply::Published {
                status: code::PMIX_SUCCESS,
                data,
            })
        }
        Request::Unpublish { uid, keys, infos } => {
            done(host.unpublish(source, *uid, &present(keys), infos)?).await
        }
        _ => return None,
    };
    match answer {
        Err(code::PMIX_ERR_NOT_SUPPORTED) => None,
        answer => Some(answer.unwrap_or_else(Reply::Status)),
    }
}

/// Tells the host environment that a proc has finalized. The proc has left whatever the host
/// environment answers.
pub(crate) async fn report_finalize(host: &dyn HostEnvironment, proc: Proc) -> Reply {
    if let Err(status) = host.client_finalized(proc.clone()).await {
        tracing::warn!(%proc, %status, "host environment refuses the finalize of a proc");
    }
    Reply::Status(code::PMIX_SUCCESS)
}

/// Registers a cleanup with the host environment.
pub(crate) async fn clean_up(
    host: &dyn HostEnvironment,
    source: Proc,
    identity: UserIdentity,
    cleanup: Cleanup,
) -> Reply {
    Reply::Status(
        host.register_cleanup(source, identity, cleanup)
            .await
            .err()
            .unwrap_or(code::PMIX_SUCCESS),
    )
}

async fn answer(
    host: &dyn HostEnvironment,
    asker: UpcallRequester,
    request: Request,
) -> Result<Reply, Status> {
    let UpcallRequester {
        source,
        identity,
        known: own,
        servers,
    } = asker;
    let success = code::PMIX_SUCCESS;
    match request {
        Request::Abort {
            status,
            message,
            targets,
        } => done(host.abort(source, status, message, targets)).await,
        Request::Spawn { infos, apps } => {
            match spawned(host, source, identity, infos, apps).await {
                Ok(new) => Ok(Reply::Spawned {
                    status: success,
                    nspace: Some(new.nspace),
                    kvals: new.kvals,
                }),
                // Requesters expect the namespace in error replies, too.
                Err(status) => Ok(Reply::Spawned {
                    status,
                    nspace: None,
                    kvals: Vec::new(),
                }),
            }
        }
        Request::Query { queries } => {
            let identity = identity.ok_or(code::PMIX_ERR_NO_PERMISSIONS)?;
            let requested = queries.iter().map(|query| query.keys.len()).sum();
            let queries = without_answered(queries, &own);
            if queries.is_empty() {
                return query_reply(HostFindings::whole(own), requested);
            }
            let mut found = match host.query(source, identity, queries, servers).await {
                // The answers of the server remain if the host environment has none.
                Err(code::PMIX_ERR_NOT_SUPPORTED | code::PMIX_ERR_NOT_FOUND) if !own.is_empty() => {
                    HostFindings::whole(Vec::new())
                }
                answer => answer?,
            };
            found.infos.extend(own);
            query_reply(found, requested)
        }
        Request::Allocate {
            directive,
            infos: details,
        } => infos(host.allocate(source, directive, details)).await,
        Request::Monitor {
            monitor,
            error,
            directives,
        } => infos(host.monitor(source, monitor, error, directives)).await,
        Request::GetCredential { directives } => {
            let (credential, infos) = host.get_credential(source, directives).await?;
            Ok(Reply::Credential {
                status: success,
                credential,
                infos,
            })
        }
        Request::ValidateCredential {
            credential,
            directives,
        } => infos(host.validate_credential(source, credential, directives)).await,
        Request::IofPull {
            sources,
            directives,
            channels,
            local_id,
        } => {
            let remote_id = host
                .iof_pull(source, sources, directives, channels, local_id)
                .await?;
            Ok(Reply::IofHandle {
                status: success,
                remote_id,
            })
        }
        Request::IofPush {
            targets,
            directives,
            data,
        } => done(host.push_stdin(source, targets, directives, data)).await,
        Request::IofDeregister {
            directives,
            remote_id,
        } => done(host.iof_deregister(source, directives, remote_id)).await,
        Request::FabricRegister { directives } => infos(host.fabric(source, directives)).await,
        Request::ResourceBlock {
            directive,
            block,
            units,
            infos,
        } => done(host.resource_block(source, directive, block, units, infos)).await,
        Request::SessionControl {
            session,
            infos: details,
        } => infos(host.session_control(source, session, details)).await,
        // The server processes these itself, passes them on elsewhere, or does not support them.
        Request::JobData
        | Request::GroupConstruct { .. }
        | Request::GroupDestruct { .. }
        | Request::JobControl { .. }
        | Request::Log { .. }
        | Request::Commit(_)
        | Request::Fence { .. }
        | Request::Connect { .. }
        | Request::Disconnect { .. }
        | Request::Get { .. }
        | Request::Finalize
        | Request::Publish { .. }
        | Request::Lookup { .. }
        | Request::Unpublish { .. }
        | Request::Notify { .. }
        | Request::RegisterEvents { .. }
        | Request::DeregisterEvents { .. }
        | Request::GroupLeave { .. }
        | Request::FabricUpdate { .. }
        | Request::DeviceDistances { .. }
        | Request::RefreshCache { .. }
        | Request::ResolvePeers { .. }
        | Request::ResolveNode { .. } => Err(code::PMIX_ERR_NOT_SUPPORTED),
    }
}

async fn spawned(
    host: &dyn HostEnvironment,
    source: Proc,
    identity: Option<UserIdentity>,
    infos: Vec<Info>,
    apps: Vec<App>,
) -> Result<Spawned, Status> {
    host.spawn(
        source,
        identity.ok_or(code::PMIX_ERR_NO_PERMISSIONS)?,
        infos,
        apps,
    )
    .await
}

async fn done(answer: UpcallFuture<'_, ()>) -> Result<Reply, Status> {
    answer.await.map(|()| Reply::Status(code::PMIX_SUCCESS))
}

async fn infos(answer: UpcallFuture<'_, Vec<Info>>) -> Result<Reply, Status> {
    answer.await.map(|infos| Reply::Infos {
        status: code::PMIX_SUCCESS,
        infos,
    })
}

/// Returns the reply to a query of `requested` keys. It is partial if fewer infos were found, or nodes
/// have not answered.
fn query_reply(found: HostFindings, requested: usize) -> Result<Reply, Status> {
    let HostFindings { infos, missing } = found;
    if infos.is_empty() {
        return Err(code::PMIX_ERR_NOT_FOUND);
    }
    let status = if infos.len() < requested || missing.is_some() {
        code::PMIX_ERR_PARTIAL_SUCCESS
    } else {
        code::PMIX_SUCCESS
    };
    Ok(Reply::Infos { status, infos })
}

/// Returns the queries without keys that these infos answer. The host environment is not asked for
/// them.
fn without_answered(mut queries: Vec<Query>, answers: &[Info]) -> Vec<Query> {
    let is_answered = |key: &Option<Text>| {
        let key = key.as_ref().and_then(Text::as_str);
        key.is_some_and(|key| answers.iter().any(|info| info.key.as_str() == key))
    };
    for query in &mut queries {
        query.keys.retain(|key| !is_answered(key));
    }
    queries.retain(|query| !query.keys.is_empty());
    queries
}

fn present(keys: &[Option<Text>]) -> Vec<Text> {
    keys.iter().flatten().cloned().collect()
}
