//! Actions and upcalls that a step of the server returns to its caller.
#[cfg(doc)]
use super::ServerState;
use super::{
    DecisionId, Denial, EventBudget, FenceContribution, FenceId, HostRegistrationId, ModexId,
    PeerId, Purpose, PutRefusal, RequestId, Seq, ServerQueryId, ServerReply,
};
use crate::{
    group::{HostGroupRequest, ServerId},
    job_control::{
        Cleanup, ControlId, ControlOverNodes, ControlUpcallId, JobControl, JobControlOperation,
    },
    message_refusal::MessageRefusal,
    monitor::{MonitorId, UsageRequest},
    server_message::InterServerMessage,
    server_message::LogMessage,
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Key, LogRequest, NamedProcs, PolicyRequest, Proc, Query, RankData, Reply, Request,
    Status, UserIdentity,
};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc};

/// The record of an operation for another server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordForServer {
    /// The job-control request.
    pub id: ControlId,
    /// The number of the decision in the audit trail.
    pub number: DecisionId,
    /// The server, which has permitted the operation.
    pub from: ServerId,
    /// The request as policies of this server would see it.
    pub request: Arc<PolicyRequest>,
}

/// An action that the caller of the server carries out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// Sends the reply to a request.
    Reply {
        /// The request.
        to: RequestId,
        /// The reply.
        reply: Reply,
    },
    /// Sends an event to a client.
    Deliver {
        /// The client's connection.
        peer: PeerId,
        /// The event.
        event: Arc<Event>,
    },
    /// Pauses a lagging connection after a batch. The caller calls [`ServerState::resume`] when
    /// everything before this has been written, or nearly; at once if nothing was to be written.
    ///
    /// Until then no event is delivered to the connection; replies are. A connection has at most
    /// one `Pause` or [`Action::Recall`] open, and none is followed by another before it is
    /// answered.
    Pause {
        /// The connection.
        peer: PeerId,
    },
    /// Stores an event that exceeds the memory for retained events. The event need not outlive the
    /// process. A failure is reported when the event is recalled.
    Spill {
        /// The number of the event.
        at: Seq,
        /// The contents of the event.
        event: Arc<Event>,
        /// The user that is charged for the event; none for events of the system.
        uid: Option<u32>,
    },
    /// Removes spilled events by a range of numbers, both ends included. Some numbers in between
    /// may never have been spilled.
    Forget {
        /// The first number.
        first: Seq,
        /// The last number.
        last: Seq,
    },
    /// Fetches spilled events, at most one batch. The caller passes their contents to
    /// [`ServerState::recalled`], with none for an event that cannot be read.
    ///
    /// The events stay stored until an [`Action::Forget`]. It may come in the meantime: an event
    /// that is no longer stored is no error.
    Recall {
        /// The connection that waits for the events.
        peer: PeerId,
        /// The numbers of the events, in ascending order.
        events: Vec<Seq>,
    },
    /// Runs an event through the hosted chains.
    Chain {
        /// The event.
        event: Arc<Event>,
        /// The server at which it was raised.
        origin: EventOrigin,
        /// The users whose chains the event may pass.
        reach: UserScope,
        /// The events that handlers may raise in response.
        allowance: EventBudget,
    },
    /// Runs the event of a proc's abnormal end through the hosted chains. The reporter of the end
    /// may wait for the termination requests of the handlers ([`crate::termination`]).
    Consult {
        /// The proc that ended.
        about: Proc,
        /// The event.
        event: Arc<Event>,
        /// The users whose chains the event may pass.
        reach: UserScope,
        /// The events that handlers may raise in response.
        allowance: EventBudget,
    },
    /// Distributes an event to the other servers.
    Distribute {
        /// The event.
        event: Arc<Event>,
        /// The users whose procs may receive the event there.
        reach: UserScope,
    },
    /// Gathers from the nodes that the host environment reaches, because all local procs have arrived
    /// at a fence. The caller then calls [`ServerState::gathered`].
    Gather {
        /// The fence.
        id: FenceId,
        /// The operation that the fence belongs to.
        purpose: Purpose,
        /// The participants on all nodes.
        procs: NamedProcs,
        /// The values that local procs put for other procs, empty unless the fence collects data;
        /// and whether all local participants arrived.
        contribution: FenceContribution,
    },
    /// Sends the values of a local proc to the node that requested them.
    ModexReply {
        /// The request.
        to: ModexId,
        /// The values that the proc has put for procs of other nodes, or the reason why there are
        /// none.
        values: Result<RankData, Status>,
    },
    /// Sends a message to another server, after everything that was sent to it before.
    Send {
        /// The receiving server.
        to: ServerId,
        /// The message.
        message: InterServerMessage,
    },
    /// Carries out a message of another server about a log request.
    LogMessage {
        /// The sender.
        from: ServerId,
        /// The message.
        message: LogMessage,
    },
    /// Reports published data that are lost, because the next holder of the data of all servers has the
    /// key from another one, or no room.
    PublishedDataLost {
        /// The publisher.
        by: Proc,
        /// The key.
        key: Key,
    },
    /// Returns the answers of other servers to [`ServerState::query_servers`], one for each.
    ServersQueried {
        /// The number that the caller gave the query.
        id: ServerQueryId,
        /// The answers.
        answers: Vec<Result<Vec<Info>, Status>>,
    },
    /// Makes an upcall to the host environment.
    Upcall(Upcall),
    /// Calls the policies of the request's hook, in order. The caller then calls
    /// [`ServerState::decided`].
    Decide {
        /// The decision.
        id: DecisionId,
        /// The request that the policies receive.
        request: Arc<PolicyRequest>,
    },
    /// Writes to log channels. The caller then calls [`ServerState::answer`] if a requester waits.
    Log {
        /// The request that is answered; none if no requester waits.
        to: Option<RequestId>,
        /// The log request.
        request: Arc<LogRequest>,
    },
    /// Counts and traces a message of another server that is refused.
    MessageRefused {
        /// The sender.
        from: ServerId,
        /// The reason.
        refusal: MessageRefusal,
    },
    /// Counts and traces values of a proc that were refused.
    PutRefused {
        /// The proc that put the values.
        proc: Proc,
        /// The reason.
        refusal: PutRefusal,
    },
    /// Records the end of a job-control request.
    JobControlEnded {
        /// The requester; none for a module of the site.
        requester: Option<Proc>,
        /// The operation of the request.
        operation: JobControlOperation,
        /// The procs that it was for.
        targets: Vec<Proc>,
        /// The status with which it ended.
        status: Status,
    },
    /// Checks a monitored file.
    CheckFile {
        /// The monitor.
        watch: MonitorId,
        /// The kind of check.
        check: FileLook,
    },
    /// Measures resource usage, as far as the requester may see it. The caller then calls
    /// [`ServerState::measured`].
    Measure {
        /// The monitor.
        watch: MonitorId,
        /// The usage to measure.
        usage: Arc<UsageRequest>,
        /// The user that the requester runs as.
        identity: UserIdentity,
    },
    /// Counts and traces a denial. Precedes the reply to the requester.
    Denied(Denial),
}

