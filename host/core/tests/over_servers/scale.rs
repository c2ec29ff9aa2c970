//! Messages and simulated time of many servers that all have procs of one job: a fence, an event to all, the loss of a server.
//!
//! The servers are real; the network is a list of arrivals. A server sends and receives one message after the other. With
//! `PEAL_CLUSTER_SERVERS=10000` the test prints the table of `docs/src/reference/cluster.md`. All servers know each other, so that memory and
//! time grow with the square of the servers: 10,000 take 9 GB and 20 minutes in a release build. Where costs have a form they are also
//! computed, and compared.
use super::{
    cluster::{USER, status},
    costs::{Cost, HANDLING, LATENCY, computed_announcements, computed_event, computed_fence},
};
use peal_core::{
    MonotonicTime,
    group::ServerId,
    job::{JobPlacement, JobSpec, LauncherMonitoring, NodeRoute, RegisteredJob},
    server::{Action, InterServerMessage, PeerId, RequestId, ServerState, StateSettings, Upcall},
};
use peal_model::{Info, Nspace, Proc, Range, Rank, Request, Status, Value, code, key};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    sync::Arc,
};

const PROCS: u32 = 64;
const NEWS: Status = Status(-3001);

enum Contents {
    Message(ServerId, InterServerMessage),
    Left(ServerId),
}

struct Network {
    now: u64,
    servers: BTreeMap<ServerId, ServerState>,
    peers: BTreeMap<ServerId, Vec<PeerId>>,
    arrivals: BinaryHeap<Reverse<(u64, u64)>>,
    contents: BTreeMap<u64, (ServerId, Contents)>,
    next: u64,
    /// The time from which a server is free.
    free_at: BTreeMap<ServerId, u64>,
    handled: BTreeMap<ServerId, usize>,
    cost: Cost,
    answers: BTreeMap<Status, usize>,
    heard: usize,
}

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

/// The part of a job that a server has.
fn spec(servers: u32, id: ServerId) -> JobSpec {
    let first = (id.0 - 1) * PROCS;
    let job = RegisteredJob {
        size: servers * PROCS,
        local: (first..first + PROCS).map(Rank).collect(),
        nodes: Vec::new(),
        route: NodeRoute::Servers,
        entries: Vec::new(),
        monitoring: LauncherMonitoring::Missing,
    };
    JobSpec {
        topology: None,
        processors: None,
        placement: JobPlacement::Registered(Arc::new(job)),
        ..JobSpec::new(nspace(), PROCS, "node", USER)
    }
}

impl Network {
    /// Creates the servers, adds a job to all and connects its procs. Returns the cost of it as well:
    /// each server announces its procs to each other one.
    fn new(servers: u32, fan_out: usize) -> (Network, Cost) {
        let mut network = Network {
            now: 0,
            servers: BTreeMap::new(),
            peers: BTreeMap::new(),
            arrivals: BinaryHeap::new(),
            contents: BTreeMap::new(),
            next: 0,
            free_at: BTreeMap::new(),
            handled: BTreeMap::new(),
            cost: Cost::default(),
            answers: BTreeMap::new(),
            heard: 0,
        };
        for id in (1..=servers).map(ServerId) {
            let mut server = ServerState::new(StateSettings {
                fence_fan_out: fan_out,
                ..StateSettings::default()
            });
            server.enroll(id);
            let others: Vec<ServerId> = network.servers.keys().copied().collect();
            network.servers.insert(id, server);
            for other in others {
                network.step(other, |server, _| server.server_joined(id));
                network.step(id, |server, _| server.server_joined(other));
            }
            // Soon after each other, so that the messages need not all be kept.
            network.run();
        }
        // The published data that joining servers bring are no announcements.
        network.begin();
        for id in (1..=servers).map(ServerId) {
            network.step(id, |server, _| server.add_job(spec(servers, id)));
            network.run();
        }
        for id in (1..=servers).map(ServerId) {
            let first = (id.0 - 1) * PROCS;
            let mut peers = Vec::new();
            for rank in first..first + PROCS {
                let proc = Proc::new(nspace(), Rank(rank));
                network.step(id, |server, _| {
                    let (peer, actions) = server.admit(&proc, USER).unwrap();
                    peers.push(peer);
                    actions
                });
            }
            network.peers.insert(id, peers);
        }
        network.request_of_all(&Request::RegisterEvents {
            codes: vec![NEWS],
            infos: Vec::new(),
        });
        let cost = network.measured();
        (network, cost)
    }

