//! `peal serve` on three nodes of a cluster while servers and NATS servers are killed and stopped and links are cut,
//! compared with a list of what was raised: no event twice, none lost uncounted, and groups that end the same for all.
//!
//! Seeds are in `PEAL_FAULT_SEED`, numbers of rounds in `PEAL_FAULT_ROUNDS`, and in `PEAL_FAULT_OUTAGE` the least time in seconds
//! without any NATS server: `cargo xtask soak` has more.
use peal_client::{Client, ConstructOptions, Handler, HandlerOutcome};
use peal_core::server::EVENTS_MISSED;
use peal_model::{Info, Infos, KeyName, Proc, Range, Status, Value, code, key};
use peal_needs::needs;
use peal_tests::{
    cable::{Cable, CableState},
    daemon::{Daemon, Place},
    nats_site::NatsSite,
    rng::SplitMix64,
    until,
};
use rustix::process::Signal;
use serde_json::{Value as Json, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const NEWS: Status = Status(-3001);
const NUMBER: KeyName = KeyName("test.number");

/// Time limit of a group.
const GROUP_LIMIT: Duration = Duration::from_secs(20);

/// Number of a server in the cluster. It is never used again, so that one that is the same later was so all the time.
type Membership = u64;

/// Events and counts that a proc was told.
#[derive(Default)]
struct Told {
    /// Numbers of events, in their order.
    events: Vec<usize>,
    /// Number of events that it missed.
    missed: u64,
}

/// A proc in this process, with a handler for events.
struct Listener {
    client: Client,
    told: Arc<Mutex<Told>>,
}

/// Node with a server and two procs of a job of its own.
struct Node {
    place: Place,
    daemon: Daemon,
    /// Number of servers that the node has had.
    starts: u32,
    membership: Membership,
    listeners: Vec<Listener>,
}

/// An event, as it was raised.
struct Raised {
    node: usize,
    membership: Membership,
    /// The procs that had to get it, with their nodes and the memberships of these.
    recipients: BTreeMap<Proc, (usize, Membership)>,
}

struct World {
    runtime: Runtime,
    site: NatsSite,
    /// Links of each node to the NATS servers.
    cables: Vec<Vec<Cable>>,
    nodes: Vec<Node>,
    raised: Vec<Raised>,
    groups: u32,
    random: SplitMix64,
    seed: u64,
    /// Least time without any NATS server.
    outage: Duration,
}

fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |number| number.parse().unwrap())
}

impl Listener {
    async fn connect(daemon: &Daemon, job: &str, rank: u32) -> Listener {
        let client = daemon.client(job, rank).await;
        let told: Arc<Mutex<Told>> = Arc::default();
        let heard = told.clone();
        let handler = Handler::native(move |call| {
            let mut told = heard.lock().unwrap();
            let infos = &call.event().infos;
            if let Some(Value::Uint64(number)) = infos.value_of(NUMBER) {
                told.events.push(usize::try_from(*number).unwrap());
            }
            if let Some(Value::Uint64(number)) = infos.value_of(EVENTS_MISSED) {
                told.missed += number;
            }
            HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
        });
        client.register(&[NEWS], &[], handler).await.unwrap();
        Listener { client, told }
    }

    fn has_heard(&self, number: usize) -> bool {
        self.told.lock().unwrap().events.contains(&number)
    }
}

impl Node {
    fn start(runtime: &Runtime, name: &str, place: Place, starts: u32) -> Node {
        let daemon = place.start();
        let job = format!("{name}-{starts}");
        daemon.tell(&["job", "register", &job, "-n", "2"]);
        let listeners = (0..2).map(|rank| runtime.block_on(Listener::connect(&daemon, &job, rank)));
        Node {
            listeners: listeners.collect(),
            place,
            daemon,
            starts,
            membership: 0,
        }
    }

    fn state(&self) -> Json {
        serde_json::from_str(&self.daemon.ask(&["status", "-o", "json"]).stdout).unwrap()
    }
}

