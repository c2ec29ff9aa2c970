//! By which the host environment, the fabric and the server's own workers reach the actor: its queues.
use crate::{
    chains::TerminationReply, handler_requests::HandlerRequest, hosted::Hosted, notice::Wished,
    process_watch::TooManyProcesses,
};
use peal_core::{
    defaults::Defaults,
    group::{GroupMessage, ServerId},
    job::{JobProgress, JobSpec, ProcPhase},
    job_control::{ControlId, NotDone},
    log::LogOrigin,
    monitor::{FileStat, MonitorId},
    policy::Verdict,
    psets::PsetError,
    server::{
        DecisionId, EventBudget, FenceContribution, FenceId, FileSeen, HostRegistrationId, PeerId,
        RaisingOwner, RequestId, Seq, UsageFound,
    },
    user_scope::UserScope,
};
use peal_model::{Event, Info, Key, LogRequest, Nspace, Proc, Rank, Reply, Status, Text, code};
use peal_wire::IofOutput;
use std::{collections::BTreeMap, os::fd::OwnedFd, sync::Arc};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// An event that a hosted handler raised.
#[derive(Debug)]
pub struct Raised {
    /// The event.
    pub event: Event,
    /// Whose handler it was.
    pub raiser: RaisingOwner,
    /// What it may lead to.
    pub allowance: EventBudget,
    /// The number that the module was told.
    pub request: u64,
}

/// Why a job is not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddJobError {
    /// There is one of that name.
    #[error("a job {0:?} is registered already")]
    Exists(Nspace),
    /// There is no server any more.
    #[error("the server has stopped")]
    Stopped,
}

/// How many wishes of handlers may wait; workers with more wait themselves.
const WANTED: usize = 1024;

/// The abnormal end of a proc.
pub(crate) struct Abnormal {
    pub(crate) code: Status,
    /// What else there is to say of it.
    pub(crate) infos: Vec<Info>,
    /// Who waits for what the handlers of its event wish, if somebody does.
    pub(crate) asked: Option<TerminationReply>,
}

