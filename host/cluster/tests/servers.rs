//! Servers of a cluster that are killed, stopped, cut off, started again and handed over, on a network that is away for
//! a while, and loses, repeats and reorders frames, beside what each server was told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]
mod numbers;

use numbers::Numbers;
use peal_cluster::{
    ClusterOutput, ClusterServer, ClusterServerSettings, ClusterWarning, HandedMembership,
    HeardServers, JoiningServer, LinkSettings, LivenessSettings, MembershipRecord, ProtocolVersion,
    RecordPosition, ServerKind, ServerNotice, StreamLimits, encode_record,
};
use peal_core::{
    MonotonicTime,
    group::{GroupMessage, ServerId},
    server::InterServerMessage,
    user_scope::UserScope,
};
use peal_model::{Event, Info, NodeName, Nspace, Proc, Range, Rank, Status, Value, key};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

const NODES: usize = 5;

/// Number of observers: fewer than nodes, so that some hear few.
const OBSERVERS: usize = 2;

/// Time between two looks at the network in milliseconds.
const TURN: u64 = 100;

/// Time in which everybody knows of everything, in milliseconds.
const SETTLED: u64 = 90_000;

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(usize),
    Kill(usize),
    Stop(usize),
    /// Another process goes on with the server, while something of it is on its way.
    HandOver(usize),
    Cut(usize),
    Mend(usize),
    TakeNetworkAway,
    BringNetworkBack,
    /// The network loses the sequence, and all that is on its way.
    LoseSequence,
    Send(usize, usize),
    Distribute(usize),
    /// Something that is no record is stored under the name of a member, instead of its records: true for
    /// its verdicts.
    Junk(usize, bool),
    /// A server has no room for messages of others, or has room again.
    Fill(usize),
    Empty(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..NODES;
    prop_oneof![
        4 => node().prop_map(Step::Start),
        1 => node().prop_map(Step::Kill),
        1 => node().prop_map(Step::Stop),
        2 => node().prop_map(Step::HandOver),
        1 => node().prop_map(Step::Cut),
        2 => node().prop_map(Step::Mend),
        1 => Just(Step::TakeNetworkAway),
        2 => Just(Step::BringNetworkBack),
        1 => Just(Step::LoseSequence),
        6 => (node(), node()).prop_map(|(from, to)| Step::Send(from, to)),
        4 => node().prop_map(Step::Distribute),
        1 => (node(), any::<bool>()).prop_map(|(of, verdicts)| Step::Junk(of, verdicts)),
        1 => node().prop_map(Step::Fill),
        2 => node().prop_map(Step::Empty),
        6 => (TURN..20_000_u64).prop_map(Step::Pass),
    ]
}

/// Pair of a sender and a receiver.
type Way = (ServerId, ServerId);

/// Process of a node, with all that it was told.
struct Process {
    server: ClusterServer,
    is_connected: bool,
    connected_at: u64,
    /// Number of the sequence that was read last.
    sequence: Option<u64>,
    hears: HeardServers,
    id: Option<ServerId>,
    others: BTreeSet<ServerId>,
    is_full: bool,
    /// Servers of which a message was refused.
    refused: BTreeSet<ServerId>,
}

#[derive(Default)]
struct Node {
    process: Option<Process>,
    is_cut: bool,
}

/// Frame, beat or record on its way.
enum Carried {
    Frame(Vec<u8>),
    Beat,
    Record(RecordPosition, Vec<u8>),
    /// A record on its way to the sequence, with the time since which its writer is connected.
    Write(MembershipRecord, u64),
}

