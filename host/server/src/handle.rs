//! Handle and queues by which the host environment, the server transport and the server's own
//! workers reach the actor.
use crate::{
    chains::TerminationReply,
    handler_requests::HandlerRequest,
    hosted::Hosted,
    jobs::LocalJobs,
    node_data::{self, NodeData},
    notice::RequestedTermination,
    process_watch::TooManyProcesses,
    server_inbox::{InboxCharge, InboxLimits, ServerInbox},
    shared_actor::{FrozenActor, SharedActor, Unfinished},
};
use peal_audit::CommitResult;
use peal_cluster::ServerKind;
use peal_core::{
    defaults::Defaults,
    group::{GroupKey, GroupOperation, HostGroupAnswer, ServerId},
    job::{JobProgress, JobSpec, ProcPhase},
    job_control::{ControlId, ControlResult, ControlUpcallId, NotDone},
    log::LogOrigin,
    monitor::{FileStat, MonitorId},
    policy::Verdict,
    psets::PsetError,
    server::{
        DecisionId, EventBudget, FenceContribution, FenceId, FileSeen, HostRegistrationId,
        InterServerMessage, PeerId, RaisingOwner, RequestId, Seq, ServerReply, UsageFound,
    },
    user_scope::UserScope,
};
use peal_model::{
    Bytes, Event, Info, Key, LogRequest, Nspace, Proc, Query, Range, Rank, RankData, Reply,
    Request, Status, Text, Value, code, key,
};
use peal_wire::IofOutput;
use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::{Arc, OnceLock, Weak},
};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

/// An event that a hosted handler raised.
#[derive(Debug)]
pub struct Raised {
    /// The event.
    pub event: Event,
    /// Owner of the handler.
    pub raiser: RaisingOwner,
    /// Events that handlers may raise in response to this one.
    pub allowance: EventBudget,
    /// Number of the request, as the module knows it.
    pub request: u64,
}

/// Returns an event of the server itself, for the handlers at this server that register for its code. A default
/// handler has not asked for events of Peal.
pub fn own_event(code: Status, infos: Vec<Info>) -> Event {
    let non_default = Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true));
    Event {
        code,
        source: None,
        range: Range::Local,
        infos: [vec![non_default], infos].concat(),
    }
}

/// Reason for which a job is not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddJobError {
    /// A job of that name is registered.
    #[error("a job {0:?} is registered already")]
    Exists(Nspace),
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}

/// Maximum number of handlers' requests that wait for the actor. Workers with further ones block.
const MAX_HANDLER_REQUESTS: usize = 1024;

/// Abnormal end of a proc.
pub(crate) struct Abnormal {
    pub(crate) code: Status,
    /// Further infos of the event.
    pub(crate) infos: Vec<Info>,
    /// Reply channel for the termination that the event's handlers request, if a caller waits for
    /// it.
    pub(crate) termination_reply: Option<TerminationReply>,
}

/// Answers of other servers to queries, one for each server.
pub(crate) type ServerFindings = Vec<Result<Vec<Info>, Status>>;

