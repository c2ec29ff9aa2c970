//! Host environment of a server whose jobs have several launchers. An upcall about a job goes to the
//! stub that registered it; what that does not support, the server's own host environment does.
use super::{
    local_services::{LocalServices, Puller, StreamPull},
    queries::{HostAnswer, QueriesOfHost, UserQueries},
    remote_host::{self, ContinuedUpcall, RemoteHost, done},
};
use crate::{
    handle::ServerHandle,
    host_environment::{
        ConnectingTool, ContinuedAnswer, EventHandling, HostEnvironment, HostFindings,
        ProcessLookup, Spawned, UpcallFuture, UpcallOverNodes,
    },
    other_servers::OtherServers,
};
use peal_core::{
    group::{GroupKey, GroupOperation},
    job::JobSpec,
    job_control::{Cleanup, ControlOverNodes, ControlResult, JobControl, NotDone},
    server::{FenceId, Purpose},
    supported::Supported,
};
use peal_model::{
    App, Bytes, Event, Info, Infos, IofChannel, Key, KeyName, LogRequest, Nspace, Pdata, Proc,
    Query, ResourceUnit, Status, Text, UserIdentity, Value, code, key,
};
use peal_stub::{HostNotice, HostUpcall, UpcallKind, UpcallResult};
use peal_wire::IofOutput;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

/// Procs of one host environment.
struct ProcsOfHost {
    host: Arc<RemoteHost>,
    procs: Vec<Proc>,
}

/// Output of a proc that a host environment delivers.
pub(super) struct DeliveredOutput {
    pub(super) source: Proc,
    pub(super) channels: IofChannel,
    pub(super) data: Bytes,
    pub(super) infos: Vec<Info>,
}

/// Requester of a spawned job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SpawnRequester {
    Proc,
    Tool,
}

/// Router of upcalls.
pub struct HostRouter {
    pub(super) local: Arc<dyn LocalServices>,
    /// Host environments of registered jobs.
    remotes: RwLock<BTreeMap<Nspace, Arc<RemoteHost>>>,
    /// Host environments of all connections.
    connected: RwLock<Vec<Arc<RemoteHost>>>,
    /// Host environment of all procs and tools, in a server that belongs to one.
    owner: OnceLock<Arc<RemoteHost>>,
}

impl HostRouter {
    /// Creates a router that passes everything to the server's own host environment, until stubs
    /// register jobs.
    pub fn new(local: Arc<dyn LocalServices>) -> HostRouter {
        HostRouter {
            local,
            remotes: RwLock::default(),
            connected: RwLock::default(),
            owner: OnceLock::new(),
        }
    }

    /// Sets the host environment to which the server belongs. It gets upcalls about tools, too, as from
    /// the C library.
    pub(super) fn set_owner(&self, host: Arc<RemoteHost>) {
        // A server belongs to one host environment.
        let _ = self.owner.set(host);
    }

    /// Returns true if the server belongs to one host environment.
    pub(super) fn has_owner(&self) -> bool {
        self.owner.get().is_some()
    }

    /// Adds the host environment of a connection, which has no jobs yet.
    pub(super) fn host_connected(&self, host: Arc<RemoteHost>) {
        // A panic leaves the list as it is, here and below.
        let connected = self.connected.write();
        connected.unwrap_or_else(PoisonError::into_inner).push(host);
    }

    /// Adds jobs of the previous process of this server. The server's own host environment has them.
    pub(super) fn continue_jobs(&self, host: &Arc<RemoteHost>, jobs: &BTreeSet<Nspace>) {
        let mut remotes = self.remotes.write().unwrap_or_else(PoisonError::into_inner);
        remotes.extend(jobs.iter().map(|nspace| (nspace.clone(), host.clone())));
    }