impl World {
    fn new(seed: u64, nats_servers: usize) -> World {
        let site = NatsSite::of_servers(nats_servers, &NODES);
        let runtime = Runtime::new().unwrap();
        let mut cables = Vec::new();
        let mut nodes = Vec::new();
        for name in NODES {
            let own: Vec<Cable> = site
                .ports()
                .map(|port| Cable::to(runtime.handle(), port))
                .collect();
            let place = site.place_at(name, own.iter().map(Cable::port));
            nodes.push(Node::start(&runtime, name, place, 0));
            cables.push(own);
        }
        let mut world = World {
            nodes,
            runtime,
            site,
            cables,
            raised: Vec::new(),
            groups: 0,
            random: SplitMix64(seed),
            seed,
            outage: Duration::from_secs(variable("PEAL_FAULT_OUTAGE", 0)),
        };
        world.settle();
        world
    }

    /// Has the first proc of a node raise an event for all, and returns its number.
    fn raise(&mut self, node: usize, recipients: BTreeMap<Proc, (usize, Membership)>) -> usize {
        let number = self.raised.len();
        let Node {
            listeners,
            membership,
            ..
        } = &self.nodes[node];
        let client = &listeners[0].client;
        let source = Info::new(
            key::PMIX_EVENT_AFFECTED_PROC,
            Value::Proc(client.me().clone()),
        );
        let count = Info::new(NUMBER, Value::Uint64(number.try_into().unwrap()));
        self.raised.push(Raised {
            node,
            membership: *membership,
            recipients,
        });
        let notify = client.notify(NEWS, Range::Global, vec![source, count]);
        self.runtime.block_on(notify).unwrap();
        number
    }

    /// Raises an event that all other procs have to get.
    fn raise_for_all(&mut self, node: usize) {
        let others = self.nodes.iter().enumerate().flat_map(|(at, other)| {
            let place = (at, other.membership);
            other
                .listeners
                .iter()
                .map(move |listener| (listener.client.me().clone(), place))
        });
        let source = self.nodes[node].listeners[0].client.me().clone();
        let recipients = others.filter(|(proc, _)| *proc != source).collect();
        self.raise(node, recipients);
    }

    /// Waits until all servers are members and get events of each other.
    fn settle(&mut self) {
        for node in &mut self.nodes {
            until("the server is a member", || {
                let state = node.state();
                let id = state["cluster"]["id"].as_u64();
                node.membership = id.unwrap_or_default();
                id.is_some() && state["cluster"]["servers"] == 3 && state["troubles"] == json!([])
            });
        }
        // A server that others do not know yet gets none of their events, so that one is not enough.
        until("all have met", || {
            let hellos: Vec<usize> = (0..NODES.len())
                .map(|node| self.raise(node, BTreeMap::new()))
                .collect();
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(2) {
                let has_met = |(at, node): (usize, &Node)| {
                    let others = hellos.iter().enumerate().filter(|(from, _)| *from != at);
                    node.listeners.iter().all(|listener| {
                        others
                            .clone()
                            .all(|(_, number)| listener.has_heard(*number))
                    })
                };
                if self.nodes.iter().enumerate().all(has_met) {
                    return true;
                }
                std::thread::yield_now();
            }
            false
        });
    }

    /// Raises some events at these nodes.
    fn raise_some(&mut self, nodes: &[usize]) {
        for _ in 0..1 + self.random.below(20) {
            let node = nodes[self.random.below(nodes.len())];
            self.raise_for_all(node);
        }
    }

