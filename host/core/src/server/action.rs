//! What a server wants done: by whoever steps it, and by the host environment.
#[cfg(doc)]
use super::ServerState;
use super::{
    DecisionId, Denial, EventBudget, FenceContribution, FenceId, HostRegistrationId, PeerId,
    Purpose, PutRefusal, RequestId, Seq,
};
use crate::{
    group::{GroupMessage, ServerId},
    job_control::{Cleanup, ControlId, JobControl, JobControlOperation},
    monitor::{MonitorId, UsageRequest},
    user_scope::UserScope,
};
use peal_model::{
    Event, LogRequest, NamedProcs, PolicyRequest, Proc, Reply, Request, Status, UserIdentity,
};
use std::{path::PathBuf, sync::Arc};

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Answer a request.
    Reply {
        /// Which one.
        to: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// Send an event to a client.
    Deliver {
        /// Its connection.
        peer: PeerId,
        /// The event.
        event: Arc<Event>,
    },
    /// This connection is catching up and has had what it may have at once: when all before this has been written (or nearly;
    /// at once if nothing was), call [`ServerState::resume`]. Until then no event is delivered to it; replies are. There is never
    /// more than one `Pause` or [`Action::Recall`] of a connection open, and none is followed by another before it is answered.
    Pause {
        /// The connection.
        peer: PeerId,
    },
    /// Store an event: there are too many to keep them in memory. It need not outlive the process. If that fails, say so
    /// when it is recalled.
    Spill {
        /// Its number.
        at: Seq,
        /// Its contents.
        event: Arc<Event>,
    },
    /// What has been spilled under these numbers, from the first to the last, is needed no more; between them may be some
    /// that never were.
    Forget {
        /// The first.
        first: Seq,
        /// The last.
        last: Seq,
    },
    /// Fetch spilled events, at most a batch of them, then call [`ServerState::recalled`] with their contents, or with none for
    /// what cannot be had. They stay stored until an [`Action::Forget`], which may well come in the meantime: that they are
    /// not there any more is no error.
    Recall {
        /// The connection that waits for them.
        peer: PeerId,
        /// Their numbers, in order.
        events: Vec<Seq>,
    },
    /// Run an event through the hosted chains.
    Chain {
        /// The event.
        event: Arc<Event>,
        /// Whose chains it may pass.
        reach: UserScope,
        /// How many events its handlers may raise in turn.
        allowance: EventBudget,
    },
    /// The same with the event of a proc's abnormal end: whoever said that it ended may wait for what the handlers wish
    /// ([`crate::termination`]).
    Consult {
        /// The proc.
        about: Proc,
        /// The event.
        event: Arc<Event>,
        /// Whose chains it may pass.
        reach: UserScope,
        /// How many events its handlers may raise in turn.
        allowance: EventBudget,
    },
    /// Make an event known to the other servers.
    Distribute {
        /// The event.
        event: Arc<Event>,
        /// Whom it may reach there.
        reach: UserScope,
        /// How many events the handlers there may raise in turn.
        allowance: EventBudget,
    },
    /// All procs here have arrived at a fence: gather from the other servers, then call [`ServerState::gathered`].
    Gather {
        /// The fence.
        id: FenceId,
        /// What for.
        purpose: Purpose,
        /// The procs that take part, everywhere.
        procs: NamedProcs,
        /// What the procs here have put for others, nothing unless the fence collects; and whether all took part.
        brought: FenceContribution,
    },
    /// Send this to another server, behind all that was sent there before.
    SendGroupMessage {
        /// Which.
        to: ServerId,
        /// What.
        message: GroupMessage,
    },
    /// Tell or ask the host environment.
    Upcall(Upcall),
    /// Ask the policies of the request's hook, then call [`ServerState::decided`]. Those of one hook are asked in their order.
    Decide {
        /// What is to be decided.
        id: DecisionId,
        /// What they are asked.
        request: Arc<PolicyRequest>,
    },
    /// Write to log channels, then call [`ServerState::answer`] if somebody waits for it.
    Log {
        /// The request.
        to: Option<RequestId>,
        /// What is to be written.
        request: Arc<LogRequest>,
    },
    /// A proc may not put what it wanted to: to be counted and traced.
    PutRefused {
        /// The proc.
        proc: Proc,
        /// Why.
        refusal: PutRefusal,
    },
    /// A job-control request has ended: to be put on record.
    JobControlEnded {
        /// Who made it; none: a module of the site.
        requester: Option<Proc>,
        /// What was done.
        operation: JobControlOperation,
        /// To whom.
        targets: Vec<Proc>,
        /// How that went.
        status: Status,
    },
    /// Look at a file that is watched.
    CheckFile {
        /// The watch.
        watch: MonitorId,
        /// How.
        look: FileLook,
    },
    /// Look up what is used, as far as whoever asks may know, then call [`ServerState::measured`].
    Measure {
        /// The watch.
        watch: MonitorId,
        /// What is asked for.
        usage: Arc<UsageRequest>,
        /// As whom the requester runs.
        identity: UserIdentity,
    },
    /// Something was denied: to be counted and traced, before whoever asked is told.
    Denied(Denial),
}

/// How to look at a file that is watched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileLook {
    /// For the first time, with no more rights than this user has, then call [`ServerState::file_opened`].
    Open {
        /// Its absolute path.
        path: PathBuf,
        /// As whom the requester runs.
        identity: UserIdentity,
    },
    /// Once more, then call [`ServerState::file_looked_at`].
    Again,
    /// No more. It may be that it was never opened.
    Close,
}

/// What goes up to the host environment.
#[derive(Clone, PartialEq, Debug)]
pub enum Upcall {
    /// A proc connected for the first time.
    ClientConnected(Proc),
    /// A proc left in order.
    ClientFinalized(Proc),
    /// A proc lost its connection without having left in order.
    ClientLost(Proc),
    /// A tool is gone.
    ToolLeft(Proc),
    /// An event for the host itself, which registered for it.
    Notify {
        /// The event.
        event: Arc<Event>,
        /// How many events may follow from it.
        allowance: EventBudget,
    },
    /// Somebody wants events of the environment of these codes (none: of every code), which nobody wanted until now; answered
    /// by [`ServerState::host_registered`].
    RegisterEvents {
        /// The question.
        id: HostRegistrationId,
        /// The codes.
        codes: Vec<Status>,
    },
    /// Nobody wants events of the environment of these codes any more; with none, nobody wants those of every code.
    DeregisterEvents(Vec<Status>),
    /// Procs are to be controlled; answered by [`ServerState::controlled`].
    JobControl {
        /// The request.
        id: ControlId,
        /// Who asks; none for a module of the site.
        source: Option<Proc>,
        /// What is asked; it makes sense, and nothing forbids it.
        control: JobControl,
    },
    /// Something is to be removed when procs have ended; answered by [`ServerState::answer`].
    Cleanup {
        /// The request.
        to: RequestId,
        /// Who asks.
        source: Proc,
        /// As whom, and with whose rights.
        identity: UserIdentity,
        /// What.
        cleanup: Cleanup,
    },
    /// A request that is the host's business, which it answers or does not support; answered by [`ServerState::answer`].
    Request {
        /// The request.
        to: RequestId,
        /// Who asks.
        source: Proc,
        /// What is asked.
        request: Request,
    },
}
