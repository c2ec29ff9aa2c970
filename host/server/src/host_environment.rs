//! The seam to the host environment: one method per upcall, the counterpart of the C server module.
use peal_core::{
    job::{JobSpec, ProcPhase},
    job_control::{Cleanup, JobControl, NotDone},
    supported::Supported,
};
use peal_model::{
    App, Bytes, Event, Info, IofChannel, Key, Kval, Nspace, Pdata, Proc, Query, ResourceUnit,
    Status, Text, UserIdentity, code,
};
use std::{future::Future, pin::Pin, sync::Arc};

/// What a host answers, in its own time. An error goes to the requester as it is.
pub type UpcallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// A namespace that a host has started on request, and what may be told of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Spawned {
    /// The new job.
    pub nspace: Nspace,
    /// Its job data.
    pub kvals: Vec<Kval>,
}

/// Which process the host started for a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessLookup {
    /// The host did not start it.
    Unknown,
    /// The process of this id, which has not been waited for.
    Running(u32),
    /// None, any more or yet: nobody can be that proc.
    Ended,
}

/// The handlers of an event that is for the resource manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventHandling {
    /// The host environment has handled it, or will.
    ByHost,
    /// The site's handlers, which are the resource manager's own, are to handle it.
    BySite,
}

/// What a host environment does for the procs of its jobs. What it does not provide answers `PMIX_ERR_NOT_SUPPORTED`.
///
/// A host has no handle by which it could log: a host that answers a log upcall can therefore never wait for itself.
#[allow(unused_variables, reason = "the defaults decline without looking")]
pub trait HostEnvironment: Send + Sync + 'static {
    /// Which process was started for a proc. Asked whenever somebody claims to be it, and must not wait.
    fn process_of(&self, proc: &Proc) -> ProcessLookup {
        ProcessLookup::Unknown
    }

    /// Whether another launcher starts the procs of a job, and will not say when they end: the server then watches their processes.
    /// Asked whenever one of them connects, and must not wait.
    fn leaves_ends_to_server(&self, nspace: &Nspace) -> bool {
        false
    }

    /// Which attributes it honours in which calls, for whoever asks (`PMIX_QUERY_ATTRIBUTE_SUPPORT`).
    fn supported(&self) -> &[Supported] {
        &[]
    }

    /// A server has this job from now on.
    fn job_added(&self, job: &JobSpec) {}

    /// It has it no more.
    fn job_removed(&self, nspace: &Nspace) {}

    /// A proc connected for the first time.
    fn client_connected(&self, proc: &Proc) {}

    /// A proc whose process this host does not know ([`ProcessLookup::Unknown`]), or one of its clones, is the process of this id:
    /// it has connected, by the kernel's word, or its launcher says so. Must not wait.
    fn process_found(&self, proc: &Proc, pid: u32) {}

    /// A proc went from one stage of its life to the next: it left in order, or was lost.
    fn client_departed(&self, proc: &Proc, life: ProcPhase) {}

    /// A tool is gone.
    fn tool_departed(&self, tool: &Proc) {}

    /// Clients want events of the environment of these codes (none: of every code) that nobody wanted until now. From the answer
    /// on the host raises them by [`crate::ServerHandle::notify`]; the clients are registered when it has answered. A host that
    /// offers none leaves the default, which is in nobody's way.
    fn register_events(&self, codes: Vec<Status>) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// No client wants events of the environment of these codes any more; with none, nobody wants those of every code.
    fn deregister_events(&self, codes: Vec<Status>) {}

    /// The codes (none: every code) of events for the host itself that each server registers for on its behalf when it
    /// starts. More are registered, and these deregistered, by [`crate::ServerHandle::register_events`] and its counterpart.
    fn registered_events(&self) -> Option<Vec<Status>> {
        None
    }

    /// An event for the host itself (`PMIX_RANGE_RM`, or a violation of the protocol), for which it registered.
    fn notify(&self, event: Arc<Event>) -> EventHandling {
        EventHandling::ByHost
    }

    /// Procs are to be ended; without targets, the requester's namespace.
    fn abort(
        &self,
        source: Proc,
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Make data known to all.
    fn publish(&self, source: Proc, uid: u32, infos: Vec<Info>) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Find published data.
    fn lookup(
        &self,
        source: Proc,
        uid: u32,
        keys: Vec<Text>,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Pdata>> {
        unsupported()
    }

    /// Withdraw published data.
    fn unpublish(
        &self,
        source: Proc,
        uid: u32,
        keys: Vec<Text>,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Start procs for somebody who runs as `identity`.
    fn spawn(
        &self,
        source: Proc,
        identity: UserIdentity,
        infos: Vec<Info>,
        apps: Vec<App>,
    ) -> UpcallFuture<'_, Spawned> {
        unsupported()
    }

    /// Answer questions of somebody who runs as `identity`: one info for each key that is known and may be told. Of log channels
    /// [`HostEnvironment::log_channels`] tells.
    fn query(
        &self,
        source: Proc,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// The log channels that the host environment is for this proc or tool, by their keys. Others may be asked for, too.
    fn log_channels(&self, source: &Proc) -> Vec<Key> {
        Vec::new()
    }

    /// Write to a log channel that the server does not have: what is under the channel's key, and payload. The timestamp is in seconds
    /// since the epoch, zero for none. `PMIX_ERR_NOT_SUPPORTED` and `PMIX_ERR_NOT_AVAILABLE` say that there is no such channel.
    fn log(
        &self,
        source: Proc,
        channel: Key,
        timestamp: u64,
        data: Vec<Info>,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Give or take resources.
    fn allocate(
        &self,
        source: Proc,
        directive: u8,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Control procs, as a requester wants it (none: a module of the site). The request makes sense and was permitted; the answer
    /// comes when it has been done, and tells to whom it was not.
    fn job_control(
        &self,
        requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        unsupported()
    }

    /// Remove files and directories, as the user `identity` and with no more rights than that has, once all of these procs have
    /// ended. `PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES` where that contradicts what was asked for before.
    fn register_cleanup(
        &self,
        source: Proc,
        identity: UserIdentity,
        cleanup: Cleanup,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Whether it monitors ([`HostEnvironment::monitor`]): then servers leave that to it, unless they are told to monitor themselves.
    fn monitors(&self) -> bool {
        false
    }

    /// Monitor procs or files.
    fn monitor(
        &self,
        source: Proc,
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Give a credential.
    fn get_credential(
        &self,
        source: Proc,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, (Bytes, Vec<Info>)> {
        unsupported()
    }

    /// Check a credential.
    fn validate_credential(
        &self,
        source: Proc,
        credential: Bytes,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Forward output to the requester; the answer is a handle.
    fn iof_pull(
        &self,
        source: Proc,
        sources: Vec<Proc>,
        directives: Vec<Info>,
        channels: IofChannel,
        local_id: u64,
    ) -> UpcallFuture<'_, u64> {
        unsupported()
    }

    /// Stop forwarding output.
    fn iof_deregister(
        &self,
        source: Proc,
        directives: Vec<Info>,
        remote_id: u64,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Pass input on; no data, or empty data, is the end of it.
    fn push_stdin(
        &self,
        source: Proc,
        targets: Vec<Proc>,
        directives: Vec<Info>,
        data: Option<Bytes>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Give fabric information.
    fn fabric(&self, source: Proc, directives: Vec<Info>) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Act on a resource block.
    fn resource_block(
        &self,
        source: Proc,
        directive: u8,
        block: Option<Text>,
        units: Vec<ResourceUnit>,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Control a session.
    fn session_control(
        &self,
        source: Proc,
        session: u32,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }
}

fn unsupported<'a, T: Send + 'a>() -> UpcallFuture<'a, T> {
    Box::pin(std::future::ready(Err(code::PMIX_ERR_NOT_SUPPORTED)))
}
