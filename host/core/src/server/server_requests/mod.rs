//! Requests to the servers of procs of other nodes, and requests of other servers about procs of this
//! node.
//!
//! A request is answered when each asked server has answered, has left, or its time is over. A server
//! asks about jobs of which it has procs, and about no others.
mod checkpoints;
mod for_servers;
mod message;
mod open;

use super::{Action, ServerContext, ServerState};
use crate::{
    MonotonicTime,
    group::{Groups, ServerId},
    job_control::{ControlId, JobControlOperation, NotDone},
};
pub use message::{
    ProcDeclaration, ServerAnswer, ServerReply, ServerRequest, ServerRequestId,
    ServerRequestMessage,
};
use open::CollectedAnswers;
pub(super) use open::ServerRequests;
use peal_model::{Nspace, Proc, Query, code, rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Number of a query to other servers, given by the caller of [`ServerState::query_servers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ServerQueryId(pub u64);

/// Procs of other nodes by their servers.
#[derive(Debug, Default)]
struct ProcsOfServers {
    reached: BTreeMap<ServerId, BTreeSet<Proc>>,
    /// Those of which no server has announced that it has them.
    unreached: Vec<Proc>,
}

impl ProcsOfServers {
    /// Returns the procs for which the named ones stand. `size` returns the size of a job.
    fn new(groups: &Groups, named: &[Proc], size: impl Fn(&Nspace) -> Option<u32>) -> Self {
        let mut found = ProcsOfServers::default();
        for proc in named {
            if proc.rank == rank::PMIX_RANK_WILDCARD {
                let mut known = 0;
                for server in groups.servers_of(proc) {
                    let procs = groups.procs_at(&proc.nspace, server);
                    known += procs.len();
                    if server != groups.me() {
                        found.add(server, procs.into_iter());
                    }
                }
                let size = size(&proc.nspace).and_then(|size| usize::try_from(size).ok());
                if size.is_some_and(|size| known < size) {
                    found.unreached.push(proc.clone());
                }
            } else {
                match groups.server_of(proc) {
                    Some(server) if server != groups.me() => {
                        found.add(server, std::iter::once(proc.clone()));
                    }
                    _ => found.unreached.push(proc.clone()),
                }
            }
        }
        found
    }

    /// Returns all procs that are known singly.
    fn single(&self) -> Vec<Proc> {
        let reached = self.reached.values().flatten();
        reached.chain(&self.unreached).cloned().collect()
    }

    fn not_reached(&self) -> Vec<NotDone> {
        NotDone::each(
            self.unreached.iter().cloned(),
            code::PMIX_ERR_NOT_SUPPORTED,
            "on another node, without a server in the cluster, and its launcher controls no procs",
        )
    }

    fn add(&mut self, server: ServerId, procs: impl Iterator<Item = Proc>) {
        let mut procs = procs.peekable();
        if procs.peek().is_some() {
            self.reached.entry(server).or_default().extend(procs);
        }
    }
}

impl ServerState {
    /// Has the servers of several nodes carry out an operation, which their launcher does not. A
    /// checkpoint or preemption begins when they have told what the procs have declared.
    pub(super) fn control_by_servers(&mut self, id: ControlId, now: MonotonicTime) -> Vec<Action> {
        let Some(order) = self.controls.left_by_launcher(id) else {
            return Vec::new();
        };
        let procs = self.procs_of_servers(&order.elsewhere);
        self.controls.name_elsewhere(id, procs.single());
        let JobControlOperation::Act(action) = order.operation else {
            return self.ask_declarations(id, now);
        };
        let acts = self.controls.act_beside_servers(id, action.clone());
        let requester = self.known_elsewhere(order.requester);
        let answers = CollectedAnswers::Control(id, procs.not_reached());
        let until = now + self.settings.server_answer_timeout;
        let asks = self.ask_servers(answers, procs.reached, until, now, |_, targets| {
            ServerRequest::Control {
                requester: requester.clone(),
                action: action.clone(),
                targets: targets.iter().cloned().collect(),
            }
        });
        acts.into_iter().chain(asks).collect()
    }

    /// Takes the requests that have ended back from other servers.
    pub(super) fn withdraw_requests(&mut self) -> Vec<Action> {
        let controls = &self.controls;
        self.requests.withdraw(|id| controls.is_open(id))
    }

    /// Returns the requester if other servers know it: a proc of this server. Tools they do not know.
    fn known_elsewhere(&self, requester: Option<Proc>) -> Option<Proc> {
        requester.filter(|proc| self.clients.life(proc).is_some())
    }

    fn procs_of_servers(&self, named: &[Proc]) -> ProcsOfServers {
        let size = |nspace: &Nspace| self.clients.ranks_of(nspace)?.size;
        ProcsOfServers::new(&self.groups, named, size)
    }

    /// Asks servers about these procs. Without servers the answers are complete.
    fn ask_servers(
        &mut self,
        answers: CollectedAnswers,
        asked: BTreeMap<ServerId, BTreeSet<Proc>>,
        until: MonotonicTime,
        now: MonotonicTime,
        request: impl Fn(ServerId, &BTreeSet<Proc>) -> ServerRequest,
    ) -> Vec<Action> {
        if asked.is_empty() {
            self.all_answered([answers], now)
        } else {
            self.requests.ask(answers, asked, until, request)
        }
    }

    /// Passes queries about a job to the other servers that have procs of it. They are answered by
    /// [`Action::ServersQueried`], at once if there is no such server.
    pub fn query_servers(
        &mut self,
        id: ServerQueryId,
        job: &Nspace,
        queries: &[Query],
        now: MonotonicTime,
    ) -> Vec<Action> {
        let me = self.groups.me();
        let others = self.groups.servers_of(&Proc::all(job.clone())).into_iter();
        let others: BTreeMap<ServerId, BTreeSet<Proc>> = others
            .filter(|server| *server != me)
            .map(|server| (server, BTreeSet::new()))
            .collect();
        let others = if self.clients.has_job(job) {
            others
        } else {
            BTreeMap::new()
        };
        let answers = CollectedAnswers::Query(id, Vec::new());
        let until = now + self.settings.server_answer_timeout;
        self.ask_servers(answers, others, until, now, |_, _| ServerRequest::Query {
            job: job.clone(),
            queries: queries.to_vec(),
        })
    }

    /// Ends the requests to a server that has left, and what it has ordered.
    pub(super) fn requests_of_left(&mut self, server: ServerId, now: MonotonicTime) -> Vec<Action> {
        let over = self.requests.server_left(server);
        let mut actions = self.all_answered(over, now);
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let events = &mut self.events;
        let ordered = |order: ServerReply| order.server == server;
        let mut ended = self.controls.cancel_orders(ctx, events, ordered);
        // Nobody waits for their answers.
        ended.retain(|action| !matches!(action, Action::Send { to, .. } if *to == server));
        actions.extend(ended);
        actions
    }

    /// Ends the requests whose time is over.
    pub(super) fn expire_requests(&mut self, now: MonotonicTime) -> Vec<Action> {
        let over = self.requests.expire(now);
        self.all_answered(over, now)
    }

    fn all_answered(
        &mut self,
        over: impl IntoIterator<Item = CollectedAnswers>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let ended = over.into_iter().flat_map(|answers| match answers {
            CollectedAnswers::Control(id, not_done) => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.controls
                    .servers_answered(ctx, &mut self.events, id, not_done)
            }
            CollectedAnswers::Declarations(id, declarations) => {
                self.checkpoint_by_servers(id, declarations, now)
            }
            CollectedAnswers::Query(id, answers) => vec![Action::ServersQueried { id, answers }],
        });
        ended.collect()
    }
}