/// Message of the host environment, the server transport or a worker to the actor.
pub(crate) enum ActorMessage {
    Answer {
        to: RequestId,
        reply: Reply,
    },
    /// Request about published data that the host environment does not carry out.
    DataRequest {
        to: RequestId,
        source: Proc,
        request: Request,
    },
    Controlled {
        id: ControlUpcallId,
        targets: Vec<Proc>,
        answer: Result<Vec<NotDone>, Status>,
    },
    /// Operation for another server, of which the record was written or not.
    ControlCommitted {
        id: ControlId,
        committed: CommitResult,
    },
    ControlledOverNodes {
        id: ControlId,
        answer: Result<ControlResult, Status>,
    },
    QueryServers {
        job: Nspace,
        queries: Vec<Query>,
        reply_to: oneshot::Sender<ServerFindings>,
    },
    ServerQueryAnswered {
        to: ServerReply,
        answer: Result<Vec<Info>, Status>,
    },
    Enrolled(ServerId),
    ServerJoined(ServerId, ServerKind),
    ServerLeft(ServerId),
    Server {
        from: ServerId,
        message: InterServerMessage,
        charge: InboxCharge,
    },
    Gathered {
        id: FenceId,
        outcome: Result<FenceContribution, Status>,
    },
    GroupAnswered {
        key: GroupKey,
        operation: GroupOperation,
        answer: Result<HostGroupAnswer, Status>,
    },
    ModexReceived {
        proc: Proc,
        values: Result<Vec<RankData>, Status>,
    },
    ModexRequest {
        proc: Proc,
        reply_to: oneshot::Sender<Result<RankData, Status>>,
    },
    RespecifyJob {
        spec: JobSpec,
        done: oneshot::Sender<()>,
    },
    HostRegistered {
        id: HostRegistrationId,
        answer: Result<(), Status>,
    },
    HostRegisters(Vec<Status>),
    HostDeregisters(Vec<Status>),
    Notify(Event),
    Distributed {
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    },
    Decided {
        id: DecisionId,
        verdict: Verdict,
    },
    Recalled {
        peer: PeerId,
        events: Vec<(Seq, Option<Event>)>,
    },
    AddJob {
        spec: JobSpec,
        done: oneshot::Sender<Result<(), AddJobError>>,
    },
    DefineProcessSet {
        name: Text,
        members: Vec<Proc>,
        done: oneshot::Sender<Result<(), PsetError>>,
    },
    DeleteProcessSet {
        name: Text,
        jobs: Vec<Nspace>,
        done: oneshot::Sender<()>,
    },
    Forward {
        to: Proc,
        output: IofOutput,
        done: oneshot::Sender<()>,
    },
    Jobs(oneshot::Sender<Vec<JobProgress>>),
    /// Returns the jobs with this number of procs of each user at most.
    JobsWithProcs {
        max_procs_of_user: usize,
        reply_to: oneshot::Sender<LocalJobs>,
    },
    RemoveJob(Nspace),
    RemoveIdleJob {
        nspace: Nspace,
        done: oneshot::Sender<Option<JobProgress>>,
    },
    Defaults(Defaults),
    Deploy {
        hosted: Box<Hosted>,
        done: oneshot::Sender<()>,
    },
    ProcsStarted {
        nspace: Nspace,
        pids: BTreeMap<Rank, u32>,
    },
    ProcEnded {
        proc: Proc,
        abnormal: Option<Abnormal>,
    },
    /// Another launcher has named the process of a proc.
    ProcessNamed {
        proc: Proc,
        pid: u32,
        process: OwnedFd,
        done: oneshot::Sender<Result<(), TooManyProcesses>>,
    },
    /// The last process of a proc that another launcher started has ended.
    ProcessEnded {
        proc: Proc,
    },
    ProcRestarts {
        proc: Proc,
        checkpoint: Option<String>,
        done: oneshot::Sender<()>,
    },
    /// Stops the processing of messages until what the reply contains is dropped, if nothing is under way.
    Freeze {
        reply_to: oneshot::Sender<Result<FrozenActor, Unfinished>>,
    },
    Ping {
        reply_to: oneshot::Sender<()>,
    },
    Life {
        proc: Proc,
        reply_to: oneshot::Sender<Option<ProcPhase>>,
    },
    Log {
        request: Arc<LogRequest>,
        origin: LogOrigin,
        chosen: Option<Key>,
        reply_to: oneshot::Sender<Status>,
    },
    FileOpened {
        watch: MonitorId,
        seen: FileSeen,
    },
    FileLookedAt {
        watch: MonitorId,
        seen: Option<FileStat>,
    },
    Measured {
        watch: MonitorId,
        found: UsageFound,
    },
    Stop,
}

/// Handle by which the host environment and the server transport reach a server.
#[derive(Clone)]
pub struct ServerHandle {
    internal: mpsc::UnboundedSender<ActorMessage>,
    pub(crate) inbox: ServerInbox,
    /// Set when the server has started.
    direct: Arc<OnceLock<ActorAccess>>,
}

/// Access to the actor for threads outside of the runtime.
struct ActorAccess {
    actor: Weak<SharedActor>,
    runtime: Handle,
}

impl ServerHandle {
    /// Gives threads outside of the runtime access to the actor. Must be called within the runtime.
    pub(crate) fn give_access(&self, actor: &Arc<SharedActor>) {
        // An error if it has been given already: the actor of a handle does not change.
        let _ = self.direct.set(ActorAccess {
            actor: Arc::downgrade(actor),
            runtime: Handle::current(),
        });
    }

