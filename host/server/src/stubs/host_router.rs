//! Host environment of a server whose jobs have several launchers. An upcall about a job goes to the
//! stub that registered it; what that does not support, the server's own host environment does.
use super::remote_host::{self, RemoteHost, done};
use crate::{
    admin::JobRegistrar,
    host_environment::{EventHandling, HostEnvironment, ProcessLookup, Spawned, UpcallFuture},
};
use peal_core::{
    job::{JobSpec, ProcPhase},
    job_control::{Cleanup, JobControl, NotDone},
    server::Purpose,
    supported::Supported,
};
use peal_model::{
    App, Bytes, Event, Info, IofChannel, Key, Nspace, Pdata, Proc, Query, ResourceUnit, Status,
    Text, UserIdentity, Value, code, key,
};
use peal_stub::{HostNotice, HostUpcall, UpcallKind};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// Services of the server's own host environment for jobs of other launchers.
pub trait LocalServices: HostEnvironment + JobRegistrar {}

impl<T: HostEnvironment + JobRegistrar> LocalServices for T {}

/// Router of upcalls.
pub struct HostRouter {
    local: Arc<dyn LocalServices>,
    /// Host environments of registered jobs.
    remotes: RwLock<BTreeMap<Nspace, Arc<RemoteHost>>>,
}

impl HostRouter {
    /// Creates a router that passes everything to the server's own host environment, until stubs
    /// register jobs.
    pub fn new(local: Arc<dyn LocalServices>) -> HostRouter {
        HostRouter {
            local,
            remotes: RwLock::default(),
        }
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

    /// Returns the host environment of a job, if a stub has registered it.
    fn remote(&self, nspace: &Nspace) -> Option<Arc<RemoteHost>> {
        let remotes = self.remotes.read().unwrap_or_else(PoisonError::into_inner);
        remotes.get(nspace).cloned()
    }

    /// Returns all host environments at stubs, each once.
    fn all_remotes(&self) -> Vec<Arc<RemoteHost>> {
        let remotes = self.remotes.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Arc<RemoteHost>> = Vec::new();
        for host in remotes.values() {
            if !all.iter().any(|known| Arc::ptr_eq(known, host)) {
                all.push(host.clone());
            }
        }
        all
    }

    /// Makes an upcall to the host environment of a job. Where there is none, or it does not support
    /// the upcall, the server's own host environment answers.
    fn or_local<'a, T: Send + 'a>(
        &'a self,
        nspace: &Nspace,
        upcall: impl FnOnce() -> HostUpcall,
        read: fn(Result<peal_stub::UpcallResult, Status>) -> Result<T, Status>,
        local: impl FnOnce(&'a dyn LocalServices) -> UpcallFuture<'a, T> + Send + 'a,
    ) -> UpcallFuture<'a, T> {
        let Some(remote) = self.remote(nspace) else {
            return local(&*self.local);
        };
        let upcall = upcall();
        if !remote.offers(upcall.kind()) {
            return local(&*self.local);
        }
        Box::pin(async move {
            match read(remote.call(upcall).await) {
                Err(code::PMIX_ERR_NOT_SUPPORTED) => local(&*self.local).await,
                answer => answer,
            }
        })
    }
}

/// Adds the user of a requester to infos, as the C library does for published data.
fn with_user(mut infos: Vec<Info>, uid: u32) -> Vec<Info> {
    infos.push(Info::new(key::PMIX_USERID, Value::Uint32(uid)));
    infos
}

impl HostEnvironment for HostRouter {
    fn process_of(&self, proc: &Proc) -> ProcessLookup {
        self.local.process_of(proc)
    }

    fn leaves_ends_to_server(&self, nspace: &Nspace) -> bool {
        self.local.leaves_ends_to_server(nspace)
    }

    fn supported(&self) -> &[Supported] {
        self.local.supported()
    }

    fn job_added(&self, job: &JobSpec) {
        self.local.job_added(job);
    }

    fn job_removed(&self, nspace: &Nspace) {
        self.local.job_removed(nspace);
    }

    fn client_connected(&self, proc: &Proc) {
        if let Some(remote) = self.remote(&proc.nspace) {
            remote.notice(HostNotice::ClientConnected(proc.clone()));
        }
        self.local.client_connected(proc);
    }

    fn process_found(&self, proc: &Proc, pid: u32) {
        self.local.process_found(proc, pid);
    }