    /// Has a proc of each of these nodes form a group, and checks that it ends the same for all of them. `fault`
    /// happens meanwhile.
    fn form_group(&mut self, nodes: &[usize], living: &[usize], fault: impl FnOnce(&mut World)) {
        let name = format!("group{}", self.groups);
        self.groups += 1;
        let clients: Vec<(usize, Client)> = nodes
            .iter()
            .map(|node| (*node, self.nodes[*node].listeners[1].client.clone()))
            .collect();
        let members: Vec<Proc> = clients
            .iter()
            .map(|(_, client)| client.me().clone())
            .collect();
        let calls: Vec<_> = clients
            .into_iter()
            .map(|(node, client)| {
                let options = ConstructOptions::of(&members).timeout(GROUP_LIMIT);
                let name = name.clone();
                let call = async move { client.group_construct(&name, options).await };
                (node, self.runtime.spawn(call))
            })
            .collect();
        fault(self);
        let mut ends = BTreeMap::new();
        for (node, call) in calls {
            if !living.contains(&node) {
                call.abort();
                continue;
            }
            let limit = GROUP_LIMIT + Duration::from_secs(30);
            let end = self
                .runtime
                .block_on(async { tokio::time::timeout(limit, call).await });
            let end = end.unwrap_or_else(|_| panic!("seed {}: {name} has not ended", self.seed));
            let end = end
                .unwrap()
                .map(|group| group.members)
                .map_err(|error| error.status());
            ends.insert(node, end);
        }
        let different: BTreeSet<String> = ends
            .values()
            .map(|end| format!("{:?}", end.as_ref().ok()))
            .collect();
        assert_eq!(
            different.len(),
            1,
            "seed {}: {name} ended as {ends:?}",
            self.seed
        );
    }

    fn any(&mut self) -> usize {
        self.random.below(self.nodes.len())
    }

    fn others(&self, node: usize) -> Vec<usize> {
        (0..self.nodes.len())
            .filter(|other| *other != node)
            .collect()
    }

    /// Stops a server, and continues it after a while. It stays a member.
    fn stop_server(&mut self) {
        let node = self.any();
        let others = self.others(node);
        self.nodes[node].daemon.signal(Signal::STOP);
        self.raise_some(&others);
        let all = [0, 1, 2];
        // The call of its proc waits in its socket.
        self.form_group(&all, &all, |world| {
            world.raise_some(&others);
            world.nodes[node].daemon.signal(Signal::CONT);
        });
    }

    /// Kills a server while others form a group with a proc of it, and starts another one in its place.
    fn kill_server(&mut self) {
        let node = self.any();
        let others = self.others(node);
        self.raise_some(&others);
        self.form_group(&[0, 1, 2], &others, |world| {
            world.nodes[node].daemon.signal(Signal::KILL);
            world.raise_some(&others);
            let killed = world.nodes.remove(node);
            drop(killed.daemon);
            let starts = killed.starts + 1;
            let started = Node::start(&world.runtime, NODES[node], killed.place, starts);
            world.nodes.insert(node, started);
        });
        self.settle();
    }

    fn set_cables(&self, node: usize, state: CableState) {
        self.cables[node].iter().for_each(|cable| cable.set(state));
    }

    /// Cuts the link of a node, and mends it before the node is declared gone.
    fn cut_link(&mut self, state: CableState) {
        let node = self.any();
        self.set_cables(node, state);
        let all = [0, 1, 2];
        self.raise_some(&all);
        self.form_group(&all, &all, |world| {
            if state == CableState::Closed {
                until("the server misses NATS", || {
                    world.nodes[node].state()["troubles"][0]["kind"] == "cluster"
                });
            }
            world.raise_some(&all);
            world.set_cables(node, CableState::Whole);
        });
    }

    /// Cuts the link of a node until the others have declared it gone. It joins again.
    fn lose_link(&mut self, state: CableState) {
        let node = self.any();
        let others = self.others(node);
        let before = self.nodes[node].membership;
        self.set_cables(node, state);
        self.raise_some(&[0, 1, 2]);
        self.form_group(&[0, 1, 2], &others, |world| {
            for other in &others {
                until("the node is declared gone", || {
                    world.nodes[*other].state()["cluster"]["servers"] == 2
                });
            }
            world.raise_some(&[0, 1, 2]);
            world.set_cables(node, CableState::Whole);
        });
        until("the server has joined again", || {
            self.nodes[node].state()["cluster"]["id"].as_u64() > Some(before)
        });
        self.settle();
    }