    /// Executes a message on the caller's thread, for threads of guests: to wake the thread of the runtime for it takes
    /// longer than most messages do. Must not be called by code that has locked the actor.
    fn execute(&self, message: ActorMessage) {
        let Some(ActorAccess { actor, runtime }) = self.direct.get() else {
            // The server is about to start, and takes this first.
            return self.send(message);
        };
        // The actor starts tasks.
        let _entered = runtime.enter();
        // Ignore a server that has stopped, as for messages in the queue.
        if let Some(actor) = actor.upgrade() {
            let _ = actor.with_actor(|actor| actor.handle_message(message));
        }
    }

    /// Registers a job, whose procs may then connect. Returns when the job is registered.
    pub async fn add_job(&self, spec: JobSpec) -> Result<(), AddJobError> {
        let (done, added) = oneshot::channel();
        self.send(ActorMessage::AddJob { spec, done });
        added.await.unwrap_or(Err(AddJobError::Stopped))
    }

    /// Takes a changed description of a job: further procs of this node, or more job data. A job that is
    /// not registered stays so.
    pub async fn respecify_job(&self, spec: JobSpec) {
        let (done, taken) = oneshot::channel();
        self.send(ActorMessage::RespecifyJob { spec, done });
        // A server that has stopped has no jobs.
        let _ = taken.await;
    }

    /// Returns the values that a local proc has put for procs of other nodes, in a form that
    /// [`crate::HostEnvironment::direct_modex`] returns there. Waits until the proc has put some.
    ///
    /// # Errors
    ///
    /// `PMIX_ERR_NOT_FOUND` for a proc that is unknown or has left without values.
    pub async fn modex(&self, proc: Proc) -> Result<Bytes, Status> {
        let (reply_to, values) = oneshot::channel();
        self.send(ActorMessage::ModexRequest { proc, reply_to });
        let values = values.await.unwrap_or(Err(code::PMIX_ERR_NOT_AVAILABLE))?;
        node_data::encode(&NodeData::of_proc(values))
    }

    /// Defines a process set of procs of one user (`PMIx_server_define_process_set`). The set is
    /// removed with the first job of one of its members. Returns `None` if the server has stopped.
    pub async fn define_process_set(
        &self,
        name: Text,
        members: Vec<Proc>,
    ) -> Option<Result<(), PsetError>> {
        let (done, defined) = oneshot::channel();
        self.send(ActorMessage::DefineProcessSet {
            name,
            members,
            done,
        });
        defined.await.ok()
    }

    /// Deletes the process sets of this name that have a proc of one of these jobs
    /// (`PMIx_server_delete_process_set`).
    pub async fn delete_process_set(&self, name: Text, jobs: Vec<Nspace>) {
        let (done, deleted) = oneshot::channel();
        self.send(ActorMessage::DeleteProcessSet { name, jobs, done });
        // A server that has stopped has no sets.
        let _ = deleted.await;
    }

    /// Forwards output of a proc to a proc or tool that has pulled it. Returns when the output was
    /// queued, or dropped because the queue is too long.
    pub async fn forward(&self, to: Proc, output: IofOutput) {
        let (done, taken) = oneshot::channel();
        self.send(ActorMessage::Forward { to, output, done });
        // A server that has stopped forwards nothing.
        let _ = taken.await;
    }

    /// Does the same as [`Self::forward`] on a thread that may block.
    pub fn forward_blocking(&self, to: Proc, output: IofOutput) {
        let (done, taken) = oneshot::channel();
        self.send(ActorMessage::Forward { to, output, done });
        // A server that has stopped forwards nothing.
        let _ = taken.blocking_recv();
    }

    /// Forwards output that was written long ago, without waiting for the server.
    pub fn forward_late(&self, to: Proc, output: IofOutput) {
        // The reply goes nowhere, since the caller does not wait.
        let (done, _) = oneshot::channel();
        self.send(ActorMessage::Forward { to, output, done });
    }

    /// Returns the jobs with the progress of their procs, in the order of their names. Returns
    /// `None` if the server has stopped.
    pub async fn jobs(&self) -> Option<Vec<JobProgress>> {
        let (reply_to, jobs) = oneshot::channel();
        self.send(ActorMessage::Jobs(reply_to));
        jobs.await.ok()
    }