    fn client_departed(&self, proc: &Proc, life: ProcPhase) {
        if let Some(remote) = self.remote(&proc.nspace) {
            remote.notice(match life {
                ProcPhase::Finalized => HostNotice::ClientFinalized(proc.clone()),
                _ => HostNotice::ClientLost(proc.clone()),
            });
        }
        self.local.client_departed(proc, life);
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
                match remote.call(upcall).await {
                    Ok(_) | Err(code::PMIX_ERR_NOT_SUPPORTED) => {}
                    Err(status) => {
                        tracing::debug!(host = ?remote, %status, "host environment did not register for events");
                    }
                }
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
        let source = event.source.as_ref();
        let remote = source.and_then(|source| self.remote(&source.nspace));
        match remote.filter(|remote| remote.offers(UpcallKind::Notify)) {
            Some(remote) => {
                let event = (*event).clone();
                spawn_upcall(remote, HostUpcall::Notify { event });
                EventHandling::ByHost
            }
            None => self.local.notify(event),
        }
    }

    fn distribute(&self, event: &Arc<Event>) {
        let source = event.source.as_ref();
        let remote = source.and_then(|source| self.remote(&source.nspace));
        if let Some(remote) = remote {
            let event = (**event).clone();
            spawn_upcall(remote, HostUpcall::Notify { event });
        }
    }

