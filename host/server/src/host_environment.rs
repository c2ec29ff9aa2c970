//! Interface to the host environment: one method per upcall, the counterpart of the C server
//! module.
use crate::other_servers::OtherServers;
use peal_core::{
    group::{GroupKey, GroupOperation},
    job_control::{Cleanup, ControlOverNodes, ControlResult, JobControl, NotDone},
    server::{FenceId, Purpose},
    supported::Supported,
};
use peal_model::{
    App, Bytes, Event, Info, IofChannel, Key, Kval, LogRequest, Nspace, Pdata, Proc, Query,
    ResourceUnit, Status, Text, UserIdentity, code,
};
use serde::{Deserialize, Serialize};
use std::{future::Future, pin::Pin, sync::Arc};

/// Result of an upcall, which may take any time. An error status goes to the requester unchanged.
pub type UpcallFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Job that the host environment has started on request, with the data that the requester receives.
#[derive(Clone, PartialEq, Debug)]
pub struct Spawned {
    /// The new job.
    pub nspace: Nspace,
    /// Its job data.
    pub kvals: Vec<Kval>,
}

/// Answers of the host environment to queries.
#[derive(Clone, PartialEq, Debug)]
pub struct HostFindings {
    /// The infos that are known.
    pub infos: Vec<Info>,
    /// The reason why something is missing, if a server of another node has not answered.
    pub missing: Option<Status>,
}

impl HostFindings {
    /// Returns answers of which nothing is missing.
    pub fn whole(infos: Vec<Info>) -> HostFindings {
        HostFindings {
            infos,
            missing: None,
        }
    }
}

/// Process that the host environment started for a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessLookup {
    /// The host environment did not start the proc.
    Unknown,
    /// The proc is the process of this id, which has not been waited for.
    Running(u32),
    /// No process exists any more or yet, so no peer can be that proc.
    Ended,
}

/// Tool that connects.
#[derive(Clone, PartialEq, Debug)]
pub struct ConnectingTool {
    /// Name that the tool has given itself.
    pub name: Option<Proc>,
    /// User that the tool runs as.
    pub identity: UserIdentity,
    /// Release of the tool's library.
    pub release: String,
    /// Infos that the tool sent about itself.
    pub infos: Vec<Info>,
}

/// Part that handles an event for the resource manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventHandling {
    /// The host environment has handled the event, or will.
    ByHost,
    /// The site's handlers, which belong to the resource manager, must handle the event.
    BySite,
}

/// Upcall that waits for servers of other nodes, and so may take any time. Another process of the server can
/// await its answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum UpcallOverNodes {
    /// A gathering for a fence.
    Gather(FenceId),
    /// An operation on a group.
    Group {
        /// The group.
        key: GroupKey,
        /// The operation.
        operation: GroupOperation,
    },
    /// The request of a proc's values.
    DirectModex(Proc),
}

/// Answer to an upcall that the previous process of this server has made.
pub enum ContinuedAnswer {
    /// The answer of [`HostEnvironment::gather`].
    Gathered {
        /// The fence.
        id: FenceId,
        /// The answer.
        answer: UpcallFuture<'static, Bytes>,
    },
    /// The answer of [`HostEnvironment::group`].
    Group {
        /// The group.
        key: GroupKey,
        /// The operation.
        operation: GroupOperation,
        /// The answer.
        answer: UpcallFuture<'static, Vec<Info>>,
    },
    /// The answer of [`HostEnvironment::direct_modex`].
    Values {
        /// The proc.
        proc: Proc,
        /// The answer.
        answer: UpcallFuture<'static, Bytes>,
    },
}