    /// Returns the jobs, in the order of their names, with this number of procs of each user at most.
    /// Returns `None` if the server has stopped.
    pub(crate) async fn jobs_with_procs(&self, max_procs_of_user: usize) -> Option<LocalJobs> {
        let (reply_to, jobs) = oneshot::channel();
        self.send(ActorMessage::JobsWithProcs {
            max_procs_of_user,
            reply_to,
        });
        jobs.await.ok()
    }

    /// Replaces the built-in rules that hold where no policy decides.
    pub fn set_defaults(&self, defaults: Defaults) {
        self.send(ActorMessage::Defaults(defaults));
    }

    /// Replaces the modules of the server between two requests. Later requests use the new modules
    /// only. Work in progress ends with the old ones. Returns `None` if the server has stopped.
    pub async fn deploy(&self, hosted: Hosted) -> Option<()> {
        let (done, deployed) = oneshot::channel();
        self.send(ActorMessage::Deploy {
            // Boxed, since every message in the queue takes the space of the largest kind.
            hosted: Box::new(hosted),
            done,
        });
        deployed.await.ok()
    }

    /// Raises an event of the host environment.
    pub fn notify(&self, event: Event) {
        self.send(ActorMessage::Notify(event));
    }

    /// Logs for the host environment, `about` a proc or a job if there is one, and returns the
    /// status. Data for which neither this server nor a gateway has a channel are not written,
    /// because they would have to go back to the host environment. The request is queued when this
    /// function returns, so a caller without interest in the status need not await it.
    pub fn log(
        &self,
        about: Option<Proc>,
        timestamp: Option<u64>,
        data: Vec<Info>,
        directives: Vec<Info>,
    ) -> impl Future<Output = Status> + use<> {
        let request = LogRequest {
            source: about,
            identity: None,
            timestamp,
            data,
            directives,
        };
        self.log_from(Arc::new(request), LogOrigin::Host, None)
    }

    /// Logs a request that came from elsewhere, to the channel that was chosen there, if any.
    pub(crate) fn log_from(
        &self,
        request: Arc<LogRequest>,
        origin: LogOrigin,
        chosen: Option<Key>,
    ) -> impl Future<Output = Status> + use<> {
        let (reply_to, status) = oneshot::channel();
        self.send(ActorMessage::Log {
            request,
            origin,
            chosen,
            reply_to,
        });
        async move { status.await.unwrap_or(code::PMIX_ERR_NOT_AVAILABLE) }
    }

    /// Registers the host environment for events of these codes (none: of every code). It then
    /// receives events for itself (`PMIX_RANGE_RM`) and protocol violations of clients through
    /// [`crate::HostEnvironment::notify`].
    pub fn register_events(&self, codes: Vec<Status>) {
        self.send(ActorMessage::HostRegisters(codes));
    }

    /// Deregisters the host environment from these codes. `Status::DEFAULT_HANDLER` removes its
    /// registration for every code.
    pub fn deregister_events(&self, codes: Vec<Status>) {
        self.send(ActorMessage::HostDeregisters(codes));
    }

    /// Removes a job whose procs have all ended.
    pub fn remove_job(&self, nspace: Nspace) {
        self.send(ActorMessage::RemoveJob(nspace));
    }

    /// Removes a job unless some of its procs are connected. Returns the progress of its procs, if
    /// there is such a job, and `None` if the server has stopped.
    pub async fn remove_idle_job(&self, nspace: Nspace) -> Option<Option<JobProgress>> {
        let (done, progress) = oneshot::channel();
        self.send(ActorMessage::RemoveIdleJob { nspace, done });
        progress.await.ok()
    }

    /// Passes on an event of a launcher. `reach` are the users whose procs may receive it,
    /// `allowance` is the number of events that handlers here may raise in response.
    pub fn distributed(&self, event: Arc<Event>, reach: UserScope, allowance: EventBudget) {
        self.send(ActorMessage::Distributed {
            event,
            reach,
            allowance,
        });
    }

    /// Answers a request on the caller's thread. See [`ServerHandle::execute`].
    pub(crate) fn answer(&self, to: RequestId, reply: Reply) {
        self.execute(ActorMessage::Answer { to, reply });
    }

    /// Continues a decided request on the caller's thread. See [`ServerHandle::execute`].
    pub(crate) fn decided(&self, id: DecisionId, verdict: Verdict) {
        self.execute(ActorMessage::Decided { id, verdict });
    }