struct World {
    now: u64,
    runs: u64,
    nodes: Vec<Node>,
    is_away: bool,
    random: Numbers,
    faults: u64,
    /// The last record of each subject: a node, and true for its verdicts.
    log: BTreeMap<(usize, bool), (RecordPosition, Vec<u8>)>,
    last: u64,
    /// Number of the sequence: the network may lose one.
    sequence: u64,
    /// By time of arrival: sender, receiver.
    carried: BTreeMap<(u64, u64), (usize, usize, Carried)>,
    count: u64,
    numbers: u64,
    sent: BTreeMap<Way, Vec<u64>>,
    delivered: BTreeMap<Way, Vec<u64>>,
    /// All numbers of servers, with their nodes.
    ids: BTreeMap<ServerId, usize>,
    /// The node of each join in the sequence, by the number that the server gets.
    joins: BTreeMap<ServerId, usize>,
    /// Time at which something of a node came to another one, by both.
    heard_at: BTreeMap<(usize, usize), u64>,
}

fn node(number: usize) -> NodeName {
    format!("node-{number}").parse().unwrap()
}

fn joining(version: ProtocolVersion, run: u64) -> JoiningServer {
    JoiningServer {
        major: version.major,
        minor: version.minor,
        software: "test".to_owned(),
        kind: ServerKind::Node,
        run,
    }
}

fn number_of(node: &NodeName) -> usize {
    node.as_str()["node-".len()..].parse().unwrap()
}

fn message(number: u64) -> InterServerMessage {
    let nspace = Nspace::new(&number.to_string()).unwrap();
    InterServerMessage::Group(GroupMessage::JobGone(nspace))
}

fn event(number: u64) -> Arc<Event> {
    let proc = Proc::new(Nspace::new(&number.to_string()).unwrap(), Rank(0));
    Arc::new(Event {
        code: Status(-1),
        source: None,
        range: Range::Global,
        infos: vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc))],
    })
}

