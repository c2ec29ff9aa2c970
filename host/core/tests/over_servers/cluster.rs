//! Servers with their clients in one thread: links that keep the order of messages, latency, late copies of some, joins and losses,
//! and a clock that goes on when nothing moves.
use super::random::Random;
use crate::carried::{carried, take_over};
use peal_core::{
    MonotonicTime,
    group::ServerId,
    job::{JobPlacement, JobSpec, NodeRanks, NodeRoute},
    job_control::ControlResult,
    server::{
        Action, EventBudget, InterServerMessage, MessageRefusal, MissedEvents, PeerId,
        RecordForServer, RequestId, ServerQueryId, ServerState, StateSettings, Upcall,
    },
};
use peal_model::{
    Event, Info, Key, Nspace, Proc, Query, Rank, RankData, Reply, Request, Status, UserIdentity,
    Value, code, key,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
};

pub const USER: UserIdentity = UserIdentity {
    uid: 1000,
    gid: 100,
};

/// Number of steps of all servers after which the process of one is replaced.
const STEPS_OF_PROCESS: u64 = 499;

/// Largest number of servers whose processes are replaced. Among hundreds this would take minutes.
const MAX_ENCODING: usize = 16;

/// A message in transit, and the time of its arrival.
#[derive(Debug)]
struct Parcel {
    at: u64,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    Message(InterServerMessage),
    /// No message follows, because the sender is gone.
    Left,
}

/// Messages from one server to another, in order.
#[derive(Debug, Default)]
struct Link {
    parcels: VecDeque<Parcel>,
    /// Events for which there was no room.
    missed: MissedEvents,
}

/// A request of a proc and its answers.
#[derive(Debug)]
pub struct Call {
    pub proc: Proc,
    pub answers: Vec<Reply>,
}

impl Call {
    /// Returns the status of the only answer, if there is one.
    pub fn status(&self) -> Option<Status> {
        assert!(self.answers.len() < 2, "answered twice: {self:?}");
        self.answers.first().map(status)
    }
}

/// The answers of other servers to a query.
#[derive(PartialEq, Debug)]
pub struct FoundByServers {
    pub id: ServerQueryId,
    pub answers: Vec<Result<Vec<Info>, Status>>,
}

pub fn status(reply: &Reply) -> Status {
    match reply {
        Reply::Status(status) => *status,
        Reply::Data { status, .. }
        | Reply::Published { status, .. }
        | Reply::Infos { status, .. } => *status,
        other => panic!("unexpected reply {other:?}"),
    }
}

/// Returns the seeds of simulations, usually this number of them. `cargo xtask soak` tries more.
pub fn seeds(usual: u64) -> Range<u64> {
    let number_of = |variable: &str, usual: u64| {
        std::env::var(variable).map_or(usual, |number| number.parse().unwrap())
    };
    let first = number_of("PEAL_CLUSTER_SEED", 0);
    first..first + number_of("PEAL_CLUSTER_CASES", usual)
}

pub struct Cluster {
    pub random: Random,
    pub now: u64,
    pub servers: BTreeMap<ServerId, ServerState>,
    /// The id of the next server: ids are never used again.
    next_id: u32,
    settings: StateSettings,
    /// The connection of each living proc.
    pub peers: BTreeMap<Proc, (ServerId, PeerId)>,
    links: BTreeMap<(ServerId, ServerId), Link>,
    /// The longest time that a message takes, in milliseconds.
    pub latency: u64,
    /// The number of messages on a link beyond which there is no room for events.
    pub capacity: usize,
    /// Copies of messages about fences, which arrive at any time.
    copies: Vec<(ServerId, ServerId, InterServerMessage)>,
    /// The share of messages that arrive twice, in percent.
    pub copied: u64,
    pub calls: Vec<Call>,
    pub refused: Vec<MessageRefusal>,
    pub sent: usize,
    /// Number of steps of all servers.
    steps: u64,
    /// The messages that each server has sent.
    pub sent_by: BTreeMap<ServerId, usize>,
    /// The events that procs have received.
    pub heard: Vec<(Proc, Arc<Event>)>,
    /// The events that have passed the chains of servers.
    pub chained: Vec<(ServerId, Arc<Event>, EventBudget)>,
    /// The published data that could not be restored.
    pub lost: Vec<(Proc, Key)>,
    /// The procs that host environments have controlled.
    pub controlled: Vec<Proc>,
    /// The records of operations for other servers.
    pub orders: Vec<RecordForServer>,
    /// The answer of the audit trail to such a record.
    pub recorded: Result<(), Status>,
    /// The servers whose host environment does not answer.
    pub stuck: BTreeSet<ServerId>,
    /// The queries of other servers that host environments have answered.
    pub queried: Vec<(ServerId, UserIdentity, Vec<Query>)>,
    /// The answers of other servers to queries.
    pub found: Vec<FoundByServers>,
}