    fn gather(
        &self,
        purpose: Purpose,
        procs: Vec<Proc>,
        contribution: Bytes,
    ) -> UpcallFuture<'_, Bytes> {
        let remote = procs.iter().find_map(|proc| self.remote(&proc.nspace));
        let Some(remote) = remote else {
            return self.local.gather(purpose, procs, contribution);
        };
        Box::pin(async move {
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
                    remote_host::data(remote.call(upcall).await)
                }
                Purpose::Connect => {
                    let upcall = HostUpcall::Connect { procs, infos };
                    done(remote.call(upcall).await).map(|()| contribution)
                }
                Purpose::Disconnect => {
                    let upcall = HostUpcall::Disconnect { procs, infos };
                    done(remote.call(upcall).await).map(|()| contribution)
                }
            }
        })
    }

    fn direct_modex(&self, proc: Proc) -> UpcallFuture<'_, Bytes> {
        let Some(remote) = self.remote(&proc.nspace) else {
            return self.local.direct_modex(proc);
        };
        Box::pin(async move {
            let infos = Vec::new();
            let upcall = HostUpcall::DirectModex { proc, infos };
            remote_host::data(remote.call(upcall).await)
        })
    }

    fn abort(
        &self,
        source: Proc,
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    ) -> UpcallFuture<'_, ()> {
        let nspace = source.nspace.clone();
        let upcall = || HostUpcall::Abort {
            source: source.clone(),
            status,
            message: message.clone(),
            targets: targets.clone(),
        };
        let upcall = upcall();
        self.or_local(
            &nspace,
            || upcall,
            done,
            move |local| local.abort(source, status, message, targets),
        )
    }

    fn publish(&self, source: Proc, uid: u32, infos: Vec<Info>) -> UpcallFuture<'_, ()> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Publish {
            source: source.clone(),
            infos: with_user(infos.clone(), uid),
        };
        self.or_local(
            &nspace,
            || upcall,
            done,
            move |local| local.publish(source, uid, infos),
        )
    }

    fn lookup(
        &self,
        source: Proc,
        uid: u32,
        keys: Vec<Text>,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Pdata>> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Lookup {
            source: source.clone(),
            keys: keys.clone(),
            infos: with_user(infos.clone(), uid),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::published,
            move |local| local.lookup(source, uid, keys, infos),
        )
    }

    fn unpublish(
        &self,
        source: Proc,
        uid: u32,
        keys: Vec<Text>,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Unpublish {
            source: source.clone(),
            keys: keys.clone(),
            infos: with_user(infos.clone(), uid),
        };
        self.or_local(
            &nspace,
            || upcall,
            done,
            move |local| local.unpublish(source, uid, keys, infos),
        )
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
        Box::pin(async move {
            let upcall = HostUpcall::Spawn {
                source,
                infos,
                apps,
            };
            let nspace = remote_host::spawned(remote.call(upcall).await)?;
            let kvals = Vec::new();
            Ok(Spawned { nspace, kvals })
        })
    }

    fn query(
        &self,
        source: Proc,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let remote = self.remote(&source.nspace);
        let remote = remote.filter(|remote| remote.offers(UpcallKind::Query));
        let own = self.local.query(source.clone(), identity, queries.clone());
        let Some(remote) = remote else {
            return own;
        };
        Box::pin(async move {
            // What the server itself knows of its jobs is the answer for this node.
            match own.await {
                Ok(infos) if !infos.is_empty() => Ok(infos),
                own => {
                    let upcall = HostUpcall::Query { source, queries };
                    match remote_host::infos(remote.call(upcall).await) {
                        Err(code::PMIX_ERR_NOT_SUPPORTED) => own,
                        answer => answer,
                    }
                }
            }
        })
    }

    fn log_channels(&self, source: &Proc) -> Vec<Key> {
        self.local.log_channels(source)
    }

    fn log(
        &self,
        source: Proc,
        channel: Key,
        timestamp: u64,
        data: Vec<Info>,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Log {
            source: source.clone(),
            data: data.clone(),
            directives: directives.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            done,
            move |local| local.log(source, channel, timestamp, data, directives),
        )
    }

    fn allocate(
        &self,
        source: Proc,
        directive: u8,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Allocate {
            source: source.clone(),
            directive,
            infos: infos.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::infos,
            move |local| local.allocate(source, directive, infos),
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
        let upcall = HostUpcall::JobControl {
            source,
            targets: control.targets.clone(),
            directives: control.directives.clone(),
        };
        let read = |answer| remote_host::infos(answer).map(|_| Vec::new());
        self.or_local(
            &job,
            || upcall,
            read,
            move |local| local.job_control(requester, control),
        )
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
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Monitor {
            source: source.clone(),
            monitor: monitor.clone(),
            error,
            directives: directives.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::infos,
            move |local| local.monitor(source, monitor, error, directives),
        )
    }

    fn get_credential(
        &self,
        source: Proc,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, (Bytes, Vec<Info>)> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::GetCredential {
            source: source.clone(),
            directives: directives.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::credential,
            move |local| local.get_credential(source, directives),
        )
    }

    fn validate_credential(
        &self,
        source: Proc,
        credential: Bytes,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::ValidateCredential {
            source: source.clone(),
            credential: credential.clone(),
            directives: directives.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::infos,
            move |local| local.validate_credential(source, credential, directives),
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
        let job = sources.first().map(|proc| proc.nspace.clone());
        let remote = job.and_then(|nspace| self.remote(&nspace));
        let own = self.local.iof_pull(
            source,
            sources.clone(),
            directives.clone(),
            channels,
            local_id,
        );
        let Some(remote) = remote else {
            return own;
        };
        Box::pin(async move {
            let id = own.await?;
            // The output then comes from the host environment (`PMIx_server_IOF_deliver`).
            let upcall = HostUpcall::IofPull {
                procs: sources,
                directives,
                channels,
            };
            done(remote.call(upcall).await)?;
            Ok(id)
        })
    }

    fn iof_deregister(
        &self,
        source: Proc,
        directives: Vec<Info>,
        remote_id: u64,
    ) -> UpcallFuture<'_, ()> {
        self.local.iof_deregister(source, directives, remote_id)
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
        let upcall = HostUpcall::PushStdin {
            source: source.clone(),
            targets: targets.clone(),
            directives: directives.clone(),
            data: data.clone(),
        };
        self.or_local(
            &job,
            || upcall,
            done,
            move |local| local.push_stdin(source, targets, directives, data),
        )
    }

    fn fabric(&self, source: Proc, directives: Vec<Info>) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::Fabric {
            source: source.clone(),
            // `PMIX_FABRIC_REQUEST_INFO`.
            operation: 0,
            directives: directives.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::infos,
            move |local| local.fabric(source, directives),
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
        let upcall = HostUpcall::ResourceBlock {
            source: source.clone(),
            directive,
            block: block.clone(),
            units: units.clone(),
            infos: infos.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            done,
            move |local| local.resource_block(source, directive, block, units, infos),
        )
    }

    fn session_control(
        &self,
        source: Proc,
        session: u32,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let nspace = source.nspace.clone();
        let upcall = HostUpcall::SessionControl {
            source: source.clone(),
            session,
            infos: infos.clone(),
        };
        self.or_local(
            &nspace,
            || upcall,
            remote_host::infos,
            move |local| local.session_control(source, session, infos),
        )
    }
}

/// Makes an upcall whose answer nothing waits for.
fn spawn_upcall(remote: Arc<RemoteHost>, upcall: HostUpcall) {
    if !remote.offers(upcall.kind()) {
        return;
    }
    tokio::spawn(async move {
        if let Err(status) = remote.call(upcall).await {
            tracing::debug!(host = ?remote, %status, "upcall refused by host environment");
        }
    });
}