fn number_in(message: &InterServerMessage) -> u64 {
    let nspace = match message {
        InterServerMessage::Group(GroupMessage::JobGone(nspace)) => nspace.clone(),
        InterServerMessage::Event(event, _) => match &event.infos[0].value {
            Value::Proc(proc) => proc.nspace.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    nspace.as_str().parse().unwrap()
}

fn settings() -> ClusterServerSettings {
    ClusterServerSettings {
        liveness: LivenessSettings {
            observers: OBSERVERS,
            ..LivenessSettings::default()
        },
        // Small, so that messages wait for acknowledgements.
        links: LinkSettings {
            window: StreamLimits {
                max_messages: 3,
                max_bytes: 1 << 20,
            },
            ..LinkSettings::default()
        },
        ..ClusterServerSettings::default()
    }
}

impl World {
    /// Creates a world without faults in which the servers of this number of nodes have joined one after the other.
    fn of_members(nodes: usize) -> World {
        let mut world = World::new(1, 0);
        for number in 0..nodes {
            world.run(Step::Start(number));
            world.run(Step::Pass(1000));
        }
        world
    }

    fn new(seed: u64, faults: u64) -> World {
        World {
            now: 0,
            runs: 0,
            nodes: (0..NODES).map(|_| Node::default()).collect(),
            is_away: false,
            random: Numbers(seed),
            faults,
            log: BTreeMap::new(),
            last: 0,
            sequence: 0,
            carried: BTreeMap::new(),
            count: 0,
            numbers: 0,
            sent: BTreeMap::new(),
            delivered: BTreeMap::new(),
            ids: BTreeMap::new(),
            joins: BTreeMap::new(),
            heard_at: BTreeMap::new(),
        }
    }

    fn time(&self) -> MonotonicTime {
        MonotonicTime(self.now)
    }

    fn reaches_network(&self, number: usize) -> bool {
        !self.is_away && !self.nodes[number].is_cut
    }

    fn start(&mut self, number: usize) {
        if self.nodes[number].process.is_some() {
            return;
        }
        self.runs += 1;
        let joining = joining(ProtocolVersion::CURRENT, self.runs);
        self.nodes[number].process = Some(Process {
            server: ClusterServer::new(node(number), joining, settings()),
            is_connected: false,
            connected_at: 0,
            sequence: None,
            hears: HeardServers::Only(BTreeSet::new()),
            id: None,
            others: BTreeSet::new(),
            is_full: false,
            refused: BTreeSet::new(),
        });
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Start(number) => self.start(number),
            Step::Kill(number) => self.nodes[number].process = None,
            Step::Stop(number) => {
                if let Some(process) = &mut self.nodes[number].process {
                    process.server.leave();
                    self.collect();
                    self.nodes[number].process = None;
                }
            }
            Step::HandOver(number) => self.hand_over(number),
            Step::Cut(number) => self.nodes[number].is_cut = true,
            Step::Mend(number) => self.nodes[number].is_cut = false,
            Step::TakeNetworkAway => self.is_away = true,
            Step::BringNetworkBack => self.is_away = false,
            Step::LoseSequence => self.lose_sequence(),
            Step::Junk(of, is_verdict) => self.store_junk(of, is_verdict),
            Step::Send(from, to) => self.send(from, to),
            Step::Distribute(from) => self.distribute(from),
            Step::Fill(number) => {
                if let Some(process) = &mut self.nodes[number].process {
                    process.is_full = true;
                }
            }
            Step::Empty(number) => self.empty(number),
            Step::Pass(millis) => self.pass(millis),
        }
        self.collect();
    }

    fn hand_over(&mut self, number: usize) {
        // The server has results that nobody has taken: of a message that it sends, and of one that comes.
        self.send(number, (number + 1) % NODES);
        let is_next = |(_, to, carried): &(usize, usize, Carried)| {
            *to == number && matches!(carried, Carried::Frame(_))
        };
        let next = self.carried.iter().find(|(_, carried)| is_next(carried));
        if let Some(at) = next.map(|(at, _)| *at) {
            let (from, to, carried) = self.carried.remove(&at).unwrap();
            self.arrive(from, to, carried);
        }
        let time = self.time();
        if let Some(process) = &mut self.nodes[number].process {
            let handed = HandedMembership::of(&process.server, time).unwrap();
            let continued = handed.read(&node(number)).unwrap();
            assert_eq!(continued.clock, time);
            process.server = continued.server(settings());
            process.is_connected = false;
            process.hears = HeardServers::Only(BTreeSet::new());
        }
    }

    fn lose_sequence(&mut self) {
        self.sequence += 1;
        // Later positions are greater than all before.
        self.last += 1000;
        self.log.clear();
        self.carried.clear();
        for process in self
            .nodes
            .iter_mut()
            .filter_map(|node| node.process.as_mut())
        {
            process.is_connected = false;
            process.server.disconnected();
        }
    }

    fn send(&mut self, from: usize, to: usize) {
        let now = self.time();
        let to = self.nodes[to]
            .process
            .as_ref()
            .and_then(|process| process.id);
        let Some(process) = &mut self.nodes[from].process else {
            return;
        };
        if let (Some(id), Some(to)) = (process.id, to)
            && process.others.contains(&to)
        {
            self.numbers += 1;
            process.server.send(to, message(self.numbers), now);
            self.sent.entry((id, to)).or_default().push(self.numbers);
        }
    }

    fn distribute(&mut self, from: usize) {
        let now = self.time();
        let Some(process) = &mut self.nodes[from].process else {
            return;
        };
        self.numbers += 1;
        process
            .server
            .distribute(&event(self.numbers), UserScope::Everybody, now);
        for to in &process.others {
            let way = (process.id.unwrap(), *to);
            self.sent.entry(way).or_default().push(self.numbers);
        }
    }

    fn empty(&mut self, number: usize) {
        let now = self.time();
        if let Some(process) = &mut self.nodes[number].process {
            process.is_full = false;
            for of in std::mem::take(&mut process.refused) {
                process.server.room(of, now);
            }
        }
    }

    /// Carries out what the servers want.
    fn collect(&mut self) {
        for number in 0..NODES {
            while let Some(output) = self.nodes[number]
                .process
                .as_mut()
                .and_then(|process| process.server.next_output())
            {
                self.carry_out(number, output);
            }
        }
    }

    fn carry_out(&mut self, number: usize, output: ClusterOutput) {
        match output {
            ClusterOutput::Transmit { to, frame } => {
                let copies = match self.random.below(100) {
                    fate if fate < self.faults => 0,
                    fate if fate < 2 * self.faults => 2,
                    _ => 1,
                };
                for _ in 0..copies {
                    self.carry(number, number_of(&to), Carried::Frame(frame.clone()));
                }
            }
            ClusterOutput::Write(record) => {
                if let MembershipRecord::Gone(servers) = &record {
                    self.check_verdict(number, servers);
                }
                let process = self.nodes[number].process.as_ref().unwrap();
                let since = process.connected_at;
                self.carry(number, number, Carried::Write(record, since));
            }
            ClusterOutput::Beat => {
                (0..NODES)
                    .filter(|to| *to != number)
                    .for_each(|to| self.carry(number, to, Carried::Beat));
            }
            ClusterOutput::Hear(servers) => {
                self.nodes[number].process.as_mut().unwrap().hears = servers;
            }
            ClusterOutput::Tell(notice) => self.tell(number, notice),
            // Of a server that has left, or not joined here yet.
            ClusterOutput::Warn(
                ClusterWarning::Misdirected { .. }
                | ClusterWarning::DeclaredGone
                | ClusterWarning::Record { .. }
                | ClusterWarning::SequenceLost,
            ) => {}
            ClusterOutput::Warn(warning) => panic!("{warning}"),
        }
    }

    fn carry(&mut self, from: usize, to: usize, carried: Carried) {
        if self.reaches_network(from) {
            let delay = 1 + self.random.below(300);
            self.count += 1;
            let at = (self.now + delay, self.count);
            self.carried.insert(at, (from, to, carried));
        }
    }

    /// Stores junk for a member that is there to notice it.
    fn store_junk(&mut self, number: usize, is_verdict: bool) {
        let process = self.nodes[number].process.as_ref();
        let is_member =
            process.is_some_and(|process| process.is_connected && process.server.id().is_some());
        if is_member && self.reaches_network(number) {
            self.store(number, is_verdict, b"{\"type\":\"answer\"}".to_vec());
            self.pass(3000);
        }
    }

    fn write(&mut self, number: usize, record: &MembershipRecord) {
        let is_verdict = matches!(record, MembershipRecord::Gone(_));
        self.store(number, is_verdict, encode_record(record).unwrap());
        if let MembershipRecord::Joined(_) = record {
            // The server may be killed before it is told its number.
            self.joins
                .insert(ServerId(u32::try_from(self.last).unwrap()), number);
        }
    }

    fn store(&mut self, number: usize, is_verdict: bool, bytes: Vec<u8>) {
        self.last += 1;
        let at = RecordPosition(self.last);
        self.log.insert((number, is_verdict), (at, bytes.clone()));
        for to in 0..NODES {
            // In order for each receiver.
            self.count += 1;
            let record = Carried::Record(at, bytes.clone());
            self.carried
                .insert((self.now, self.count), (number, to, record));
        }
    }

    /// Fails if a server is declared gone of which something came within the last 15 seconds.
    fn check_verdict(&self, writer: usize, servers: &BTreeSet<ServerId>) {
        let Some(process) = &self.nodes[writer].process else {
            return;
        };
        for id in servers.intersection(&process.others) {
            let heard_at = self.heard_at.get(&(self.joins[id], writer));
            let silent = self.now - heard_at.copied().unwrap_or_default();
            assert!(silent >= 15_000, "{id:?} was heard of {silent} ms ago");
            assert!(self.now - process.connected_at >= 15_000);
        }
    }

    fn tell(&mut self, number: usize, notice: ServerNotice) {
        let process = self.nodes[number].process.as_mut().unwrap();
        match notice {
            ServerNotice::Enrolled(id) => {
                assert_eq!(process.others, BTreeSet::new(), "others have been left");
                assert!(process.id < Some(id));
                process.id = Some(id);
                assert_eq!(self.ids.insert(id, number), None, "number given twice");
            }
            ServerNotice::Joined { id, .. } => {
                // One whose join was displaced by junk comes later than those that follow it.
                assert!(process.others.insert(id), "told twice");
            }
            ServerNotice::Left(id) => assert!(process.others.remove(&id)),
            // There may be room for one that follows.
            ServerNotice::Message { from, message }
                if process.is_full && !number_in(&message).is_multiple_of(3) =>
            {
                process.refused.insert(from);
                process.server.refused(from, message);
            }
            ServerNotice::Message { from, message }
            | ServerNotice::LastMessage { from, message } => {
                assert!(process.others.contains(&from));
                let way = (from, process.id.unwrap());
                let number = number_in(&message);
                self.delivered.entry(way).or_default().push(number);
            }
        }
    }

    /// Connects those that reach the network, and reads the sequence for them.
    fn connect(&mut self) {
        for number in 0..NODES {
            let reaches = self.reaches_network(number);
            let (now, time) = (self.now, self.time());
            let Some(process) = &mut self.nodes[number].process else {
                continue;
            };
            if reaches == process.is_connected {
                continue;
            }
            process.is_connected = reaches;
            if !reaches {
                process.server.disconnected();
                continue;
            }
            process.connected_at = now;
            process.server.connected(time);
            let before = process.sequence.replace(self.sequence);
            if before.is_some_and(|before| before != self.sequence) {
                process.server.restarted();
            }
            let mut records: Vec<(RecordPosition, usize, &[u8])> = self
                .log
                .iter()
                .map(|((writer, _), (at, bytes))| (*at, *writer, bytes.as_slice()))
                .collect();
            records.sort_unstable();
            for (at, writer, bytes) in records {
                process.server.record(at, node(writer), bytes, time);
            }
            process.server.caught_up();
        }
        self.collect();
    }

    fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        while self.now < end {
            self.now += TURN;
            self.connect();
            while let Some(first) = self.carried.first_entry()
                && first.key().0 <= self.now
            {
                let (from, to, carried) = first.remove();
                self.arrive(from, to, carried);
                self.collect();
            }
            let now = self.time();
            for node in &mut self.nodes {
                if let Some(process) = &mut node.process
                    && process.server.due_at().is_some_and(|at| at <= now)
                {
                    process.server.elapse(now);
                }
            }
            self.collect();
        }
    }

    fn arrive(&mut self, from: usize, to: usize, carried: Carried) {
        let now = self.time();
        if let Carried::Write(record, since) = carried {
            let process = self.nodes[from].process.as_ref();
            // The record of a server that leaves outlives its process.
            let is_connected =
                process.is_none_or(|process| process.is_connected && process.connected_at == since);
            if is_connected && self.reaches_network(from) {
                self.write(from, &record);
            }
            return;
        }
        let Some(process) = &mut self.nodes[to].process else {
            return;
        };
        if !process.is_connected {
            return;
        }
        match carried {
            Carried::Frame(bytes) => {
                process.server.frame(node(from), &bytes, now);
                self.heard_at.insert((from, to), self.now);
            }
            Carried::Record(at, bytes) => process.server.record(at, node(from), &bytes, now),
            Carried::Write(..) => {}
            Carried::Beat => {
                let sender = process.server.membership().server_of(&node(from));
                let is_heard = match &process.hears {
                    HeardServers::All => true,
                    HeardServers::Only(servers) => sender.is_some_and(|id| servers.contains(&id)),
                };
                if is_heard {
                    process.server.beat(&node(from), now);
                    self.heard_at.insert((from, to), self.now);
                }
            }
        }
    }

    /// Lets everything that lives find each other, and checks what each was told.
    fn settle(&mut self) {
        self.is_away = false;
        self.faults = 0;
        for number in 0..NODES {
            self.nodes[number].is_cut = false;
            self.empty(number);
        }
        self.pass(SETTLED);
        let alive: BTreeSet<ServerId> = self
            .processes()
            .map(|process| process.id.unwrap())
            .collect();
        for process in self.processes() {
            let mut others = alive.clone();
            others.remove(&process.id.unwrap());
            assert_eq!(process.others, others);
        }
        let none = Vec::new();
        for (way, sent) in &self.sent {
            let delivered = self.delivered.get(way).unwrap_or(&none);
            if alive.contains(&way.0) && alive.contains(&way.1) {
                assert_eq!(delivered, sent, "{way:?}");
            } else {
                // One of both has left: the receiver has the first ones, in order.
                assert!(
                    sent.starts_with(delivered),
                    "{way:?}: {sent:?} {delivered:?}"
                );
            }
        }
        assert!(self.delivered.keys().all(|way| self.sent.contains_key(way)));
    }

    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.nodes.iter().filter_map(|node| node.process.as_ref())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(150)
    ))]

    /// In the end all servers know exactly those that live, each got its messages once and in order, and
    /// nobody was declared gone who could be heard of.
    #[test]
    fn servers_find_each_other_and_lose_nothing(
        seed: u64,
        faults in 0..40_u64,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::new(seed, faults);
        steps.into_iter().for_each(|step| world.run(step));
        world.settle();
    }
}