impl Cluster {
    /// Creates servers without jobs.
    pub fn new(servers: u32, seed: u64, settings: &StateSettings) -> Cluster {
        let mut cluster = Cluster {
            random: Random(seed),
            now: 0,
            servers: BTreeMap::new(),
            next_id: 1,
            settings: settings.clone(),
            peers: BTreeMap::new(),
            links: BTreeMap::new(),
            latency: 0,
            capacity: usize::MAX,
            copies: Vec::new(),
            copied: 0,
            calls: Vec::new(),
            refused: Vec::new(),
            sent: 0,
            steps: 0,
            sent_by: BTreeMap::new(),
            heard: Vec::new(),
            chained: Vec::new(),
            lost: Vec::new(),
            controlled: Vec::new(),
            orders: Vec::new(),
            recorded: Ok(()),
            stuck: BTreeSet::new(),
            queried: Vec::new(),
            found: Vec::new(),
        };
        for _ in 0..servers {
            cluster.join();
        }
        cluster
    }

    /// Adds a server.
    pub fn join(&mut self) -> ServerId {
        let id = ServerId(self.next_id);
        self.next_id += 1;
        let others: Vec<ServerId> = self.servers.keys().copied().collect();
        assert!(others.iter().all(|other| *other < id), "{id:?} is used");
        let mut server = ServerState::new(self.settings.clone());
        server.enroll(id);
        self.servers.insert(id, server);
        for other in others {
            self.step(other, |server, _| server.server_joined(id));
            self.step(id, |server, _| server.server_joined(other));
        }
        id
    }

    /// Runs an operation on a server and carries out its actions.
    pub fn step(
        &mut self,
        at: ServerId,
        step: impl FnOnce(&mut ServerState, MonotonicTime) -> Vec<Action>,
    ) {
        let few_servers = self.servers.len() <= MAX_ENCODING;
        let Some(server) = self.servers.get_mut(&at) else {
            return;
        };
        let actions = step(server, MonotonicTime(self.now));
        self.steps += 1;
        if few_servers && self.steps.is_multiple_of(STEPS_OF_PROCESS) {
            take_over(server);
        }
        self.act(at, actions);
    }