    fn connected(&self) -> Vec<Arc<RemoteHost>> {
        let connected = self.connected.read();
        connected.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a job.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_EXISTS` if another host environment has registered it.
    pub(super) fn add(&self, job: &JobSpec, host: Arc<RemoteHost>) -> Result<(), Status> {
        let mut remotes = self.remotes.write().unwrap_or_else(PoisonError::into_inner);
        if remotes.contains_key(&job.nspace) {
            return Err(code::PMIX_ERR_EXISTS);
        }
        remotes.insert(job.nspace.clone(), host);
        drop(remotes);
        self.local.adopt(job);
        Ok(())
    }

    /// Removes a job.
    pub(super) fn remove(&self, nspace: &Nspace) {
        let mut remotes = self.remotes.write().unwrap_or_else(PoisonError::into_inner);
        let removed = remotes.remove(nspace);
        drop(remotes);
        if removed.is_some() {
            self.local.release(nspace);
        }
    }

    /// Returns the host environment of a requester, if it is at a stub: the one of its job, or the owner
    /// of this server for a tool.
    pub(super) fn remote(&self, nspace: &Nspace) -> Option<Arc<RemoteHost>> {
        self.registered(nspace)
            .or_else(|| self.owner.get().cloned())
    }

    /// Returns the host environment of a job, if a stub has registered it.
    pub(super) fn registered(&self, nspace: &Nspace) -> Option<Arc<RemoteHost>> {
        let remotes = self.remotes.read().unwrap_or_else(PoisonError::into_inner);
        remotes.get(nspace).cloned()
    }

    /// Returns the kind of a requester. Procs belong to a job that a stub has registered.
    fn spawn_requester(&self, source: &Proc) -> SpawnRequester {
        match self.registered(&source.nspace) {
            Some(_) => SpawnRequester::Proc,
            None => SpawnRequester::Tool,
        }
    }

    /// Removes what is kept of the output of a host environment itself.
    pub(super) fn host_ended(&self, host: &RemoteHost) {
        let connected = self.connected.write();
        connected
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|other| !std::ptr::eq(Arc::as_ptr(other), host));
        self.local.release(&host.name.nspace);
    }

    /// Returns the host environment that delivers the output of procs of a namespace: that of the job, or
    /// the one whose own processes they are.
    fn source_host(&self, nspace: &Nspace) -> Option<Arc<RemoteHost>> {
        let own = || {
            let mut all = self.all_remotes().into_iter();
            all.find(|host| host.name.nspace == *nspace)
        };
        self.registered(nspace)
            .or_else(own)
            .or_else(|| self.owner.get().cloned())
    }

    /// Returns the host environments of procs, each with its own procs. Procs of jobs that are at no stub
    /// are left out.
    fn remotes_of(&self, procs: &[Proc]) -> Vec<ProcsOfHost> {
        let mut found: Vec<ProcsOfHost> = Vec::new();
        for proc in procs {
            let Some(host) = self.source_host(&proc.nspace) else {
                continue;
            };
            match found
                .iter_mut()
                .find(|known| Arc::ptr_eq(&known.host, &host))
            {
                Some(known) => known.procs.push(proc.clone()),
                None => found.push(ProcsOfHost {
                    host,
                    procs: vec![proc.clone()],
                }),
            }
        }
        found
    }

    /// Passes output that a host environment delivers to its pullers. Empty output is the end of the
    /// stream.
    pub(super) async fn deliver(&self, server: &ServerHandle, output: DeliveredOutput) {
        let DeliveredOutput {
            source,
            channels,
            data,
            infos,
        } = output;
        for puller in self.local.deliver(&source, channels, data.as_slice()) {
            let output = IofOutput {
                source: source.clone(),
                channels,
                local_id: puller.local_id,
                infos: infos.clone(),
                data: data.clone(),
            };
            server.forward(puller.proc, output).await;
        }
    }

    /// Returns all host environments at stubs, each once.
    fn all_remotes(&self) -> Vec<Arc<RemoteHost>> {
        let remotes = self.remotes.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<RemoteHost>> = Vec::new();
        for host in remotes.values().chain(self.owner.get()) {
            if !all.iter().any(|known| Arc::ptr_eq(known, host)) {
                all.push(host.clone());
            }
        }
        all
    }

    /// Returns the host environment that takes an event of one of its procs, if there is one.
    fn notified(&self, event: &Event) -> Option<Arc<RemoteHost>> {
        let remote = self.registered(&event.source.as_ref()?.nspace)?;
        Some(remote).filter(|remote| remote.offers(UpcallKind::Notify))
    }

    /// Makes an upcall to the host environment of a job. Where there is none, or it does not support
    /// the upcall, the server's own host environment answers. The arguments are copied only for a host
    /// environment that a stub connects.
    fn or_local<'a, A: Send + 'a, T: Send + 'a>(
        &'a self,
        nspace: &Nspace,
        arguments: A,
        upcall: impl FnOnce(&A) -> HostUpcall,
        read: fn(Result<UpcallResult, Status>) -> Result<T, Status>,
        local: impl FnOnce(&'a dyn LocalServices, A) -> UpcallFuture<'a, T> + Send + 'a,
    ) -> UpcallFuture<'a, T> {
        let Some(remote) = self.remote(nspace) else {
            return local(&*self.local, arguments);
        };
        let upcall = upcall(&arguments);
        Box::pin(async move {
            // What the host environment does not offer is not supported, without a message to it.
            match read(remote.call(upcall).await) {
                Err(code::PMIX_ERR_NOT_SUPPORTED) => local(&*self.local, arguments).await,
                answer => answer,
            }
        })
    }
}

/// Returns the answer to an upcall of the previous process of this server.
fn continued_answer(host: Arc<RemoteHost>, upcall: ContinuedUpcall) -> ContinuedAnswer {
    match upcall.upcall.clone() {
        UpcallOverNodes::Gather(id) => ContinuedAnswer::Gathered {
            id,
            // Without data of the own procs, which the server knows.
            answer: Box::pin(
                async move { remote_host::data(host.answer_to_continued(upcall).await) },
            ),
        },
        UpcallOverNodes::Group { key, operation } => ContinuedAnswer::Group {
            key,
            operation,
            answer: Box::pin(
                async move { remote_host::infos(host.answer_to_continued(upcall).await) },
            ),
        },
        UpcallOverNodes::DirectModex(proc) => ContinuedAnswer::Values {
            proc,
            answer: Box::pin(
                async move { remote_host::data(host.answer_to_continued(upcall).await) },
            ),
        },
    }
}

/// Passes an event on to a host environment, with the name of the server that it comes from: some host
/// environments bring it back.
fn pass_on(remote: Arc<RemoteHost>, event: &Event) {
    let mut event = event.clone();
    let origin = Value::Proc(remote.name.clone());
    event.infos.push(Info::new(key::PMIX_EVENT_PROXY, origin));
    spawn_upcall(remote, HostUpcall::Notify { event });
}

/// Adds the user of a requester to infos, as the C library does for published data.
fn with_user(infos: &[Info], uid: u32) -> Vec<Info> {
    let mut infos = infos.to_vec();
    infos.push(Info::new(key::PMIX_USERID, Value::Uint32(uid)));
    infos
}

impl HostEnvironment for HostRouter {
    fn process_of(&self, proc: &Proc) -> ProcessLookup {
        self.local.process_of(proc)
    }

    fn running_process(&self, proc: &Proc) -> Option<u32> {
        self.local.running_process(proc)
    }

    fn leaves_ends_to_server(&self, nspace: &Nspace) -> bool {
        self.local.leaves_ends_to_server(nspace)
    }

    fn supported(&self) -> &[Supported] {
        self.local.supported()
    }

    fn client_connected(&self, proc: &Proc) {
        if let Some(remote) = self.registered(&proc.nspace) {
            remote.notice(HostNotice::ClientConnected(proc.clone()));
        }
        self.local.client_connected(proc);
    }

    fn process_found(&self, proc: &Proc, pid: u32) {
        self.local.process_found(proc, pid);
    }

    fn client_finalized(&self, proc: Proc) -> UpcallFuture<'_, ()> {
        let Some(remote) = self.registered(&proc.nspace) else {
            return self.local.client_finalized(proc);
        };
        Box::pin(async move {
            // The end of the proc is reported to the local services, too, which clean up after it.
            let local = self.local.client_finalized(proc.clone());
            let upcall = HostUpcall::ClientFinalized { proc };
            let answer = done(remote.call(upcall).await);
            local.await?;
            match answer {
                Err(code::PMIX_ERR_NOT_SUPPORTED) => Ok(()),
                answer => answer,
            }
        })
    }

    fn client_lost(&self, proc: &Proc) {
        if let Some(remote) = self.registered(&proc.nspace) {
            remote.notice(HostNotice::ClientLost(proc.clone()));
        }
        self.local.client_lost(proc);
    }

    fn tool_connected(&self, tool: ConnectingTool) -> UpcallFuture<'_, Proc> {
        // The owner's process is a tool of its own server.
        let owner = self.owner.get();
        let Some(owner) = owner.filter(|owner| tool.name.as_ref() != Some(&owner.name)) else {
            return self.local.tool_connected(tool);
        };
        Box::pin(async move {
            let infos = infos_of_tool(tool);
            remote_host::tool(owner.call(HostUpcall::ToolConnected { infos }).await)
        })
    }

    fn tool_departed(&self, tool: &Proc) {
        self.local.tool_departed(tool);
    }

    fn register_events(&self, codes: Vec<Status>) -> UpcallFuture<'_, ()> {
        let remotes = self.all_remotes();
        Box::pin(async move {
            for remote in remotes {
                let upcall = HostUpcall::RegisterEvents {
                    codes: codes.clone(),
                    infos: Vec::new(),
                };
                // A host environment that does not register keeps the clients from nothing.
                let _ = remote.call(upcall).await;
            }
            self.local.register_events(codes).await
        })
    }

    fn deregister_events(&self, codes: Vec<Status>) {
        for remote in self.all_remotes() {
            let codes = codes.clone();
            spawn_upcall(remote, HostUpcall::DeregisterEvents { codes });
        }
        self.local.deregister_events(codes);
    }

    fn registered_events(&self) -> Option<Vec<Status>> {
        self.local.registered_events()
    }

    fn notify(&self, event: Arc<Event>) -> EventHandling {
        match self.notified(&event) {
            Some(remote) => {
                pass_on(remote, &event);
                EventHandling::ByHost
            }
            None => self.local.notify(event),
        }
    }

    fn distribute(&self, event: &Arc<Event>) {
        if let Some(remote) = self.notified(event) {
            pass_on(remote, event);
        }
    }

    fn gather(
        &self,
        id: FenceId,
        purpose: Purpose,
        procs: Vec<Proc>,
        contribution: Bytes,
    ) -> UpcallFuture<'_, Bytes> {
        let remote = procs.iter().find_map(|proc| self.remote(&proc.nspace));
        let Some(remote) = remote else {
            return self.local.gather(id, purpose, procs, contribution);
        };
        Box::pin(async move {
            let known_as = UpcallOverNodes::Gather(id);
            let infos = Vec::new();
            match purpose {
                Purpose::Fence => {
                    // Slurm takes part in a fence without data alone on jobs of fewer nodes than
                    // TreeWidth: it is no barrier then. With data it always waits for all.
                    let infos = vec![Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true))];
                    let upcall = HostUpcall::Fence {
                        procs,
                        infos,
                        data: contribution,
                    };
                    remote_host::data(remote.call_over_nodes(upcall, known_as).await)
                }
                Purpose::Connect => {
                    let upcall = HostUpcall::Connect { procs, infos };
                    let answer = remote.call_over_nodes(upcall, known_as).await;
                    done(answer).map(|()| contribution)
                }
                Purpose::Disconnect => {
                    let upcall = HostUpcall::Disconnect { procs, infos };
                    let answer = remote.call_over_nodes(upcall, known_as).await;
                    done(answer).map(|()| contribution)
                }
            }
        })
    }

    fn group(
        &self,
        key: GroupKey,
        operation: GroupOperation,
        procs: Vec<Proc>,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let remote = procs.iter().find_map(|proc| self.remote(&proc.nspace));
        let Some(remote) = remote else {
            return self.local.group(key, operation, procs, directives);
        };
        Box::pin(async move {
            let group = key.name.called().cloned().unwrap_or_default();
            let known_as = UpcallOverNodes::Group { key, operation };
            let upcall = HostUpcall::Group {
                // `pmix_group_operation_t`.
                operation: match operation {
                    GroupOperation::Construct => 0,
                    GroupOperation::Destruct => 1,
                },
                group,
                procs,
                directives,
            };
            remote_host::infos(remote.call_over_nodes(upcall, known_as).await)
        })
    }

    fn direct_modex(&self, proc: Proc) -> UpcallFuture<'_, Bytes> {
        let Some(remote) = self.remote(&proc.nspace) else {
            return self.local.direct_modex(proc);
        };
        Box::pin(async move {
            let infos = Vec::new();
            let known_as = UpcallOverNodes::DirectModex(proc.clone());
            let upcall = HostUpcall::DirectModex { proc, infos };
            remote_host::data(remote.call_over_nodes(upcall, known_as).await)
        })
    }

    fn upcalls_over_nodes(&self) -> usize {
        let connected = self.connected();
        connected.iter().map(|host| host.upcalls_over_nodes()).sum()
    }

    fn values_requested(&self) -> usize {
        let connected = self.connected();
        connected.iter().map(|host| host.values_requested()).sum()
    }

    fn unfinished(&self) -> Option<&'static str> {
        self.local.unfinished()
    }

    fn hold_answers(&self) {
        self.connected().iter().for_each(|host| host.hold_answers());
    }

    fn release_answers(&self) {
        let connected = self.connected();
        connected.iter().for_each(|host| host.release_answers());
    }

    fn continued_answers(&self) -> Vec<ContinuedAnswer> {
        let connected = self.connected().into_iter();
        let of = |host: Arc<RemoteHost>| {
            let upcalls = host.take_continued().into_iter();
            upcalls.map(move |upcall| continued_answer(host.clone(), upcall))
        };
        connected.flat_map(of).collect()
    }

    fn abort(
        &self,
        source: Proc,
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    ) -> UpcallFuture<'_, ()> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, status, message, targets),
            |(source, status, message, targets)| HostUpcall::Abort {
                source: source.clone(),
                status: *status,
                message: message.clone(),
                targets: targets.clone(),
            },
            done,
            |local, (source, status, message, targets)| {
                local.abort(source, status, message, targets)
            },
        )
    }

    fn publish(&self, source: &Proc, uid: u32, infos: &[Info]) -> Option<UpcallFuture<'_, ()>> {
        let remote = self.remote(&source.nspace)?;
        let upcall = HostUpcall::Publish {
            source: source.clone(),
            infos: with_user(infos, uid),
        };
        Some(Box::pin(async move { done(remote.call(upcall).await) }))
    }

    fn lookup(
        &self,
        source: &Proc,
        uid: u32,
        keys: &[Text],
        infos: &[Info],
    ) -> Option<UpcallFuture<'_, Vec<Pdata>>> {
        let remote = self.remote(&source.nspace)?;
        let upcall = HostUpcall::Lookup {
            source: source.clone(),
            keys: keys.to_vec(),
            infos: with_user(infos, uid),
        };
        Some(Box::pin(async move {
            remote_host::published(remote.call(upcall).await)
        }))
    }

    fn unpublish(
        &self,
        source: &Proc,
        uid: u32,
        keys: &[Text],
        infos: &[Info],
    ) -> Option<UpcallFuture<'_, ()>> {
        let remote = self.remote(&source.nspace)?;
        let upcall = HostUpcall::Unpublish {
            source: source.clone(),
            keys: keys.to_vec(),
            infos: with_user(infos, uid),
        };
        Some(Box::pin(async move { done(remote.call(upcall).await) }))
    }

    fn spawn(
        &self,
        source: Proc,
        identity: UserIdentity,
        infos: Vec<Info>,
        apps: Vec<App>,
    ) -> UpcallFuture<'_, Spawned> {
        // Never by the server's own host environment: the procs of a job belong to its launcher.
        let Some(remote) = self.remote(&source.nspace) else {
            return self.local.spawn(source, identity, infos, apps);
        };
        let forwarded = forwarded_output(&infos, self.spawn_requester(&source));
        let puller = source.clone();
        Box::pin(async move {
            let upcall = HostUpcall::Spawn {
                source,
                infos,
                apps,
            };
            let nspace = remote_host::spawned(remote.call(upcall).await)?;
            if forwarded.0 != 0 {
                let pull = StreamPull {
                    puller: Puller {
                        proc: puller,
                        local_id: StreamPull::DEFAULT,
                    },
                    sources: vec![Proc::all(nspace.clone())],
                    channels: forwarded,
                };
                // The job runs in any case.
                if let Err(status) = self.local.pull_delivered(pull, &[]) {
                    tracing::warn!(%nspace, %status, "output of spawned job not forwarded");
                }
            }
            let kvals = Vec::new();
            Ok(Spawned { nspace, kvals })
        })
    }

    fn query(
        &self,
        source: Proc,
        identity: UserIdentity,
        queries: Vec<Query>,
        servers: OtherServers,
    ) -> UpcallFuture<'_, HostFindings> {
        let own = self.local.query_node(identity, queries.clone());
        Box::pin(async move {
            // What this node knows of its jobs needs no upcall.
            let mut keys = own.await?;
            let mut answer = HostAnswer::default();
            for QueriesOfHost { host, queries } in self.open_queries(&source, &queries, &keys) {
                let source = source.clone();
                let upcall = HostUpcall::Query { source, queries };
                answer.add(remote_host::infos(host.call(upcall).await));
            }
            let asked = UserQueries {
                identity,
                queries: &queries,
            };
            self.ask_servers(&mut answer, asked, &mut keys, &servers)
                .await;
            answer.with_own(keys)
        })
    }

    fn query_for_server(
        &self,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        self.local.query_for_server(identity, queries)
    }

    fn log_channels(&self, source: &Proc) -> Vec<Key> {
        self.local.log_channels(source)
    }

    fn log_request(&self, source: &Proc, request: &LogRequest) -> Option<UpcallFuture<'_, ()>> {
        let remote = self.remote(&source.nspace)?;
        let upcall = HostUpcall::Log {
            source: source.clone(),
            data: request.data.clone(),
            directives: log_directives(source, request),
        };
        Some(Box::pin(async move { done(remote.call(upcall).await) }))
    }

    fn log(
        &self,
        source: Proc,
        channel: Key,
        timestamp: u64,
        data: Vec<Info>,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        self.local.log(source, channel, timestamp, data, directives)
    }

    fn allocate(
        &self,
        source: Proc,
        directive: u8,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, directive, infos),
            |(source, directive, infos)| HostUpcall::Allocate {
                source: source.clone(),
                directive: *directive,
                infos: infos.clone(),
            },
            remote_host::infos,
            |local, (source, directive, infos)| local.allocate(source, directive, infos),
        )
    }

    fn job_control(
        &self,
        requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        let job = control.targets.first().map(|proc| proc.nspace.clone());
        let (Some(source), Some(job)) = (requester.clone(), job) else {
            return self.local.job_control(requester, control);
        };
        let read = |answer| remote_host::infos(answer).map(|_| Vec::new());
        self.or_local(
            &job,
            (requester, control),
            |(_, control)| HostUpcall::JobControl {
                source,
                targets: control.targets.clone(),
                directives: control.directives.clone(),
            },
            read,
            |local, (requester, control)| local.job_control(requester, control),
        )
    }

    fn control_over_nodes(
        &self,
        requester: Option<Proc>,
        control: ControlOverNodes,
    ) -> UpcallFuture<'_, ControlResult> {
        let first = control.targets.elsewhere.first();
        let Some(remote) = first.and_then(|proc| self.registered(&proc.nspace)) else {
            return Box::pin(std::future::ready(Err(code::PMIX_ERR_NOT_SUPPORTED)));
        };
        Box::pin(async move {
            let ControlOverNodes {
                targets,
                directives,
                ..
            } = control;
            let upcall = HostUpcall::JobControl {
                // A module of the site requests as the server, as the C library's server does.
                source: requester.clone().unwrap_or_else(|| remote.name.clone()),
                targets: targets.named,
                directives,
            };
            let answer = remote_host::controlled(remote.call(upcall).await);
            if answer == Err(code::PMIX_ERR_NOT_SUPPORTED) {
                return Ok(ControlResult::OfServers);
            }
            answer
        })
    }

    fn register_cleanup(
        &self,
        source: Proc,
        identity: UserIdentity,
        cleanup: Cleanup,
    ) -> UpcallFuture<'_, ()> {
        self.local.register_cleanup(source, identity, cleanup)
    }

    fn monitors(&self) -> bool {
        self.local.monitors()
    }

    fn monitor(
        &self,
        source: Proc,
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let named = directives.value_of(key::PMIX_MONITOR_TARGET_PROCS);
        let named = named.and_then(Value::as_procs).unwrap_or_default();
        let job = named.first().unwrap_or(&source).nspace.clone();
        self.or_local(
            &job,
            (source, monitor, error, directives),
            |(source, monitor, error, directives)| HostUpcall::Monitor {
                source: source.clone(),
                monitor: monitor.clone(),
                error: *error,
                directives: directives.clone(),
            },
            remote_host::infos,
            |local, (source, monitor, error, directives)| {
                local.monitor(source, monitor, error, directives)
            },
        )
    }

    fn get_credential(
        &self,
        source: Proc,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, (Bytes, Vec<Info>)> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, directives),
            |(source, directives)| HostUpcall::GetCredential {
                source: source.clone(),
                directives: directives.clone(),
            },
            remote_host::credential,
            |local, (source, directives)| local.get_credential(source, directives),
        )
    }

    fn validate_credential(
        &self,
        source: Proc,
        credential: Bytes,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, credential, directives),
            |(source, credential, directives)| HostUpcall::ValidateCredential {
                source: source.clone(),
                credential: credential.clone(),
                directives: directives.clone(),
            },
            remote_host::infos,
            |local, (source, credential, directives)| {
                local.validate_credential(source, credential, directives)
            },
        )
    }

    fn iof_pull(
        &self,
        source: Proc,
        sources: Vec<Proc>,
        directives: Vec<Info>,
        channels: IofChannel,
        local_id: u64,
    ) -> UpcallFuture<'_, u64> {
        let remotes = self.remotes_of(&sources);
        if remotes.is_empty() {
            return self
                .local
                .iof_pull(source, sources, directives, channels, local_id);
        }
        Box::pin(async move {
            let known: usize = remotes.iter().map(|remote| remote.procs.len()).sum();
            if known < sources.len() {
                return Err(code::PMIX_ERR_NOT_FOUND);
            }
            // The output then comes from the host environments (`PMIx_server_IOF_deliver`). What comes
            // before the pull begins is kept until then.
            for ProcsOfHost { host, procs } in remotes {
                let upcall = HostUpcall::IofPull {
                    procs,
                    directives: directives.clone(),
                    channels,
                };
                done(host.call(upcall).await)?;
            }
            let pull = StreamPull {
                puller: Puller {
                    proc: source,
                    local_id,
                },
                sources,
                channels,
            };
            self.local.pull_delivered(pull, &directives)
        })
    }

    fn iof_deregister(
        &self,
        source: Proc,
        directives: Vec<Info>,
        remote_id: u64,
    ) -> UpcallFuture<'_, ()> {
        let ended = self.local.end_pull(&source, remote_id);
        Box::pin(async move {
            for ProcsOfHost { host, .. } in self.remotes_of(&ended?) {
                let mut directives = directives.clone();
                directives.push(Info::new(key::PMIX_IOF_STOP, Value::Bool(true)));
                // Without procs, as from the C library: others may pull from the same ones.
                let upcall = HostUpcall::IofPull {
                    procs: Vec::new(),
                    directives,
                    channels: IofChannel(0),
                };
                done(host.call(upcall).await)?;
            }
            Ok(())
        })
    }

    fn push_stdin(
        &self,
        source: Proc,
        targets: Vec<Proc>,
        directives: Vec<Info>,
        data: Option<Bytes>,
    ) -> UpcallFuture<'_, ()> {
        let job = targets
            .first()
            .map_or_else(|| source.nspace.clone(), |target| target.nspace.clone());
        self.or_local(
            &job,
            (source, targets, directives, data),
            |(source, targets, directives, data)| HostUpcall::PushStdin {
                source: source.clone(),
                targets: targets.clone(),
                directives: directives.clone(),
                data: data.clone(),
            },
            done,
            |local, (source, targets, directives, data)| {
                local.push_stdin(source, targets, directives, data)
            },
        )
    }

    fn fabric(&self, source: Proc, directives: Vec<Info>) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, directives),
            |(source, directives)| HostUpcall::Fabric {
                source: source.clone(),
                // `PMIX_FABRIC_REQUEST_INFO`.
                operation: 0,
                directives: directives.clone(),
            },
            remote_host::infos,
            |local, (source, directives)| local.fabric(source, directives),
        )
    }

    fn resource_block(
        &self,
        source: Proc,
        directive: u8,
        block: Option<Text>,
        units: Vec<ResourceUnit>,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, directive, block, units, infos),
            |(source, directive, block, units, infos)| HostUpcall::ResourceBlock {
                source: source.clone(),
                directive: *directive,
                block: block.clone(),
                units: units.clone(),
                infos: infos.clone(),
            },
            done,
            |local, (source, directive, block, units, infos)| {
                local.resource_block(source, directive, block, units, infos)
            },
        )
    }

    fn session_control(
        &self,
        source: Proc,
        session: u32,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        self.or_local(
            &nspace,
            (source, session, infos),
            |(source, session, infos)| HostUpcall::SessionControl {
                source: source.clone(),
                session: *session,
                infos: infos.clone(),
            },
            remote_host::infos,
            |local, (source, session, infos)| local.session_control(source, session, infos),
        )
    }
}

/// Returns the directives of a log request with the source and the time, as the C library passes them.
fn log_directives(source: &Proc, request: &LogRequest) -> Vec<Info> {
    let mut directives = request.directives.clone();
    let source = Value::Proc(source.clone());
    directives.push(Info::new(key::PMIX_LOG_SOURCE, source));
    if let Some(timestamp) = request.timestamp.filter(|seconds| *seconds > 0) {
        let timestamp = Value::Time(timestamp);
        directives.push(Info::new(key::PMIX_LOG_TIMESTAMP, timestamp));
    }
    directives
}

/// Returns the infos about a tool in the order of the C library.
fn infos_of_tool(tool: ConnectingTool) -> Vec<Info> {
    let UserIdentity { uid, gid } = tool.identity;
    let mut infos = tool.infos;
    infos.extend([
        Info::new(key::PMIX_VERSION_INFO, Value::string(&tool.release)),
        Info::new(key::PMIX_USERID, Value::Uint32(uid)),
        Info::new(key::PMIX_GRPID, Value::Uint32(gid)),
    ]);
    if let Some(name) = tool.name {
        let nspace = Value::string(name.nspace.as_str());
        infos.push(Info::new(key::PMIX_NSPACE, nspace));
        infos.push(Info::new(key::PMIX_RANK, Value::Rank(name.rank)));
    }
    infos
}

/// Returns the channels of a spawned job whose output its requester gets. A tool gets those that the
/// request does not name, too, as with the C library.
fn forwarded_output(infos: &[Info], requester: SpawnRequester) -> IofChannel {
    let channels = [
        (key::PMIX_FWD_STDOUT, IofChannel::STDOUT),
        (key::PMIX_FWD_STDERR, IofChannel::STDERR),
    ];
    let is_wanted = |key: KeyName| match infos.value_of(key) {
        None => requester == SpawnRequester::Tool,
        Some(_) => infos.is_true(key),
    };
    let wanted = channels.into_iter().filter(|(key, _)| is_wanted(*key));
    IofChannel(wanted.fold(0, |all, (_, channel)| all | channel.0))
}

/// Makes an upcall whose answer nothing waits for.
fn spawn_upcall(remote: Arc<RemoteHost>, upcall: HostUpcall) {
    if !remote.offers(upcall.kind()) {
        return;
    }
    tokio::spawn(async move { remote.call(upcall).await });
}