/// Host environment: the services for the procs of its jobs. Upcalls that are not implemented
/// return `PMIX_ERR_NOT_SUPPORTED`.
///
/// A host environment has no handle for log requests, so that its log upcall can never wait for
/// itself.
#[allow(unused_variables, reason = "the defaults decline without looking")]
pub trait HostEnvironment: Send + Sync + 'static {
    /// Returns the process that was started for a proc. Called whenever a peer claims to be that
    /// proc. Must not block.
    fn process_of(&self, proc: &Proc) -> ProcessLookup {
        ProcessLookup::Unknown
    }

    /// Returns the process of a proc that runs, also of one that another launcher started. The holder of
    /// the proc's next connection is looked for there first. Reads files in `/proc`.
    fn running_process(&self, proc: &Proc) -> Option<u32> {
        match self.process_of(proc) {
            ProcessLookup::Running(pid) => Some(pid),
            ProcessLookup::Unknown | ProcessLookup::Ended => None,
        }
    }

    /// Returns true if another launcher starts the procs of a job and does not report their ends.
    /// The server then watches their processes. Called whenever one of the procs connects. Must not
    /// block.
    fn leaves_ends_to_server(&self, nspace: &Nspace) -> bool {
        false
    }

    /// Returns the attributes that are supported in each call (`PMIX_QUERY_ATTRIBUTE_SUPPORT`).
    fn supported(&self) -> &[Supported] {
        &[]
    }

    /// Reports that a proc has connected for the first time.
    fn client_connected(&self, proc: &Proc) {}

    /// Reports the process id of a proc, or of one of its clones, whose process is
    /// [`ProcessLookup::Unknown`]. The id is that of a connection, from the kernel, or was named by
    /// the proc's launcher. Must not block.
    fn process_found(&self, proc: &Proc, pid: u32) {}

    /// Reports that a proc has finalized. Its finalize is answered after this.
    fn client_finalized(&self, proc: Proc) -> UpcallFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Reports that a proc has lost its connection without having finalized.
    fn client_lost(&self, proc: &Proc) {}

    /// Names a tool that connects. With `PMIX_ERR_NOT_SUPPORTED` it keeps its name, or gets one from the
    /// server; with another error it is refused.
    fn tool_connected(&self, tool: ConnectingTool) -> UpcallFuture<'_, Proc> {
        unsupported()
    }

    /// Reports that a tool has disconnected.
    fn tool_departed(&self, tool: &Proc) {}

    /// Registers for environment events of these codes (none: of every code), for which no client
    /// was registered until now. After its answer the host environment raises them with
    /// [`crate::ServerHandle::notify`]. The clients' registrations wait for the answer. The default
    /// is for host environments without such events; it does not make the clients' registrations
    /// fail.
    fn register_events(&self, codes: Vec<Status>) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Deregisters from environment events of these codes, for which no client is registered any
    /// more. Without codes, removes the registration for every code.
    fn deregister_events(&self, codes: Vec<Status>) {}

    /// Returns the codes (empty: every code) of events for the host environment itself for which
    /// each server registers it at startup. [`crate::ServerHandle::register_events`] and its
    /// counterpart change them later.
    fn registered_events(&self) -> Option<Vec<Status>> {
        None
    }

    /// Delivers an event for the host environment itself for which it registered: one of
    /// `PMIX_RANGE_RM`, or a protocol violation.
    fn notify(&self, event: Arc<Event>) -> EventHandling {
        EventHandling::ByHost
    }

    /// Passes an event of a proc of this node on to the servers of other nodes, where the host
    /// environment does that. Must not block.
    fn distribute(&self, event: &Arc<Event>) {}

    /// Synchronizes with the servers of all nodes that have one of these procs, and exchanges data with
    /// them. The result has the contributions of all servers, this one's included, one behind the
    /// other in any order. Only called for jobs of which the host environment has placed procs on
    /// other nodes.
    fn gather(
        &self,
        id: FenceId,
        purpose: Purpose,
        procs: Vec<Proc>,
        contribution: Bytes,
    ) -> UpcallFuture<'_, Bytes> {
        unsupported()
    }

    /// Carries out an operation on a group with the servers of all nodes that have one of these procs.
    /// `PMIX_GROUP_ENDPT_DATA` of the result has those of all servers, this one's included, one behind
    /// the other in any order. Only called for groups with procs on other nodes.
    fn group(
        &self,
        key: GroupKey,
        operation: GroupOperation,
        procs: Vec<Proc>,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Requests the values that a proc of another node has put. The result is what
    /// [`crate::ServerHandle::modex`] returned there.
    fn direct_modex(&self, proc: Proc) -> UpcallFuture<'_, Bytes> {
        unsupported()
    }

    /// Returns the number of upcalls whose answers another process of the server can await.
    fn upcalls_over_nodes(&self) -> usize {
        0
    }

    /// Returns the number of callers of [`crate::ServerHandle::modex`] that would call another process of the
    /// server again.
    fn values_requested(&self) -> usize {
        0
    }

    /// Returns a kind of work, for messages, that must end before another process of the server goes on.
    fn unfinished(&self) -> Option<&'static str> {
        None
    }

    /// Keeps further answers of other parties back, until [`HostEnvironment::release_answers`].
    fn hold_answers(&self) {}

    /// Passes on the answers that were kept back, and further ones.
    fn release_answers(&self) {}

    /// Returns the answers to upcalls that the previous process of this server has made, each once.
    fn continued_answers(&self) -> Vec<ContinuedAnswer> {
        Vec::new()
    }

    /// Ends procs. Without targets, ends those of the requester's namespace.
    fn abort(
        &self,
        source: Proc,
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Publishes data. With `None` or `PMIX_ERR_NOT_SUPPORTED` the server does, as for the two below.
    fn publish(&self, source: &Proc, uid: u32, infos: &[Info]) -> Option<UpcallFuture<'_, ()>> {
        None
    }

    /// Looks up published data.
    fn lookup(
        &self,
        source: &Proc,
        uid: u32,
        keys: &[Text],
        infos: &[Info],
    ) -> Option<UpcallFuture<'_, Vec<Pdata>>> {
        None
    }

    /// Removes published data.
    fn unpublish(
        &self,
        source: &Proc,
        uid: u32,
        keys: &[Text],
        infos: &[Info],
    ) -> Option<UpcallFuture<'_, ()>> {
        None
    }

    /// Starts procs for a requester that runs as `identity`.
    fn spawn(
        &self,
        source: Proc,
        identity: UserIdentity,
        infos: Vec<Info>,
        apps: Vec<App>,
    ) -> UpcallFuture<'_, Spawned> {
        unsupported()
    }

    /// Answers queries of a requester that runs as `identity`, with one info for each key that is
    /// known and that the requester may see. Log channels are reported by
    /// [`HostEnvironment::log_channels`]. `servers` are those of other nodes, which know of procs there
    /// what the host environment may not.
    fn query(
        &self,
        source: Proc,
        identity: UserIdentity,
        queries: Vec<Query>,
        servers: OtherServers,
    ) -> UpcallFuture<'_, HostFindings> {
        unsupported()
    }

    /// Answers queries of another server as far as this node knows, with what `identity` may see.
    fn query_for_server(
        &self,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Returns the keys of the log channels that the host environment has for this proc or tool.
    /// Requests may name other channels, too.
    fn log_channels(&self, source: &Proc) -> Vec<Key> {
        Vec::new()
    }

    /// Passes on a log request with all its channels, as some host environments take them. With `None`
    /// or `PMIX_ERR_NOT_SUPPORTED` each channel is written by [`HostEnvironment::log`].
    fn log_request(&self, source: &Proc, request: &LogRequest) -> Option<UpcallFuture<'_, ()>> {
        None
    }

    /// Writes to a log channel that the server does not have: the data under the channel's key, and
    /// the payload. The timestamp is in seconds since the epoch, zero for none.
    /// `PMIX_ERR_NOT_SUPPORTED` and `PMIX_ERR_NOT_AVAILABLE` mean that there is no such channel.
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

    /// Changes the allocation of resources.
    fn allocate(
        &self,
        source: Proc,
        directive: u8,
        infos: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Executes job control for a requester (none: a module of the site). The request is valid and
    /// was permitted. The result comes when the operation is complete, and lists the procs for
    /// which it failed.
    fn job_control(
        &self,
        requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        unsupported()
    }

    /// Executes job control on procs of which some are on other nodes, for a requester (none: a module
    /// of the site). The request is valid and was permitted.
    fn control_over_nodes(
        &self,
        requester: Option<Proc>,
        control: ControlOverNodes,
    ) -> UpcallFuture<'_, ControlResult> {
        unsupported()
    }

    /// Registers files and directories for removal once all of the named procs have ended. They are
    /// removed with the rights of the user `identity`. Returns
    /// `PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES` if that contradicts an earlier request.
    fn register_cleanup(
        &self,
        source: Proc,
        identity: UserIdentity,
        cleanup: Cleanup,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Returns true if the host environment implements [`HostEnvironment::monitor`]. Servers then
    /// leave monitoring to it, unless their settings make them monitor themselves.
    fn monitors(&self) -> bool {
        false
    }

    /// Monitors procs or files.
    fn monitor(
        &self,
        source: Proc,
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Creates a credential.
    fn get_credential(
        &self,
        source: Proc,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, (Bytes, Vec<Info>)> {
        unsupported()
    }

    /// Validates a credential.
    fn validate_credential(
        &self,
        source: Proc,
        credential: Bytes,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Forwards output to the requester. Returns a handle.
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

    /// Stops forwarding output.
    fn iof_deregister(
        &self,
        source: Proc,
        directives: Vec<Info>,
        remote_id: u64,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Forwards standard input. No data, or empty data, marks its end.
    fn push_stdin(
        &self,
        source: Proc,
        targets: Vec<Proc>,
        directives: Vec<Info>,
        data: Option<Bytes>,
    ) -> UpcallFuture<'_, ()> {
        unsupported()
    }

    /// Returns information about the fabric.
    fn fabric(&self, source: Proc, directives: Vec<Info>) -> UpcallFuture<'_, Vec<Info>> {
        unsupported()
    }

    /// Changes a resource block.
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

    /// Controls a session.
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