    fn act(&mut self, at: ServerId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Reply { to, reply } => self.calls[to.tag as usize].answers.push(reply),
                Action::MessageRefused { refusal, .. } => self.refused.push(refusal),
                Action::Send { to, message } => self.send(at, to, message),
                Action::Distribute { event, reach } => {
                    let others = self.servers.keys().filter(|other| **other != at);
                    for to in others.copied().collect::<Vec<_>>() {
                        self.send(at, to, InterServerMessage::Event(event.clone(), reach));
                    }
                }
                Action::Deliver { peer, event } => {
                    let server = &self.servers[&at];
                    self.heard
                        .push((server.proc_of(peer).unwrap().clone(), event));
                }
                Action::Chain {
                    event, allowance, ..
                } => self.chained.push((at, event, allowance)),
                Action::PublishedDataLost { by, key } => self.lost.push((by, key)),
                // The host environment publishes nothing.
                Action::Upcall(Upcall::Request {
                    to,
                    source,
                    request,
                }) => self.step(at, |server, now| {
                    server.data_request(to, source, request, now)
                }),
                Action::ServersQueried { id, answers } => {
                    self.found.push(FoundByServers { id, answers });
                }
                Action::Upcall(upcall) if self.stuck.contains(&at) => drop(upcall),
                // The launchers control no procs of other nodes.
                Action::Upcall(Upcall::ControlOverNodes { id, .. }) => {
                    let answer = Ok(ControlResult::OfServers);
                    self.step(at, |server, now| {
                        server.controlled_over_nodes(id, answer, now)
                    });
                }
                Action::Upcall(Upcall::JobControl { id, control, .. }) => {
                    self.controlled.extend(control.targets.iter().cloned());
                    self.step(at, |server, _| {
                        server.controlled(id, &control.targets, Ok(Vec::new()))
                    });
                }
                Action::Upcall(Upcall::RecordForServer(order)) => {
                    let (id, recorded) = (order.id, self.recorded);
                    self.orders.push(order);
                    self.step(at, |server, now| {
                        server.recorded_for_server(id, recorded, now)
                    });
                }
                Action::Upcall(Upcall::ServerQuery {
                    to,
                    identity,
                    queries,
                }) => {
                    self.queried.push((at, identity, queries));
                    let infos = vec![Info::new(key::PMIX_NODEID, Value::Uint32(at.0))];
                    self.step(at, |server, _| server.answer_server(to, Ok(infos)));
                }
                // The host environment has no events of its own.
                Action::Upcall(Upcall::RegisterEvents { id, .. }) => {
                    let server = self.servers.get_mut(&at).unwrap();
                    let answer = Err(code::PMIX_ERR_NOT_SUPPORTED);
                    let actions = server.host_registered(id, answer);
                    self.act(at, actions);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, from: ServerId, to: ServerId, message: InterServerMessage) {
        assert_ne!(from, to, "a server sends {message:?} to itself");
        self.sent += 1;
        *self.sent_by.entry(from).or_default() += 1;
        if !self.servers.contains_key(&to) {
            return;
        }
        let full = self.capacity;
        let link = self.links.entry((from, to)).or_default();
        if let InterServerMessage::Event(event, reach) = &message
            && link.parcels.len() >= full
        {
            link.missed.count(event, *reach);
            return;
        }
        self.tell_missed(from, to);
        self.put(from, to, Contents::Message(carried(&message)));
    }

    /// Tells a receiver of the events for which there was no room.
    fn tell_missed(&mut self, from: ServerId, to: ServerId) {
        let link = self.links.entry((from, to)).or_default();
        let missed = std::mem::take(&mut link.missed);
        if !missed.is_empty() {
            let missed = InterServerMessage::Missed(missed);
            self.put(from, to, Contents::Message(carried(&missed)));
        }
    }

    fn put(&mut self, from: ServerId, to: ServerId, contents: Contents) {
        let delay = u64::try_from(self.random.below(self.latency as usize + 1)).unwrap();
        let link = self.links.entry((from, to)).or_default();
        let before = link.parcels.back().map_or(0, |parcel| parcel.at);
        let at = before.max(self.now + delay);
        link.parcels.push_back(Parcel { at, contents });
    }

    /// Adds a job to the servers that have its procs, in any order, and connects all procs.
    pub fn add_job(&mut self, nspace: &str, placement: &[(u32, &[u32])]) {
        self.add_routed_job(nspace, placement, NodeRoute::Servers);
    }

    /// Adds a job whose procs of other nodes are reached in this way.
    pub fn add_routed_job(&mut self, nspace: &str, placement: &[(u32, &[u32])], route: NodeRoute) {
        let nspace = Nspace::new(nspace).unwrap();
        let nodes: Vec<NodeRanks> = placement
            .iter()
            .map(|(server, ranks)| NodeRanks {
                hostname: format!("n{server}"),
                ranks: ranks.iter().copied().map(Rank).collect(),
            })
            .collect();
        let mut order: Vec<u32> = placement.iter().map(|(server, _)| *server).collect();
        self.random.shuffle(&mut order);
        for server in order {
            let hostname = format!("n{server}");
            let spec = JobSpec::on_nodes(nspace.clone(), nodes.clone(), hostname, USER);
            let mut spec = spec.unwrap();
            if let JobPlacement::Registered(job) = &mut spec.placement {
                Arc::make_mut(job).route = route;
            }
            self.step(ServerId(server), |server, _| server.add_job(spec));
        }
        for (server, ranks) in placement {
            for rank in *ranks {
                let proc = Proc::new(nspace.clone(), Rank(*rank));
                self.connect(ServerId(*server), &proc);
            }
        }
    }

    pub fn connect(&mut self, server: ServerId, proc: &Proc) {
        let mut peer = None;
        self.step(server, |server, _| {
            let (id, actions) = server.admit(proc, USER).unwrap();
            peer = Some(id);
            actions
        });
        self.peers.insert(proc.clone(), (server, peer.unwrap()));
    }

    /// Makes a request of a living proc, and returns the number of the call.
    pub fn request(&mut self, proc: &Proc, request: Request) -> usize {
        let number = self.calls.len();
        let (server, peer) = self.peers[proc];
        self.calls.push(Call {
            proc: proc.clone(),
            answers: Vec::new(),
        });
        let to = RequestId {
            peer,
            tag: u32::try_from(number).unwrap(),
        };
        self.step(server, |server, now| server.request(to, request, now));
        number
    }

    /// Returns the data of an answered get.
    pub fn data_of(&self, call: usize) -> Vec<RankData> {
        match &self.calls[call].answers[..] {
            [Reply::Data { ranks, .. }] => {
                let ranks = ranks.iter().cloned();
                ranks.map(|data| data.into_inner()).collect()
            }
            other => panic!("no data: {other:?}"),
        }
    }

    /// Ends a proc without a finalize.
    pub fn die(&mut self, proc: &Proc) {
        if let Some((server, peer)) = self.peers.remove(proc) {
            self.step(server, |server, now| server.disconnected(peer, now));
        }
    }

    pub fn server_dies(&mut self, server: ServerId) {
        if self.servers.remove(&server).is_none() {
            return;
        }
        self.peers.retain(|_, (at, _)| *at != server);
        self.links.retain(|(_, to), _| *to != server);
        self.copies.retain(|(_, to, _)| *to != server);
        // It has died while it sent: of what is on its way the last may never have left.
        for ((from, _), link) in &mut self.links {
            if *from == server {
                let sent = self.random.below(link.parcels.len() + 1);
                link.parcels.truncate(sent);
            }
        }
        for other in self.servers.keys().copied().collect::<Vec<_>>() {
            self.put(server, other, Contents::Left);
        }
    }

    /// Returns some living proc with its server; none if all have ended.
    pub fn some_proc(&mut self) -> Option<(Proc, ServerId)> {
        let procs = self.peers.iter();
        let procs: Vec<(Proc, ServerId)> = procs
            .map(|(proc, (server, _))| (proc.clone(), *server))
            .collect();
        let chosen = self.random.below(procs.len());
        procs.get(chosen).cloned()
    }

    /// Delivers one message, if any is on its way.
    pub fn deliver(&mut self) -> bool {
        let now = self.now;
        let due = |link: &Link| link.parcels.front().is_some_and(|first| first.at <= now);
        let links = self.links.values().filter(|link| due(link)).count();
        let choices = links + self.copies.len();
        if choices == 0 {
            return false;
        }
        let chosen = self.random.below(choices);
        if let Some(copy) = chosen.checked_sub(links) {
            let (from, to, message) = self.copies.swap_remove(copy);
            self.step(to, |server, now| server.server_message(from, message, now));
            return true;
        }
        let mut links = self.links.iter_mut().filter(|(_, link)| due(link));
        let ((from, to), link) = links.nth(chosen).unwrap();
        let (from, to) = (*from, *to);
        match link.parcels.pop_front().unwrap().contents {
            Contents::Message(message) => {
                if link.parcels.is_empty() {
                    self.tell_missed(from, to);
                }
                // Messages about groups and events come once: their transport drops copies.
                let may_copy = matches!(
                    message,
                    InterServerMessage::Fence(_) | InterServerMessage::Modex(_)
                );
                if may_copy && self.random.percent(self.copied) {
                    self.copies.push((from, to, message.clone()));
                }
                self.step(to, |server, now| server.server_message(from, message, now));
            }
            Contents::Left => {
                self.links.remove(&(from, to));
                self.step(to, |server, now| server.server_left(from, now));
            }
        }
        true
    }

    pub fn deliver_some(&mut self, most: usize) {
        for _ in 0..self.random.below(most + 1) {
            self.deliver();
        }
    }

    pub fn deliver_all(&mut self) {
        while self.deliver() {}
    }

    /// Advances the time, and delivers all that moves.
    pub fn pass(&mut self, milliseconds: u64) {
        self.deliver_all();
        let until = self.now + milliseconds;
        loop {
            let dues = self.servers.values().filter_map(ServerState::deadline);
            let arrivals = self.links.values().filter_map(|link| link.parcels.front());
            let dues = dues.map(|due| due.0);
            let dues = dues.chain(arrivals.map(|first| first.at));
            match dues.min().filter(|due| *due <= until) {
                Some(due) => self.now = self.now.max(due),
                None => break,
            }
            let ids: Vec<ServerId> = self.servers.keys().copied().collect();
            for id in ids {
                self.step(id, ServerState::tick);
            }
            self.deliver_all();
        }
        self.now = until;
    }
}