#[test]
fn all_observers_at_once_are_declared_gone_by_another() {
    let mut world = World::of_members(NODES);
    (0..OBSERVERS).for_each(|number| world.run(Step::Kill(number)));
    world.run(Step::Pass(20_000));
    for process in world.processes() {
        assert_eq!(process.others.len(), NODES - OBSERVERS - 1);
    }
    world.settle();
}

#[test]
fn messages_without_room_are_told_before_their_sender_has_left() {
    let mut world = World::of_members(2);
    world.run(Step::Fill(0));
    for _ in 0..6 {
        world.run(Step::Send(1, 0));
    }
    world.run(Step::Pass(2000));
    let sender = world.nodes[1].process.as_ref().unwrap().id.unwrap();
    let way = (sender, world.nodes[0].process.as_ref().unwrap().id.unwrap());
    assert_eq!(world.delivered.get(&way), None);
    world.run(Step::Stop(1));
    world.run(Step::Pass(2000));
    assert_eq!(world.nodes[0].process.as_ref().unwrap().others.len(), 0);
    // What had come and was acknowledged; the rest is lost with its sender.
    assert_eq!(world.delivered[&way].first(), Some(&1));
}

#[test]
fn junk_makes_a_member_repeat_its_join_once_a_beat() {
    let mut world = World::of_members(2);
    let id = world.nodes[0].process.as_ref().unwrap().id;
    let last = world.last;
    for _ in 0..200 {
        world.store(0, false, b"{}".to_vec());
    }
    world.run(Step::Pass(10_000));
    // The junk, and one repetition: it is no junk itself.
    assert_eq!(world.last, last + 201);
    // One that starts now reads the repeated join alone, and is told of the same server.
    world.run(Step::Start(2));
    world.run(Step::Pass(3000));
    let others = |number: usize| world.nodes[number].process.as_ref().unwrap().others.clone();
    assert!(others(2).contains(&id.unwrap()));
    assert!(others(1).contains(&id.unwrap()));
    assert_eq!(world.nodes[0].process.as_ref().unwrap().id, id);
    world.settle();
}

