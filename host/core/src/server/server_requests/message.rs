//! Messages about requests to the servers of procs of other nodes.
use crate::{
    group::ServerId,
    job_control::{Declaration, JobAction, NotDone, ServerCheckpoint},
    server::Action,
    server_message::{InterServerMessage, bytes_of_procs},
};
use peal_model::{Info, Nspace, Proc, Query, Size, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Number of a request to other servers. Unique at the server that asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ServerRequestId(pub u64);

/// A request to the server of procs of another node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServerRequest {
    /// Controls procs of the receiver.
    Control {
        /// The requester; none for a tool, and for a module of the site.
        requester: Option<Proc>,
        /// The action.
        action: JobAction,
        /// Single procs of the receiver.
        targets: Vec<Proc>,
    },
    /// Answers queries about a job, as far as the receiver's node knows.
    Query {
        /// The job.
        job: Nspace,
        /// The queries.
        queries: Vec<Query>,
    },
    /// Tells what the procs of jobs have declared about checkpoints and preemption.
    Declarations(BTreeSet<Nspace>),
    /// Procs of the receiver make a checkpoint.
    Checkpoint {
        /// The requester; none for a tool, and for a module of the site.
        requester: Option<Proc>,
        /// The checkpoint.
        checkpoint: ServerCheckpoint,
    },
}

/// Declaration of a proc.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcDeclaration {
    /// The proc.
    pub proc: Proc,
    /// The declaration.
    pub declaration: Declaration,
}

/// The way of an answer to another server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerReply {
    /// The server that asked.
    pub server: ServerId,
    /// Its number of the request.
    pub id: ServerRequestId,
}

impl ServerReply {
    /// Returns the action that answers.
    pub(in crate::server) fn answer(self, answer: ServerAnswer) -> Action {
        send(
            self.server,
            ServerRequestMessage::Answer {
                id: self.id,
                answer,
            },
        )
    }
}

/// The answer to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServerAnswer {
    /// Lists the procs that were not controlled, or made no checkpoint.
    Controlled(Vec<NotDone>),
    /// Tells what procs of the sender have declared.
    Declared(Vec<ProcDeclaration>),
    /// Answers queries.
    Queried(Result<Vec<Info>, Status>),
}

/// A message about a request to the server of procs of another node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServerRequestMessage {
    /// Asks.
    Ask {
        /// The sender's number of the request.
        id: ServerRequestId,
        /// The request.
        request: ServerRequest,
    },
    /// Answers.
    Answer {
        /// The receiver's number of the request.
        id: ServerRequestId,
        /// The answer.
        answer: ServerAnswer,
    },
    /// Takes a request back. What has not begun by then does not begin.
    Withdraw {
        /// The sender's number of the request.
        id: ServerRequestId,
    },
}

impl ServerRequestMessage {
    /// Returns the approximate memory of the message beside its own size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let infos = |infos: &[Info]| {
            let sizes = infos.iter().map(|info| Size::of_info(info).bytes);
            sizes.fold(0, usize::saturating_add)
        };
        match self {
            ServerRequestMessage::Ask { request, .. } => match request {
                ServerRequest::Control { targets, .. } => bytes_of_procs(targets.len()),
                ServerRequest::Query { queries, .. } => {
                    let keys = queries.iter().flat_map(|query| query.keys.iter().flatten());
                    let keys = keys.map(|key| key.as_bytes().len());
                    let keys = keys.fold(0, usize::saturating_add);
                    let qualifiers = queries.iter().map(|query| infos(&query.qualifiers));
                    qualifiers.fold(keys, usize::saturating_add)
                }
                ServerRequest::Declarations(jobs) => jobs.len().saturating_mul(size_of::<Nspace>()),
                ServerRequest::Checkpoint { checkpoint, .. } => {
                    let names = checkpoint
                        .request
                        .len()
                        .saturating_add(checkpoint.name.len());
                    let parts = checkpoint.procs.iter().map(|of| {
                        let methods = size_of_val(of.methods.as_slice());
                        bytes_of_procs(of.procs.len()).saturating_add(methods)
                    });
                    parts.fold(names, usize::saturating_add)
                }
            },
            ServerRequestMessage::Answer { answer, .. } => match answer {
                ServerAnswer::Controlled(not_done) => {
                    let reasons = not_done.iter().map(|one| one.reason.len());
                    let reasons = reasons.fold(0, usize::saturating_add);
                    reasons.saturating_add(not_done.len().saturating_mul(size_of::<NotDone>()))
                }
                ServerAnswer::Declared(declared) => {
                    let methods = declared.iter().map(|of| {
                        let methods = of.declaration.methods.as_ref();
                        methods.map_or(0, |methods| size_of_val(methods.as_slice()))
                    });
                    let own = declared.len().saturating_mul(size_of::<ProcDeclaration>());
                    methods.fold(own, usize::saturating_add)
                }
                ServerAnswer::Queried(Ok(found)) => infos(found),
                ServerAnswer::Queried(Err(_)) => 0,
            },
            ServerRequestMessage::Withdraw { .. } => 0,
        }
    }
}

pub(super) fn send(to: ServerId, message: ServerRequestMessage) -> Action {
    let message = InterServerMessage::Request(message);
    Action::Send { to, message }
}