    /// Kills all NATS servers, and starts them again when all servers have seen it.
    fn kill_nats(&mut self) {
        self.site.kill();
        self.raise_some(&[0, 1, 2]);
        let all = [0, 1, 2];
        let began = Instant::now();
        self.form_group(&all, &all, |world| {
            for node in &world.nodes {
                until("the server misses NATS", || {
                    node.state()["troubles"][0]["kind"] == "cluster"
                });
            }
            world.raise_some(&all);
            until("the outage is long enough", || {
                began.elapsed() >= world.outage
            });
            world.site.start_again();
        });
        self.settle();
    }

    /// Kills one of several NATS servers, in time each leader.
    fn kill_one_nats_server(&mut self, number: usize) {
        let server = self.random.below(number);
        self.site.kill_one(server);
        self.raise_some(&[0, 1, 2]);
        let all = [0, 1, 2];
        self.form_group(&all, &all, |world| world.raise_some(&all));
        self.site.start_again();
        self.settle();
    }

    /// Wipes what NATS has stored. All servers join again.
    fn wipe_nats(&mut self) {
        let last = self.nodes.iter().map(|node| node.membership).max().unwrap();
        self.site.kill();
        self.site.wipe();
        self.site.start_again();
        // The stream begins at the time at which it is made.
        until("numbers are greater", || {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            now.as_secs() > last
        });
        self.site.set_up();
        for node in &self.nodes {
            until("the server has joined again", || {
                node.state()["cluster"]["id"].as_u64() > Some(last)
            });
        }
        self.settle();
    }

    /// Checks that each event came once and in order to each proc, or was counted as missed, unless a server was
    /// declared gone or replaced since.
    fn check(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            for listener in &node.listeners {
                let me = listener.client.me();
                let told = listener.told.lock().unwrap();
                for (origin, name) in NODES.iter().enumerate() {
                    let of: Vec<usize> = told
                        .events
                        .iter()
                        .copied()
                        .filter(|number| self.raised[*number].node == origin)
                        .collect();
                    assert!(
                        of.is_sorted_by(|one, next| one < next),
                        "seed {}: {me} heard {of:?} of {}",
                        self.seed,
                        name
                    );
                }
                let heard: BTreeSet<usize> = told.events.iter().copied().collect();
                let owed = |raised: &Raised| {
                    let is_there = self.nodes[raised.node].membership == raised.membership;
                    is_there && raised.recipients.get(me) == Some(&(at, node.membership))
                };
                let missing: Vec<usize> = (0..self.raised.len())
                    .filter(|number| owed(&self.raised[*number]) && !heard.contains(number))
                    .collect();
                assert!(
                    u64::try_from(missing.len()).unwrap() <= told.missed,
                    "seed {}: {me} was told of {} missed events, and misses {missing:?} of {}",
                    self.seed,
                    told.missed,
                    self.raised.len()
                );
            }
        }
    }

    fn rounds(&mut self, rounds: u64, nats_servers: usize) {
        for round in 0..rounds {
            match self.random.below(12) {
                0..3 => self.stop_server(),
                3..5 => self.kill_server(),
                5 => self.kill_nats(),
                6 if nats_servers > 1 => self.kill_one_nats_server(nats_servers),
                6 => self.kill_nats(),
                7 => self.wipe_nats(),
                8 => self.cut_link(CableState::Silent),
                9 => self.cut_link(CableState::Closed),
                10 => self.lose_link(CableState::Silent),
                _ => self.lose_link(CableState::Closed),
            }
            println!("round {round}: {} events", self.raised.len());
            self.settle();
            self.check();
        }
    }
}

#[needs(prepared, nats)]
#[test]
fn faults_lose_and_repeat_nothing() {
    let rounds = variable("PEAL_FAULT_ROUNDS", 4);
    let seed = variable("PEAL_FAULT_SEED", 1);
    let servers = usize::try_from(variable("PEAL_FAULT_NATS_SERVERS", 1)).unwrap();
    let mut world = World::new(seed, servers);
    world.rounds(rounds, servers);
}