/// Node 3 learns of the verdict about the first server of node 2, and of its second one only by the repeated join.
#[test]
fn join_after_a_verdict_is_learned_from_its_repetition() {
    let mut world = World::new(0, 0);
    for step in [
        Step::Start(3),
        Step::Start(0),
        Step::Start(2),
        Step::Pass(101),
        Step::Cut(2),
        Step::Cut(3),
        Step::Pass(15_501),
        Step::Send(0, 3),
        Step::Mend(2),
        Step::Send(0, 0),
        Step::Pass(1001),
        Step::Junk(2, false),
    ] {
        world.run(step);
    }
    world.settle();
}

#[test]
fn second_process_with_the_key_of_a_node_takes_its_place() {
    let mut world = World::of_members(1);
    let joining = MembershipRecord::Joined(joining(ProtocolVersion::CURRENT, 99));
    let process = world.nodes[0].process.as_mut().unwrap();
    let (at, now) = (RecordPosition(50), MonotonicTime(world.now));
    process
        .server
        .record(at, node(0), &encode_record(&joining).unwrap(), now);
    let outputs: Vec<ClusterOutput> = std::iter::from_fn(|| process.server.next_output()).collect();
    let text = format!("{outputs:?}");
    assert!(text.contains("Superseded"), "{text}");
    assert!(!text.contains("Write"), "{text}");
    // It does not join again when the network comes back.
    process.server.disconnected();
    process.server.connected(now + Duration::from_secs(1));
    process.server.caught_up();
    assert!(process.server.next_output().is_none());
}