    fn step(
        &mut self,
        at: ServerId,
        step: impl FnOnce(&mut ServerState, MonotonicTime) -> Vec<Action>,
    ) {
        let now = MonotonicTime(self.now / 1_000_000);
        let Some(server) = self.servers.get_mut(&at) else {
            return;
        };
        let actions = step(server, now);
        self.act(at, actions);
    }

    fn act(&mut self, at: ServerId, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { to, message } => self.send(at, to, message),
                Action::Distribute { event, reach } => {
                    let others = self.servers.keys().filter(|other| **other != at);
                    for to in others.copied().collect::<Vec<_>>() {
                        self.send(at, to, InterServerMessage::Event(event.clone(), reach));
                    }
                }
                Action::Reply { reply, .. } => {
                    *self.answers.entry(status(&reply)).or_default() += 1;
                    self.cost.time = self.now;
                }
                Action::Deliver { .. } => {
                    self.heard += 1;
                    self.cost.time = self.now;
                }
                Action::MessageRefused { refusal, .. } => panic!("{refusal}"),
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

    /// Occupies a server for a message, from a time on. Returns when it is done.
    fn occupy(&mut self, server: ServerId, from: u64) -> u64 {
        let free = self.free_at.entry(server).or_default();
        *free = (*free).max(from) + HANDLING;
        let handled = self.handled.entry(server).or_default();
        *handled += 1;
        self.cost.most_at_one = self.cost.most_at_one.max(*handled);
        *free
    }

    fn send(&mut self, from: ServerId, to: ServerId, message: InterServerMessage) {
        self.cost.messages += 1;
        let sent = self.occupy(from, self.now);
        self.arrive(sent + LATENCY, to, Contents::Message(from, message));
    }

    fn arrive(&mut self, at: u64, to: ServerId, contents: Contents) {
        self.next += 1;
        self.arrivals.push(Reverse((at, self.next)));
        self.contents.insert(self.next, (to, contents));
    }

    /// Runs until nothing is on its way.
    fn run(&mut self) {
        while let Some(Reverse((at, number))) = self.arrivals.pop() {
            let Some((to, contents)) = self.contents.remove(&number) else {
                continue;
            };
            if !self.servers.contains_key(&to) {
                continue;
            }
            self.now = self.occupy(to, at);
            match contents {
                Contents::Message(from, message) => {
                    self.step(to, |server, now| server.server_message(from, message, now))
                }
                Contents::Left(lost) => self.step(to, |server, now| server.server_left(lost, now)),
            }
        }
    }

    /// Makes a request of all procs of a server.
    fn request_at(&mut self, id: ServerId, request: &Request) {
        for peer in self.peers.get(&id).cloned().unwrap_or_default() {
            let to = RequestId { peer, tag: 0 };
            let request = request.clone();
            self.step(id, |server, now| server.request(to, request, now));
        }
    }

    fn request_of_all(&mut self, request: &Request) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.request_at(id, request);
        }
    }

    /// Begins a measurement: time is zero, and all are free.
    fn begin(&mut self) {
        self.now = 0;
        self.free_at.clear();
        self.handled.clear();
        self.cost = Cost::default();
        self.answers.clear();
        self.heard = 0;
    }

    fn measured(&mut self) -> Cost {
        self.run();
        self.cost
    }

    fn fence(&mut self) -> Cost {
        self.begin();
        self.request_of_all(&fence());
        self.measured()
    }

    fn event(&mut self) -> Cost {
        self.begin();
        let source = Proc::new(nspace(), Rank(0));
        let affected = Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(source));
        let notify = Request::Notify {
            code: NEWS,
            range: Range::Global,
            infos: vec![affected],
        };
        let peer = self.peers[&ServerId(1)][0];
        let to = RequestId { peer, tag: 0 };
        self.step(ServerId(1), |server, now| server.request(to, notify, now));
        self.measured()
    }

    /// Removes a server, of which the transport tells all others.
    fn lose(&mut self, lost: ServerId) {
        self.servers.remove(&lost);
        self.peers.remove(&lost);
        for to in self.servers.keys().copied().collect::<Vec<_>>() {
            self.cost.notices += 1;
            self.arrive(self.now + LATENCY, to, Contents::Left(lost));
        }
    }

    /// Loses a server while all others wait for its procs in a fence.
    fn loss_of_late(&mut self, lost: ServerId) -> Cost {
        self.begin();
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            if id != lost {
                self.request_at(id, &fence());
            }
        }
        self.run();
        assert!(self.answers.is_empty(), "{:?}", self.answers);
        self.begin();
        self.lose(lost);
        self.measured()
    }

    /// Loses the server that decides, before anything of a fence has reached it.
    fn loss_of_root(&mut self) -> Cost {
        self.begin();
        self.request_of_all(&fence());
        self.begin();
        // What was on its way to it or from it is lost.
        self.arrivals.clear();
        self.contents.clear();
        self.lose(ServerId(1));
        self.measured()
    }
}