/// The server at which an event was raised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EventOrigin {
    /// This server, or the launcher of its jobs.
    ThisServer,
    /// Another server.
    OtherServer(ServerId),
}

/// A check of a monitored file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FileLook {
    /// Opens the file with no more rights than this user has. The caller then calls
    /// [`ServerState::file_opened`].
    Open {
        /// The absolute path of the file.
        path: PathBuf,
        /// The user that the requester runs as.
        identity: UserIdentity,
    },
    /// Keeps a file at hand that another process of the server has opened. It is opened with no more rights
    /// than this user has when it is checked again.
    Continue {
        /// The absolute path of the file.
        path: PathBuf,
        /// The user that the requester runs as.
        identity: UserIdentity,
    },
    /// Checks the open file again. The caller then calls [`ServerState::file_looked_at`].
    Again,
    /// Closes the file, which may never have been opened.
    Close,
}

/// An upcall to the host environment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Upcall {
    /// Reports the first connection of a proc.
    ClientConnected(Proc),
    /// Reports that a proc finalized. Answered by [`ServerState::answer`]: the proc's finalize waits
    /// for the host environment, which may take the end of its process for a failure before.
    ClientFinalized {
        /// The finalize.
        to: RequestId,
        /// The proc.
        proc: Proc,
    },
    /// Reports that a proc lost its connection without having finalized.
    ClientLost(Proc),
    /// Reports that a tool has left.
    ToolLeft(Proc),
    /// Delivers an event for which the host environment registered.
    Notify {
        /// The event.
        event: Arc<Event>,
        /// The events that may be raised in response.
        allowance: EventBudget,
    },
    /// Requests the values of a proc of another node. Answered by [`ServerState::modex_received`].
    DirectModex(Proc),
    /// Carries out an operation on a group with the servers of other nodes. Answered by
    /// [`ServerState::group_answered`].
    Group(Box<HostGroupRequest>),
    /// Registers for environment events of these codes (none: of every code), which no client
    /// needed until now. Answered by [`ServerState::host_registered`].
    RegisterEvents {
        /// The registration.
        id: HostRegistrationId,
        /// The codes.
        codes: Vec<Status>,
    },
    /// Deregisters codes of environment events that no client needs any more. An empty list ends
    /// the registration for every code.
    DeregisterEvents(Vec<Status>),
    /// Controls procs. Answered by [`ServerState::controlled`].
    JobControl {
        /// The part of a job-control request.
        id: ControlUpcallId,
        /// The requester; none for a module of the site.
        source: Option<Proc>,
        /// The action, its targets and directives. They are valid and permitted.
        control: JobControl,
    },
    /// Records an operation for another server, which begins then. Answered by
    /// [`ServerState::recorded_for_server`].
    RecordForServer(RecordForServer),
    /// Controls procs of which some are on other nodes. Answered by
    /// [`ServerState::controlled_over_nodes`].
    ControlOverNodes {
        /// The job-control request.
        id: ControlId,
        /// The requester; none for a module of the site.
        source: Option<Proc>,
        /// The operation, its targets and directives. They are valid and permitted.
        control: ControlOverNodes,
    },
    /// Answers queries of another server, as far as this node knows, as for this user. Answered by
    /// [`ServerState::answer_server`].
    ServerQuery {
        /// The way of the answer.
        to: ServerReply,
        /// The user of the job that the queries are about.
        identity: UserIdentity,
        /// The queries.
        queries: Vec<Query>,
    },
    /// Removes files when procs have ended. Answered by [`ServerState::answer`].
    Cleanup {
        /// The request.
        to: RequestId,
        /// The requester.
        source: Proc,
        /// The user whose rights bound the removal.
        identity: UserIdentity,
        /// The files to remove, and when.
        cleanup: Cleanup,
    },
    /// Passes on a request that the host environment answers or does not support. Answered by
    /// [`ServerState::answer`].
    Request {
        /// The request.
        to: RequestId,
        /// The requester.
        source: Proc,
        /// The request itself.
        request: Request,
    },
}
