//! Requests that wait for answers of other servers, and what has been answered.
use super::{
    ServerQueryId,
    message::{
        ProcDeclaration, ServerAnswer, ServerRequest, ServerRequestId, ServerRequestMessage, send,
    },
};
use crate::{
    MonotonicTime,
    group::ServerId,
    job_control::{ControlId, Declared, NotDone},
    server::Action,
};
use peal_model::{Info, Nspace, Proc, Status, code};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of queries of one server that are answered here at a time.
const MAX_HELD: usize = 256;

/// Answers of the servers that have answered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CollectedAnswers {
    /// To a job-control request: the procs that were not controlled, or made no checkpoint.
    Control(ControlId, Vec<NotDone>),
    /// To the first part of a checkpoint or preemption.
    Declarations(ControlId, DeclarationsElsewhere),
    /// To a query.
    Query(ServerQueryId, Vec<Result<Vec<Info>, Status>>),
}

/// Declarations of procs of other nodes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DeclarationsElsewhere {
    /// The jobs of which servers were asked.
    pub(super) jobs: BTreeSet<Nspace>,
    /// The declarations.
    pub(super) declared: Declared,
    /// The targets of which no server has told anything.
    pub(super) missing: Vec<NotDone>,
}

impl CollectedAnswers {
    /// Adds the answer of a server. Returns false for an answer of another kind.
    fn add(&mut self, asked: &BTreeSet<Proc>, answer: ServerAnswer) -> bool {
        match (self, answer) {
            (CollectedAnswers::Control(_, all), ServerAnswer::Controlled(not_done)) => {
                // A server is believed once about each proc that it was asked about.
                let mut asked = asked.clone();
                let not_done = not_done.into_iter().filter(|one| asked.remove(&one.proc));
                all.extend(not_done.map(NotDone::with_short_reason));
                true
            }
            (CollectedAnswers::Declarations(_, all), ServerAnswer::Declared(declared)) => {
                for ProcDeclaration { proc, declaration } in declared {
                    if all.jobs.contains(&proc.nspace) && declaration.is_valid() {
                        all.declared.declare(&proc, declaration);
                    }
                }
                true
            }
            (CollectedAnswers::Query(_, all), ServerAnswer::Queried(found)) => {
                all.push(found);
                true
            }
            _ => false,
        }
    }

    /// Adds that a server gives no answer.
    fn add_missing(&mut self, asked: BTreeSet<Proc>, reason: MissingAnswer) {
        match self {
            CollectedAnswers::Control(_, all) => {
                all.extend(NotDone::each(asked, reason.status(), reason.text()));
            }
            CollectedAnswers::Declarations(_, all) => {
                let missing = NotDone::each(asked, reason.status(), reason.text());
                all.missing.extend(missing);
            }
            CollectedAnswers::Query(_, all) => all.push(Err(reason.status())),
        }
    }
}

/// The reason for which a server gives no answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum MissingAnswer {
    Left,
    Late,
}

impl MissingAnswer {
    pub(super) fn status(self) -> Status {
        match self {
            MissingAnswer::Left => code::PMIX_ERR_UNREACH,
            MissingAnswer::Late => code::PMIX_ERR_TIMEOUT,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            MissingAnswer::Left => "the server of its node has left the cluster",
            MissingAnswer::Late => "the server of its node has not answered in time",
        }
    }
}

/// A request that waits for answers.
#[derive(Debug, Serialize, Deserialize)]
struct OpenServerRequest {
    /// Servers that have not answered, each with the procs that it was asked about.
    waiting: BTreeMap<ServerId, BTreeSet<Proc>>,
    answers: CollectedAnswers,
    until: MonotonicTime,
}

/// Requests of this server that wait for answers, and queries of others that wait here.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::server) struct ServerRequests {
    open: BTreeMap<ServerRequestId, OpenServerRequest>,
    /// The open requests by the time at which they are over.
    due: BTreeSet<(MonotonicTime, ServerRequestId)>,
    next: u64,
    /// Queries of each other server that are being answered.
    held: BTreeMap<ServerId, usize>,
}