fn fence() -> Request {
    Request::Fence {
        procs: vec![Proc::all(nspace())],
        infos: Vec::new(),
    }
}

/// Fan-out of the trees of fences.
const FAN_OUT: usize = 32;

/// Runs all operations, the loss of the first server last. Checks that each proc is answered and hears the event.
fn costs(servers: u32, fan_out: usize) -> Vec<(&'static str, Cost)> {
    let (mut network, announced) = Network::new(servers, fan_out);
    let procs = usize::try_from(servers * PROCS).unwrap();
    let per_server = usize::try_from(PROCS).unwrap();
    let all = |network: &Network, expected: Status, procs: usize| {
        let answers: Vec<(Status, usize)> = network.answers.clone().into_iter().collect();
        assert_eq!(answers, [(expected, procs)]);
    };
    let fence = network.fence();
    all(&network, code::PMIX_SUCCESS, procs);
    let event = network.event();
    assert_eq!(network.heard, procs - 1);
    let late = network.loss_of_late(ServerId(servers));
    let partial = code::PMIX_ERR_PARTIAL_SUCCESS;
    all(&network, partial, procs - per_server);
    let inner = network.loss_of_late(ServerId(2));
    all(&network, partial, procs - 2 * per_server);
    let root = network.loss_of_root();
    all(&network, partial, procs - 3 * per_server);
    let n = usize::try_from(servers).unwrap();
    assert_eq!(announced.messages, computed_announcements(n).messages);
    assert_eq!(fence, computed_fence(n, fan_out));
    assert_eq!(event, computed_event(n));
    let costs = vec![
        ("fence of all procs", fence),
        ("event to all procs", event),
        ("loss of the last server, which a fence waits for", late),
        ("loss of the second server, which a fence waits for", inner),
        ("loss of the first server during a fence", root),
    ];
    // Servers ask those that are late after 100 ms, and no time passes here by itself. The loss of the first of 10,000 servers takes
    // longer.
    let exact = if servers > 5_000 {
        costs.len() - 1
    } else {
        costs.len()
    };
    assert!(
        costs
            .iter()
            .take(exact)
            .all(|(_, cost)| cost.time < 100_000_000)
    );
    costs
}

#[allow(clippy::print_stdout, reason = "the table is for a person")]
fn print_table(servers: usize, rows: &[(&str, Cost)]) {
    println!("\n{servers} servers of {PROCS} procs, fan-out {FAN_OUT}");
    println!("| operation | messages | notices | most at one server | simulated time |");
    println!("|---|---|---|---|---|");
    for (name, cost) in rows {
        let Cost {
            messages,
            notices,
            most_at_one,
            time,
        } = cost;
        let milliseconds = *time as f64 / 1e6;
        println!("| {name} | {messages} | {notices} | {most_at_one} | {milliseconds:.2} ms |");
    }
}

#[test]
fn fence_and_event_cost_what_the_table_of_the_docs_says() {
    let servers = std::env::var("PEAL_CLUSTER_SERVERS").map_or(40, |n| n.parse().unwrap());
    let n = usize::try_from(servers).unwrap();
    // Its time is that of announcements all at once, which the test does not let happen.
    let announced = ("job announced by all servers", computed_announcements(n));
    print_table(n, &[&[announced], &costs(servers, FAN_OUT)[..]].concat());
}

#[test]
fn costs_of_deep_trees_are_those_computed() {
    for fan_out in [1, 2, 3] {
        costs(24, fan_out);
    }
}

#[test]
fn fence_of_few_servers_takes_the_time_of_a_star() {
    let servers = FAN_OUT + 1;
    let others = servers as u64 - 1;
    let fence = computed_fence(servers, FAN_OUT);
    // All send at once; the root takes one after the other and answers one after the other.
    let up = HANDLING + LATENCY + others * HANDLING;
    let down = others * HANDLING + LATENCY + HANDLING;
    assert_eq!((fence.messages, fence.time), (2 * (servers - 1), up + down));
    costs(u32::try_from(servers).unwrap(), FAN_OUT);
}
