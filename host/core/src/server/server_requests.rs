//! Requests to the servers of procs of other nodes, and requests of other servers about procs of this
//! node.
//!
//! A request is answered when each asked server has answered, has left, or its time is over. A server
//! asks about jobs of which it has procs, and about no others.
use super::{
    Action, MessageRefusal, RecordForServer, ServerContext, ServerState, Upcall,
    control::{ControlContext, ServerOrder, ServerOrderStart},
    policy_gate::GatedRequester,
};
use crate::{
    MonotonicTime,
    group::{Groups, ServerId},
    job_control::{
        ControlId, Declaration, Declared, JobAction, JobControl, JobControlError,
        JobControlOperation, NotDone, ServerCheckpoint, ServerWork,
    },
    server_message::{InterServerMessage, bytes_of_procs},
};
use peal_model::{
    Info, JobControlSubject, Nspace, PolicySubject, Proc, Query, Size, Status, UserIdentity, Value,
    code, key, rank,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Largest number of queries of one server that are answered here at a time.
const MAX_HELD: usize = 256;

/// Number of a request to other servers. Unique at the server that asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct ServerRequestId(pub u64);

/// Number of a query to other servers, given by the caller of [`ServerState::query_servers`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ServerQueryId(pub u64);

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerReply {
    /// The server that asked.
    pub server: ServerId,
    /// Its number of the request.
    pub id: ServerRequestId,
}

impl ServerReply {
    /// Returns the action that answers.
    pub(super) fn answer(self, answer: ServerAnswer) -> Action {
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
                    let parts = checkpoint.procs.iter();
                    let parts = parts
                        .map(|of| bytes_of_procs(of.procs.len()).saturating_add(of.methods.len()));
                    parts.fold(checkpoint.name.len(), usize::saturating_add)
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

/// Answers of the servers that have answered.
#[derive(Debug)]
enum CollectedAnswers {
    /// To a job-control request: the procs that were not controlled, or made no checkpoint.
    Control(ControlId, Vec<NotDone>),
    /// To the first part of a checkpoint or preemption.
    Declarations(ControlId, DeclarationsElsewhere),
    /// To a query.
    Query(ServerQueryId, Vec<Result<Vec<Info>, Status>>),
}

/// Declarations of procs of other nodes.
#[derive(Debug, Default)]
struct DeclarationsElsewhere {
    /// The jobs of which servers were asked.
    jobs: BTreeSet<Nspace>,
    declared: Declared,
    /// The targets of which no server has told anything.
    missing: Vec<NotDone>,
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
enum MissingAnswer {
    Left,
    Late,
}

impl MissingAnswer {
    fn status(self) -> Status {
        match self {
            MissingAnswer::Left => code::PMIX_ERR_UNREACH,
            MissingAnswer::Late => code::PMIX_ERR_TIMEOUT,
        }
    }

    fn text(self) -> &'static str {
        match self {
            MissingAnswer::Left => "the server of its node has left the cluster",
            MissingAnswer::Late => "the server of its node has not answered in time",
        }
    }
}

/// A request that waits for answers.
#[derive(Debug)]
struct OpenServerRequest {
    /// Servers that have not answered, each with the procs that it was asked about.
    waiting: BTreeMap<ServerId, BTreeSet<Proc>>,
    answers: CollectedAnswers,
    until: MonotonicTime,
}

/// Requests of this server that wait for answers, and queries of others that wait here.
#[derive(Debug, Default)]
pub(super) struct ServerRequests {
    open: BTreeMap<ServerRequestId, OpenServerRequest>,
    /// The open requests by the time at which they are over.
    due: BTreeSet<(MonotonicTime, ServerRequestId)>,
    next: u64,
    /// Queries of each other server that are being answered.
    held: BTreeMap<ServerId, usize>,
}

impl ServerRequests {
    /// Returns the time at which the next request is over.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.due.first().map(|(until, _)| *until)
    }

    fn ask(
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
    fn answered(
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
    fn withdraw(&mut self, is_open: impl Fn(ControlId) -> bool) -> Vec<Action> {
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
    fn server_left(&mut self, server: ServerId) -> Vec<CollectedAnswers> {
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
    fn expire(&mut self, now: MonotonicTime) -> Vec<CollectedAnswers> {
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
    fn hold(&mut self, from: ServerId) -> bool {
        let held = self.held.entry(from).or_default();
        let has_room = *held < MAX_HELD;
        *held += usize::from(has_room);
        has_room
    }

    fn release(&mut self, from: ServerId) {
        if let Some(held) = self.held.get_mut(&from) {
            *held = held.saturating_sub(1);
            if *held == 0 {
                self.held.remove(&from);
            }
        }
    }
}

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

/// Requests of this server.
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

    /// Begins a checkpoint or preemption of procs of this node. If they have not declared here what it
    /// needs, another proc of their job may have declared it at its server.
    pub(super) fn checkpoint_of_node(
        &mut self,
        given: ControlContext,
        operation: JobControlOperation,
        targets: Vec<Proc>,
    ) -> Result<Vec<Action>, JobControlError> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let now = given.by.at;
        match self.controls.plan(ctx, &operation, &targets, now) {
            Err(JobControlError::NoMethod(_) | JobControlError::NotPreemptible(_))
                if !self.other_servers_of(&targets).is_empty() =>
            {
                let id = self
                    .controls
                    .accept(&self.clients, given, operation, targets)?;
                Ok(self.ask_declarations(id, now))
            }
            planned => {
                self.controls
                    .checkpoint(ctx, &mut self.events, given, operation, targets, planned?)
            }
        }
    }

    /// Returns the other servers that have procs of the jobs of these procs, each with these jobs.
    fn other_servers_of(&self, procs: &[Proc]) -> BTreeMap<ServerId, BTreeSet<Nspace>> {
        let jobs: BTreeSet<&Nspace> = procs.iter().map(|proc| &proc.nspace).collect();
        let mut found: BTreeMap<ServerId, BTreeSet<Nspace>> = BTreeMap::new();
        for job in jobs {
            for server in self.groups.servers_of(&Proc::all(job.clone())) {
                if server != self.groups.me() {
                    found.entry(server).or_default().insert(job.clone());
                }
            }
        }
        found
    }

    /// Asks the other servers of the targets' jobs what procs have declared.
    fn ask_declarations(&mut self, id: ControlId, now: MonotonicTime) -> Vec<Action> {
        let Some(order) = self.controls.accepted_over_nodes(id) else {
            return Vec::new();
        };
        let mut procs = self.procs_of_servers(&order.elsewhere);
        let targets = [order.local, order.elsewhere].concat();
        let servers = if order.operation.needs_declarations() {
            self.other_servers_of(&targets)
        } else {
            BTreeMap::new()
        };
        let answers = DeclarationsElsewhere {
            jobs: servers.values().flatten().cloned().collect(),
            declared: Declared::default(),
            missing: procs.not_reached(),
        };
        let asked = servers
            .keys()
            .map(|server| (*server, procs.reached.remove(server).unwrap_or_default()))
            .collect();
        let answers = CollectedAnswers::Declarations(id, answers);
        let until = now + self.settings.server_answer_timeout;
        self.ask_servers(answers, asked, until, now, |server, _| {
            ServerRequest::Declarations(servers.get(&server).cloned().unwrap_or_default())
        })
    }

    /// Begins a checkpoint or preemption on all nodes. The declarations of their procs are known.
    /// Nothing begins if one of the procs cannot take part.
    fn checkpoint_by_servers(
        &mut self,
        id: ControlId,
        declarations: DeclarationsElsewhere,
        now: MonotonicTime,
    ) -> Vec<Action> {
        // The requester may have cancelled it.
        let Some(order) = self.controls.accepted_over_nodes(id) else {
            return Vec::new();
        };
        let DeclarationsElsewhere {
            declared,
            mut missing,
            ..
        } = declarations;
        let procs = self.procs_of_servers(&order.elsewhere);
        if missing.is_empty() {
            // A server or a job may have gone since it answered.
            let left = MissingAnswer::Left;
            let gone = procs.unreached.iter().cloned();
            missing.extend(NotDone::each(gone, left.status(), left.text()));
            let all = order.local.iter().chain(&order.elsewhere);
            let ended = all
                .filter(|proc| !self.clients.has_job(&proc.nspace))
                .cloned();
            let reason = "its job has ended";
            missing.extend(NotDone::each(ended, code::PMIX_ERR_NOT_FOUND, reason));
        }
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let events = &mut self.events;
        if !missing.is_empty() {
            return self.controls.cannot_begin(ctx, events, id, missing);
        }
        let planned = self
            .controls
            .plan_over_nodes(ctx, id, declared, &order, now);
        let mut planned = match planned {
            Ok(planned) => planned,
            Err(error) => return self.controls.refuse(ctx, events, id, &error),
        };
        let mut orders = BTreeMap::new();
        let mut asked = procs.reached;
        // Procs without a method have the grace period alone.
        asked.retain(|server, procs| {
            let methods = planned.take(procs.iter());
            procs.retain(|proc| methods.contains_key(proc));
            orders.insert(*server, ServerCheckpoint::group(&methods));
            !procs.is_empty()
        });
        let name = planned.name.clone();
        let request = self.controls.name_of(id).unwrap_or_default().to_owned();
        let timeout = planned.timeout;
        let until = planned.deadline + self.settings.server_answer_timeout;
        let begun = self.controls.begin_beside_servers(ctx, events, id, planned);
        let requester = self.known_elsewhere(order.requester);
        let answers = CollectedAnswers::Control(id, Vec::new());
        let asks = self.ask_servers(answers, asked, until, now, |server, _| {
            ServerRequest::Checkpoint {
                requester: requester.clone(),
                checkpoint: ServerCheckpoint {
                    request: request.clone(),
                    name: name.clone(),
                    timeout,
                    procs: orders.get(&server).cloned().unwrap_or_default(),
                },
            }
        });
        begun.into_iter().chain(asks).collect()
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

/// Requests of other servers.
impl ServerState {
    /// Handles a message of another server about a request.
    pub(super) fn request_message(
        &mut self,
        from: ServerId,
        message: ServerRequestMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let taken = match message {
            ServerRequestMessage::Answer { id, answer } => self.answered_by(from, id, answer, now),
            ServerRequestMessage::Withdraw { id } => {
                let withdrawn = ServerReply { server: from, id };
                let ctx = ServerContext::new(&self.clients, &self.settings);
                let events = &mut self.events;
                Ok(self
                    .controls
                    .cancel_orders(ctx, events, |order| order == withdrawn))
            }
            ServerRequestMessage::Ask { id, request } => {
                let to = ServerReply { server: from, id };
                match request {
                    ServerRequest::Control {
                        requester,
                        action,
                        targets,
                    } => {
                        let control = JobControl {
                            action,
                            targets: targets.clone(),
                            directives: Vec::new(),
                        };
                        self.work_for_server(to, requester, ServerWork::Act(control))
                    }
                    ServerRequest::Checkpoint {
                        requester,
                        checkpoint,
                    } => {
                        let work = ServerWork::Checkpoint(checkpoint);
                        self.work_for_server(to, requester, work)
                    }
                    ServerRequest::Declarations(jobs) => self.tell_declarations(to, &jobs),
                    ServerRequest::Query { job, queries } => {
                        self.query_for_server(to, &job, queries)
                    }
                }
            }
        };
        taken.unwrap_or_else(|refusal| vec![Action::MessageRefused { from, refusal }])
    }

    fn answered_by(
        &mut self,
        from: ServerId,
        id: ServerRequestId,
        answer: ServerAnswer,
        now: MonotonicTime,
    ) -> Result<Vec<Action>, MessageRefusal> {
        if let ServerAnswer::Declared(declared) = &answer {
            let mut procs = declared.iter().map(|declared| &declared.proc);
            if let Some(foreign) = procs.find(|proc| !self.groups.may_speak_for(from, proc)) {
                return Err(MessageRefusal::ForeignProc(foreign.clone()));
            }
        }
        let over = self.requests.answered(from, id, answer);
        Ok(self.all_answered(over, now))
    }

    /// Answers a query of another server.
    pub fn answer_server(
        &mut self,
        to: ServerReply,
        answer: Result<Vec<Info>, Status>,
    ) -> Vec<Action> {
        self.requests.release(to.server);
        vec![to.answer(ServerAnswer::Queried(answer))]
    }

    /// Checks that a server may ask about a job: it has procs of it. Returns the user of the job, or
    /// none if this server does not have the job any more.
    fn check_part(
        &self,
        from: ServerId,
        nspace: &Nspace,
    ) -> Result<Option<UserIdentity>, MessageRefusal> {
        let Some(job) = self.clients.job(nspace) else {
            return Ok(None);
        };
        if self.groups.has_procs_at(nspace, from) {
            Ok(Some(job.spec.identity))
        } else {
            Err(MessageRefusal::NoPart(nspace.clone()))
        }
    }

    fn work_for_server(
        &mut self,
        reply: ServerReply,
        requester: Option<Proc>,
        work: ServerWork,
    ) -> Result<Vec<Action>, MessageRefusal> {
        if let Some(proc) = requester.as_ref()
            && (self.clients.life(proc).is_some() || !self.groups.may_speak_for(reply.server, proc))
        {
            return Err(MessageRefusal::ForeignProc(proc.clone()));
        }
        let targets = work.procs();
        let mut owner = None;
        for target in &targets {
            owner = self.check_part(reply.server, &target.nspace)?.or(owner);
        }
        if !work.is_valid() {
            let reason = "the order has a wrong name, signal or checkpoint method";
            let not_done = NotDone::each(targets, code::PMIX_ERR_BAD_PARAM, reason);
            return Ok(vec![reply.answer(ServerAnswer::Controlled(not_done))]);
        }
        let subject = PolicySubject::JobControl(JobControlSubject {
            directives: work.directives(),
        });
        let order = ServerOrder {
            reply,
            requester,
            owner,
            work,
        };
        let requester = GatedRequester {
            proc: order.requester.clone(),
            identity: owner,
            groups: Arc::new([]),
        };
        let (id, known) = match self.controls.accept_for_server(&self.clients, order) {
            ServerOrderStart::Accepted { id, known } => (id, known),
            ServerOrderStart::Over(answer) => return Ok(vec![answer]),
        };
        let request = self.policy_request(subject, requester, &known);
        Ok(vec![Action::Upcall(Upcall::RecordForServer(
            RecordForServer {
                id,
                number: self.gate.number(),
                from: reply.server,
                request: Arc::new(request),
            },
        ))])
    }

    /// Begins an operation for another server that is recorded, or that cannot be. The answer to an
    /// [`Upcall::RecordForServer`].
    pub fn recorded_for_server(
        &mut self,
        id: ControlId,
        recorded: Result<(), Status>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.controls
            .recorded_for_server(ctx, &mut self.events, id, recorded, now)
    }

    fn tell_declarations(
        &mut self,
        to: ServerReply,
        jobs: &BTreeSet<Nspace>,
    ) -> Result<Vec<Action>, MessageRefusal> {
        let mut declared = Vec::new();
        for job in jobs {
            self.check_part(to.server, job)?;
            declared.extend(self.controls.declarations_of(job));
        }
        Ok(vec![to.answer(ServerAnswer::Declared(declared))])
    }

    fn query_for_server(
        &mut self,
        to: ServerReply,
        job: &Nspace,
        queries: Vec<Query>,
    ) -> Result<Vec<Action>, MessageRefusal> {
        let owner = self.check_part(to.server, job)?;
        let refused = |status| vec![to.answer(ServerAnswer::Queried(Err(status)))];
        for query in &queries {
            match named_jobs(query) {
                Ok(named) => {
                    if let Some(foreign) = named.into_iter().find(|named| named != job) {
                        return Err(MessageRefusal::NoPart(foreign));
                    }
                }
                Err(status) => return Ok(refused(status)),
            }
        }
        let Some(identity) = owner else {
            return Ok(refused(code::PMIX_ERR_NOT_FOUND));
        };
        if !self.requests.hold(to.server) {
            return Ok(refused(code::PMIX_ERR_OUT_OF_RESOURCE));
        }
        Ok(vec![Action::Upcall(Upcall::ServerQuery {
            to,
            identity,
            queries,
        })])
    }
}

/// Returns the jobs that a query names. One that names none would be about all jobs of the user.
fn named_jobs(query: &Query) -> Result<Vec<Nspace>, Status> {
    let names = [key::PMIX_NSPACE, key::PMIX_PROCID];
    let is_name = |info: &&Info| names.iter().any(|name| info.key == *name);
    let named = query.qualifiers.iter().filter(is_name);
    let named = named.map(|info| match &info.value {
        Value::Proc(proc) => Ok(proc.nspace.clone()),
        Value::Nspace(nspace) => Ok(nspace.clone()),
        value => {
            let name = value.as_str().and_then(|name| Nspace::new(name).ok());
            name.ok_or(code::PMIX_ERR_BAD_PARAM)
        }
    });
    let named = named.collect::<Result<Vec<Nspace>, Status>>()?;
    if named.is_empty() {
        Err(code::PMIX_ERR_BAD_PARAM)
    } else {
        Ok(named)
    }
}

fn send(to: ServerId, message: ServerRequestMessage) -> Action {
    let message = InterServerMessage::Request(message);
    Action::Send { to, message }
}