    /// Reports that these ranks of a job were started, with the id of each process.
    pub fn procs_started(&self, nspace: Nspace, pids: BTreeMap<Rank, u32>) {
        self.send(ActorMessage::ProcsStarted { nspace, pids });
    }

    /// Records the process of a proc that another launcher started, by its id and a pidfd. The
    /// server then notices its end. Returns `None` if the server has stopped.
    pub(crate) async fn name_process(
        &self,
        proc: Proc,
        pid: u32,
        process: OwnedFd,
    ) -> Option<Result<(), TooManyProcesses>> {
        let (done, named) = oneshot::channel();
        self.send(ActorMessage::ProcessNamed {
            proc,
            pid,
            process,
            done,
        });
        named.await.ok()
    }

    /// Reports that the process of a proc has ended. `abnormal` has the event's code and infos if
    /// the end was abnormal.
    pub fn proc_ended(&self, proc: Proc, abnormal: Option<(Status, Vec<Info>)>) {
        let abnormal = abnormal.map(|(code, infos)| Abnormal {
            code,
            infos,
            termination_reply: None,
        });
        self.send(ActorMessage::ProcEnded { proc, abnormal });
    }

    /// Reports an abnormal end and returns the termination that hosted handlers request: the
    /// request of the highest owner that has one, as soon as it is known, or `None` without
    /// requests. The end is reported when this function returns, also if the future is dropped.
    pub fn proc_ended_abnormally(
        &self,
        proc: Proc,
        code: Status,
        infos: Vec<Info>,
    ) -> impl Future<Output = Option<RequestedTermination>> + Send + use<> {
        let (reply_to, requested) = oneshot::channel();
        self.send(ActorMessage::ProcEnded {
            proc,
            abnormal: Some(Abnormal {
                code,
                infos,
                termination_reply: Some(reply_to),
            }),
        });
        async { requested.await.ok() }
    }

    /// Reports that a proc is restarted under its name, from a checkpoint if there is one. On
    /// return, requests of earlier connections of that proc are ignored, and the new process can
    /// connect.
    pub async fn proc_restarts(&self, proc: Proc, checkpoint: Option<String>) {
        let (done, known) = oneshot::channel();
        self.send(ActorMessage::ProcRestarts {
            proc,
            checkpoint,
            done,
        });
        // Ignore a server that has stopped: it admits no process.
        let _ = known.await;
    }

    /// Returns the phase of a proc, if it is known.
    pub async fn life(&self, proc: Proc) -> Option<ProcPhase> {
        let (reply_to, phase) = oneshot::channel();
        self.send(ActorMessage::Life { proc, reply_to });
        phase.await.ok().flatten()
    }

    /// Waits until the server has processed all earlier messages of this handle. Returns false if
    /// it has stopped.
    pub async fn answers(&self) -> bool {
        let (reply_to, reply) = oneshot::channel();
        self.send(ActorMessage::Ping { reply_to });
        reply.await.is_ok()
    }

    pub(crate) fn stop(&self) {
        self.send(ActorMessage::Stop);
    }

    pub(crate) fn send(&self, message: ActorMessage) {
        // Ignore a server that has stopped: the reply channels in the message report it.
        let _ = self.internal.send(message);
    }
}

/// Receiving ends of a server's queues.
pub(crate) struct ActorInbox {
    pub(crate) internal: mpsc::UnboundedReceiver<ActorMessage>,
    pub(crate) handler_requests: mpsc::Receiver<HandlerRequest>,
}

/// Sending ends of a server's queues.
pub(crate) struct Queues {
    pub(crate) handle: ServerHandle,
    pub(crate) handler_requests: mpsc::Sender<HandlerRequest>,
}

/// Creates the queues of a server that is about to start.
pub(crate) fn queues(limits: InboxLimits) -> (Queues, ActorInbox) {
    // Unbounded, because the actor itself sends messages here and cannot wait for space. Messages of
    // other servers are bounded by their charge.
    let (messages, internal) = mpsc::unbounded_channel();
    let (send_request, handler_requests) = mpsc::channel(MAX_HANDLER_REQUESTS);
    (
        Queues {
            handle: ServerHandle {
                internal: messages,
                inbox: ServerInbox::new(limits),
                direct: Arc::default(),
            },
            handler_requests: send_request,
        },
        ActorInbox {
            internal,
            handler_requests,
        },
    )
}