#[test]
fn frames_of_others_and_of_other_versions_are_refused_by_name() {
    let mut world = World::of_members(3);
    let [one, two] =
        [0, 1].map(|number: usize| world.nodes[number].process.as_ref().unwrap().id.unwrap());
    let now = world.time();
    let process = world.nodes[0].process.as_mut().unwrap();
    let forged = peal_cluster::ServerFrame {
        from: two,
        to: one,
        contents: peal_cluster::FrameContents::Last {
            seq: peal_cluster::MessageSeq(9),
        },
    };
    let forged = forged.encode(peal_frames::FrameLimit::default()).unwrap();
    let mut warning = |node: NodeName, bytes: &[u8]| -> String {
        process.server.frame(node, bytes, now);
        match process.server.next_output() {
            Some(ClusterOutput::Warn(warning)) => warning.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let text = warning(node(2), &forged);
    assert!(
        text.contains("node node-2 sent a frame of server 2"),
        "{text}"
    );
    assert!(warning(node(1), b"GET /").contains("no frame"));
    assert!(warning(node(1), b"PL\x09\x00").contains("version 9.0"));
    assert!(warning(node(1), &[b'x'; 1 << 20]).contains("no frame"));
}

#[test]
fn server_of_another_major_version_is_left_out_by_name() {
    let mut world = World::of_members(1);
    let later = ProtocolVersion {
        major: ProtocolVersion::CURRENT.major + 1,
        minor: 0,
    };
    let joining = MembershipRecord::Joined(joining(later, 99));
    let process = world.nodes[0].process.as_mut().unwrap();
    let (at, now) = (RecordPosition(50), MonotonicTime(world.now));
    process
        .server
        .record(at, node(3), &encode_record(&joining).unwrap(), now);
    let outputs: Vec<ClusterOutput> = std::iter::from_fn(|| process.server.next_output()).collect();
    match outputs.as_slice() {
        [ClusterOutput::Warn(warning @ ClusterWarning::Incompatible { .. })] => {
            let text = warning.to_string();
            assert!(text.contains("server 50 of node node-3"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

/// The beats of others may wait for a server that could not run.
#[test]
fn server_that_was_held_up_judges_after_further_silence() {
    let mut world = World::of_members(2);
    let later = MonotonicTime(world.now + 30_000);
    let server = &mut world.nodes[0].process.as_mut().unwrap().server;
    let mut outputs_at = |at: MonotonicTime| -> Vec<ClusterOutput> {
        server.elapse(at);
        std::iter::from_fn(|| server.next_output()).collect()
    };
    let judges = |outputs: &[ClusterOutput]| {
        let mut outputs = outputs.iter();
        outputs.any(|output| {
            matches!(output, ClusterOutput::Write(MembershipRecord::Gone(gone)) if !gone.is_empty())
        })
    };
    let outputs = outputs_at(later);
    assert!(!judges(&outputs), "{outputs:?}");
    let held_up = |output: &ClusterOutput| matches!(output, ClusterOutput::Warn(ClusterWarning::HeldUp(by)) if by.as_secs() >= 29);
    assert!(outputs.iter().any(held_up), "{outputs:?}");
    let judged = (1..=20).map(|second| judges(&outputs_at(later + Duration::from_secs(second))));
    let judged: Vec<bool> = judged.collect();
    assert_eq!(
        judged.iter().position(|judged| *judged),
        Some(14),
        "{judged:?}"
    );
}