/// What the host and the fabric say.
pub(crate) enum ActorMessage {
    Answer {
        to: RequestId,
        reply: Reply,
    },
    Controlled {
        id: ControlId,
        targets: Vec<Proc>,
        answer: Result<Vec<NotDone>, Status>,
    },
    ServerJoined(ServerId),
    ServerLeft(ServerId),
    Group {
        from: ServerId,
        message: GroupMessage,
    },
    Gathered {
        id: FenceId,
        outcome: Result<FenceContribution, Status>,
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
    Forward {
        to: Proc,
        output: IofOutput,
        done: oneshot::Sender<()>,
    },
    Jobs(oneshot::Sender<Vec<JobProgress>>),
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
    /// Another launcher says which process a proc is.
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
    Ping {
        tell: oneshot::Sender<()>,
    },
    Life {
        proc: Proc,
        tell: oneshot::Sender<Option<ProcPhase>>,
    },
    Log {
        request: Arc<LogRequest>,
        origin: LogOrigin,
        chosen: Option<Key>,
        tell: oneshot::Sender<Status>,
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

/// By which the host environment and the fabric reach a server.
#[derive(Clone)]
pub struct ServerHandle {
    internal: mpsc::UnboundedSender<ActorMessage>,
}

impl ServerHandle {
    /// Registers a job whose procs may then connect. Returns when the server knows it.
    pub async fn add_job(&self, spec: JobSpec) -> Result<(), AddJobError> {
        let (done, added) = oneshot::channel();
        self.send(ActorMessage::AddJob { spec, done });
        added.await.unwrap_or(Err(AddJobError::Stopped))
    }

    /// Gives procs of one user a name, under which they find each other (`PMIx_server_define_process_set`). It holds until a job of one of
    /// them is removed. Nothing if the server has stopped.
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

    /// Passes output of a proc on to a proc or tool that wants it. Returns when that waits to be written, or was dropped for want of room.
    pub async fn forward(&self, to: Proc, output: IofOutput) {
        let (done, taken) = oneshot::channel();
        self.send(ActorMessage::Forward { to, output, done });
        // A server that has stopped forwards nothing.
        let _ = taken.await;
    }

    /// The same for a thread that may block.
    pub fn forward_blocking(&self, to: Proc, output: IofOutput) {
        let (done, taken) = oneshot::channel();
        self.send(ActorMessage::Forward { to, output, done });
        // A server that has stopped forwards nothing.
        let _ = taken.blocking_recv();
    }

    /// The same without waiting for that, of what was written long ago.
    pub fn forward_late(&self, to: Proc, output: IofOutput) {
        let (done, _) = oneshot::channel();
        self.send(ActorMessage::Forward { to, output, done });
    }

    /// The jobs and how far their procs are, in the order of their names; nothing if the server has stopped.
    pub async fn jobs(&self) -> Option<Vec<JobProgress>> {
        let (tell, told) = oneshot::channel();
        self.send(ActorMessage::Jobs(tell));
        told.await.ok()
    }

    /// What holds where no policy decides is from now on this.
    pub fn set_defaults(&self, defaults: Defaults) {
        self.send(ActorMessage::Defaults(defaults));
    }

    /// Puts these modules in the place of those that the server has, between two requests: what comes later meets these alone, and
    /// what is under way with the others ends with them. Nothing if the server has stopped.
    pub async fn deploy(&self, hosted: Hosted) -> Option<()> {
        let (done, deployed) = oneshot::channel();
        self.send(ActorMessage::Deploy {
            hosted: Box::new(hosted),
            done,
        });
        deployed.await.ok()
    }

    /// Raises an event of the host environment.
    pub fn notify(&self, event: Event) {
        self.send(ActorMessage::Notify(event));
    }

    /// Logs for the host environment, `about` a proc or a job if it is about one, and says what became of it. What no channel here
    /// writes, and no gateway's, is not written: it would have to go back to where it comes from. The server has it when this returns;
    /// who does not want to know need not wait.
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

    /// Logs what came from elsewhere, to the channel that was chosen there if one was.
    pub(crate) fn log_from(
        &self,
        request: Arc<LogRequest>,
        origin: LogOrigin,
        chosen: Option<Key>,
    ) -> impl Future<Output = Status> + use<> {
        let (tell, told) = oneshot::channel();
        self.send(ActorMessage::Log {
            request,
            origin,
            chosen,
            tell,
        });
        async move { told.await.unwrap_or(code::PMIX_ERR_NOT_AVAILABLE) }
    }

    /// The host environment wants to hear events of these codes (none: of every code) that are aimed at it
    /// (`PMIX_RANGE_RM`), and what clients do against the protocol: by [`crate::Host::notify`].
    pub fn register_events(&self, codes: Vec<Status>) {
        self.send(ActorMessage::HostRegisters(codes));
    }

    /// The host environment wants these codes no more; `Status::DEFAULT_HANDLER` drops its registration for every code.
    pub fn deregister_events(&self, codes: Vec<Status>) {
        self.send(ActorMessage::HostDeregisters(codes));
    }

    /// Drops a job of which nothing is left.
    pub fn remove_job(&self, nspace: Nspace) {
        self.send(ActorMessage::RemoveJob(nspace));
    }

    /// Drops a job unless some of its procs are connected, and says how far they were, if there is such a job; nothing if
    /// the server has stopped.
    pub async fn remove_idle_job(&self, nspace: Nspace) -> Option<Option<JobProgress>> {
        let (done, census) = oneshot::channel();
        self.send(ActorMessage::RemoveIdleJob { nspace, done });
        census.await.ok()
    }

    /// Another server distributed an event, for those whom it may reach; the handlers here may raise so many in turn.
    pub fn distributed(&self, event: Arc<Event>, reach: UserScope, allowance: EventBudget) {
        self.send(ActorMessage::Distributed {
            event,
            reach,
            allowance,
        });
    }

    /// Another server is there.
    pub(crate) fn server_joined(&self, server: ServerId) {
        self.send(ActorMessage::ServerJoined(server));
    }

    /// Another server is gone; all that it sent was said before.
    pub(crate) fn server_left(&self, server: ServerId) {
        self.send(ActorMessage::ServerLeft(server));
    }

    /// Another server sent something about groups.
    pub(crate) fn group_message(&self, from: ServerId, message: GroupMessage) {
        self.send(ActorMessage::Group { from, message });
    }

    pub(crate) fn answer(&self, to: RequestId, reply: Reply) {
        self.send(ActorMessage::Answer { to, reply });
    }

    pub(crate) fn decided(&self, id: DecisionId, verdict: Verdict) {
        self.send(ActorMessage::Decided { id, verdict });
    }

    /// These ranks of a job were started, each as this process.
    pub fn procs_started(&self, nspace: Nspace, pids: BTreeMap<Rank, u32>) {
        self.send(ActorMessage::ProcsStarted { nspace, pids });
    }

    /// Another launcher says which process a proc is, by its number and a pidfd. Its end is noticed from now on; nothing if the
    /// server has stopped.
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

    /// A proc's process has ended; if abnormally, with this code and these details.
    pub fn proc_ended(&self, proc: Proc, abnormal: Option<(Status, Vec<Info>)>) {
        let abnormal = abnormal.map(|(code, infos)| Abnormal {
            code,
            infos,
            asked: None,
        });
        self.send(ActorMessage::ProcEnded { proc, abnormal });
    }

    /// The same of an abnormal end after which the host does what the hosted handlers wish: that of the highest owner that has
    /// a wish, as soon as that is known; nothing if nobody has one. It has been said when this returns, whether or not
    /// somebody waits for what comes of it.
    pub fn proc_ended_abnormally(
        &self,
        proc: Proc,
        code: Status,
        infos: Vec<Info>,
    ) -> impl Future<Output = Option<Wished>> + Send + use<> {
        let (asked, wished) = oneshot::channel();
        self.send(ActorMessage::ProcEnded {
            proc,
            abnormal: Some(Abnormal {
                code,
                infos,
                asked: Some(asked),
            }),
        });
        async { wished.await.ok() }
    }

    /// A proc is started again as who it was, from a checkpoint if there is one. When this returns, whoever was connected as that
    /// proc is heard no more, and the new one can connect.
    pub async fn proc_restarts(&self, proc: Proc, checkpoint: Option<String>) {
        let (done, known) = oneshot::channel();
        self.send(ActorMessage::ProcRestarts {
            proc,
            checkpoint,
            done,
        });
        // A server that has stopped lets nobody connect.
        let _ = known.await;
    }

    /// Where a proc is in its life.
    pub async fn life(&self, proc: Proc) -> Option<ProcPhase> {
        let (tell, told) = oneshot::channel();
        self.send(ActorMessage::Life { proc, tell });
        told.await.ok().flatten()
    }

    /// Waits until the server has carried out what was said to it before; false if it has stopped.
    pub async fn answers(&self) -> bool {
        let (tell, told) = oneshot::channel();
        self.send(ActorMessage::Ping { tell });
        told.await.is_ok()
    }

    pub(crate) fn stop(&self) {
        self.send(ActorMessage::Stop);
    }

    pub(crate) fn send(&self, message: ActorMessage) {
        // A server that has stopped hears nothing any more.
        let _ = self.internal.send(message);
    }
}

/// The far ends of a server's queues.
pub(crate) struct ActorInbox {
    pub(crate) internal: mpsc::UnboundedReceiver<ActorMessage>,
    pub(crate) wanted: mpsc::Receiver<HandlerRequest>,
}

/// The near ends, for those who talk to the server.
pub(crate) struct Queues {
    pub(crate) handle: ServerHandle,
    pub(crate) wanted: mpsc::Sender<HandlerRequest>,
}

/// The queues of a server that is about to start.
pub(crate) fn queues() -> (Queues, ActorInbox) {
    let (say, internal) = mpsc::unbounded_channel();
    let (want, wanted) = mpsc::channel(WANTED);
    (
        Queues {
            handle: ServerHandle { internal: say },
            wanted: want,
        },
        ActorInbox { internal, wanted },
    )
}