impl ServerRequests {
    /// Returns the time at which the next request is over.
    pub(in crate::server) fn deadline(&self) -> Option<MonotonicTime> {
        self.due.first().map(|(until, _)| *until)
    }

    pub(super) fn ask(
        &mut self,
        answers: CollectedAnswers,
        asked: BTreeMap<ServerId, BTreeSet<Proc>>,
        until: MonotonicTime,
        request: impl Fn(ServerId, &BTreeSet<Proc>) -> ServerRequest,
    ) -> Vec<Action> {
        let id = ServerRequestId(self.next);
        self.next += 1;
        let messages = asked.iter().map(|(to, procs)| {
            let request = request(*to, procs);
            send(*to, ServerRequestMessage::Ask { id, request })
        });
        let messages = messages.collect();
        let open = OpenServerRequest {
            waiting: asked,
            answers,
            until,
        };
        self.open.insert(id, open);
        self.due.insert((until, id));
        messages
    }

    /// Adds the answer of a server. Returns all answers if it was the last one.
    pub(super) fn answered(
        &mut self,
        from: ServerId,
        id: ServerRequestId,
        answer: ServerAnswer,
    ) -> Option<CollectedAnswers> {
        let open = self.open.get_mut(&id)?;
        let asked = open.waiting.get(&from)?;
        if !open.answers.add(asked, answer) {
            return None;
        }
        open.waiting.remove(&from);
        if open.waiting.is_empty() {
            self.close(id).map(|open| open.answers)
        } else {
            None
        }
    }

    fn close(&mut self, id: ServerRequestId) -> Option<OpenServerRequest> {
        let open = self.open.remove(&id)?;
        self.due.remove(&(open.until, id));
        Some(open)
    }

    /// Closes the job-control requests that have ended, and takes them back from the servers that have
    /// not answered.
    pub(super) fn withdraw(&mut self, is_open: impl Fn(ControlId) -> bool) -> Vec<Action> {
        let ended = self.open.iter().filter(|(_, open)| match open.answers {
            CollectedAnswers::Control(id, _) | CollectedAnswers::Declarations(id, _) => {
                !is_open(id)
            }
            CollectedAnswers::Query(..) => false,
        });
        let ended: Vec<ServerRequestId> = ended.map(|(id, _)| *id).collect();
        let mut messages = Vec::new();
        for id in ended {
            let servers = self.close(id).map(|open| open.waiting).unwrap_or_default();
            let servers = servers.into_keys();
            messages
                .extend(servers.map(|server| send(server, ServerRequestMessage::Withdraw { id })));
        }
        messages
    }

    /// Waits no longer for a server. Returns the requests that are over with that.
    pub(super) fn server_left(&mut self, server: ServerId) -> Vec<CollectedAnswers> {
        self.held.remove(&server);
        let mut over = Vec::new();
        for (id, open) in &mut self.open {
            if let Some(asked) = open.waiting.remove(&server) {
                open.answers.add_missing(asked, MissingAnswer::Left);
                over.extend(open.waiting.is_empty().then_some(*id));
            }
        }
        let over = over.into_iter().filter_map(|id| self.close(id));
        over.map(|open| open.answers).collect()
    }

    /// Returns the requests whose time is over.
    pub(super) fn expire(&mut self, now: MonotonicTime) -> Vec<CollectedAnswers> {
        let due = self.due.iter().take_while(|(until, _)| *until <= now);
        let due: Vec<ServerRequestId> = due.map(|(_, id)| *id).collect();
        let over = due.into_iter().filter_map(|id| self.close(id));
        let over = over.map(|open| {
            let mut answers = open.answers;
            for asked in open.waiting.into_values() {
                answers.add_missing(asked, MissingAnswer::Late);
            }
            answers
        });
        over.collect()
    }

    /// Notes that a query of a server is being answered. Returns false if there are too many.
    pub(super) fn hold(&mut self, from: ServerId) -> bool {
        let held = self.held.entry(from).or_default();
        let has_room = *held < MAX_HELD;
        *held += usize::from(has_room);
        has_room
    }

    pub(super) fn release(&mut self, from: ServerId) {
        if let Some(held) = self.held.get_mut(&from) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held.remove(&from);
            }
        }
    }
}
