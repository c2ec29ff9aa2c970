//! The conformance suite of networks: what servers may expect of the network within one process and of
//! NATS alike.
use crate::support::{PATIENCE, RunningSite, node};
use peal_cluster::{
    ClusterServerSettings, InProcessNetwork, JoinedServer, LivenessSettings, RefusedSender,
    ServerKind, ServerNetwork, ServerTransport,
};
use peal_config::NatsAddress;
use peal_core::{
    group::{GroupMessage, ServerId},
    server::{InterServerMessage, LogMessage},
    user_scope::UserScope,
};
use peal_model::{Event, Info, Key, LogRequest, Nspace, Proc, Range, Rank, Status, Value, key};
use peal_nats::{ClusterStream, ClusterSubject, NatsNetwork};
use peal_needs::needs;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::timeout,
};

/// Call of a server by its network.
#[derive(Clone, PartialEq, Debug)]
enum Told {
    Enrolled(ServerId),
    Joined(ServerId, ServerKind),
    Left(ServerId),
    /// Number in a message.
    Message(ServerId, u64),
    /// Something of another server was refused, for this reason.
    Refused(RefusedSender, String),
}

/// Server that records what it is told.
struct Recorder {
    told: watch::Sender<Vec<Told>>,
    room: Mutex<RoomPolicy>,
}

/// Messages that a server takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoomPolicy {
    All,
    Nothing,
}

impl Recorder {
    fn new() -> Arc<Recorder> {
        Arc::new(Recorder {
            told: watch::Sender::default(),
            room: Mutex::new(RoomPolicy::All),
        })
    }

    fn tell(&self, told: Told) {
        self.told.send_modify(|all| all.push(told));
    }

    /// Waits until what the server was told fulfils a condition.
    async fn until(&self, is_enough: impl Fn(&[Told]) -> bool) -> Vec<Told> {
        let mut told = self.told.subscribe();
        let found = timeout(PATIENCE, told.wait_for(|all| is_enough(all))).await;
        match found {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("not told in time: {:?}", *self.told.borrow()),
        }
    }

    async fn id(&self) -> ServerId {
        let told = self
            .until(|all| all.iter().any(|told| matches!(told, Told::Enrolled(_))))
            .await;
        let mut ids = told.into_iter().filter_map(|told| match told {
            Told::Enrolled(id) => Some(id),
            _ => None,
        });
        ids.next_back().unwrap()
    }

    /// Waits for this number of messages of a server, and returns the numbers in them.
    async fn messages(&self, of: ServerId, count: usize) -> Vec<u64> {
        let numbers = |all: &[Told]| -> Vec<u64> {
            let numbers = all.iter().filter_map(|told| match told {
                Told::Message(from, number) if *from == of => Some(*number),
                _ => None,
            });
            numbers.collect()
        };
        numbers(&self.until(|all| numbers(all).len() >= count).await)
    }

    async fn meets(&self, id: ServerId) {
        self.until(|all| {
            all.iter()
                .any(|told| matches!(told, Told::Joined(other, _) if *other == id))
        })
        .await;
    }
}

impl JoinedServer for Recorder {
    fn enroll(&self, id: ServerId) {
        self.tell(Told::Enrolled(id));
    }

    fn server_joined(&self, id: ServerId, kind: ServerKind) {
        self.tell(Told::Joined(id, kind));
    }

    fn server_left(&self, id: ServerId) {
        self.tell(Told::Left(id));
    }

    fn server_message(
        &self,
        from: ServerId,
        message: InterServerMessage,
    ) -> Result<(), Box<InterServerMessage>> {
        if *self.room.lock().unwrap() == RoomPolicy::Nothing {
            return Err(Box::new(message));
        }
        self.last_message(from, message);
        Ok(())
    }

    fn last_message(&self, from: ServerId, message: InterServerMessage) {
        self.tell(Told::Message(from, number_in(&message)));
    }

    fn message_refused(&self, from: RefusedSender, reason: &str) {
        self.tell(Told::Refused(from, reason.to_owned()));
    }

    fn max_server_inbox_bytes(&self) -> usize {
        1 << 20
    }
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

/// Returns a message of this many bytes at least.
fn large(number: u64, bytes: usize) -> InterServerMessage {
    let data = Value::ByteObject(vec![7; bytes].into());
    InterServerMessage::Log(LogMessage::Write {
        number,
        channel: Key::new("test.channel").unwrap(),
        request: Arc::new(LogRequest {
            source: None,
            identity: None,
            timestamp: None,
            data: vec![Info::new(Key::new("test.data").unwrap(), data)],
            directives: Vec::new(),
        }),
        origin: peal_core::log::LogOrigin::Client,
    })
}

fn number_in(message: &InterServerMessage) -> u64 {
    let nspace = match message {
        InterServerMessage::Group(GroupMessage::JobGone(nspace)) => nspace.clone(),
        InterServerMessage::Event(event, _) => match &event.infos[0].value {
            Value::Proc(proc) => proc.nspace.clone(),
            other => panic!("{other:?}"),
        },
        InterServerMessage::Log(LogMessage::Write { number, .. }) => return *number,
        other => panic!("{other:?}"),
    };
    nspace.as_str().parse().unwrap()
}

/// Where the servers of a test meet.
enum Place {
    OneProcess(Arc<InProcessNetwork>),
    Nats(RunningSite),
}

/// Returns the number of a run: each join of a test is that of another process.
fn next_run() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    RUNS.fetch_add(1, Ordering::Relaxed)
}

/// Server with its connection.
struct Peer {
    server: Arc<Recorder>,
    transport: Arc<dyn ServerTransport>,
    id: ServerId,
}

const NODES: [&str; 3] = ["a", "b", "c"];

/// Times with which a silent server is gone soon.
fn quick() -> ClusterServerSettings {
    ClusterServerSettings {
        liveness: LivenessSettings {
            beat_each: Duration::from_millis(200),
            suspect_after: Duration::from_secs(1),
            gone_after: Duration::from_secs(3),
            ..LivenessSettings::default()
        },
        ..ClusterServerSettings::default()
    }
}

impl Place {
    fn one_process() -> Place {
        Place::OneProcess(InProcessNetwork::new())
    }

    async fn nats() -> Place {
        Place::Nats(RunningSite::of_nodes(&NODES).await)
    }

    fn network(&self, node: &str, settings: ClusterServerSettings) -> Arc<dyn ServerNetwork> {
        match self {
            Place::OneProcess(network) => network.clone(),
            Place::Nats(site) => Arc::new(NatsNetwork::new(
                site.access(node),
                settings,
                "test".to_owned(),
                next_run(),
            )),
        }
    }

    /// Joins a server, and waits until it is there.
    async fn join(&self, node: &str, kind: ServerKind) -> Peer {
        let server = Recorder::new();
        let network = self.network(node, ClusterServerSettings::default());
        let transport = network.join(server.clone(), kind);
        let id = server.id().await;
        Peer {
            server,
            transport,
            id,
        }
    }

    /// Joins three servers that know each other.
    async fn joined(&self) -> Vec<Peer> {
        let mut peers: Vec<Peer> = Vec::new();
        for node in NODES {
            let peer = self.join(node, ServerKind::Node).await;
            for other in &peers {
                other.server.meets(peer.id).await;
                peer.server.meets(other.id).await;
            }
            peers.push(peer);
        }
        peers
    }
}

/// Makes a test of each case for each network.
macro_rules! suite {
    ($($case:ident)+) => {
        mod one_process { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Place::one_process()).await;
            }
        )+ }

        mod nats { $(
            #[peal_needs::needs(nats)]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Place::nats().await).await;
            }
        )+ }
    };
}

suite! {
    servers_are_told_of_each_other_by_ascending_numbers
    messages_and_events_of_a_pair_arrive_in_order
    messages_without_room_wait_for_it_in_order
    server_that_leaves_is_reported_after_its_last_message
    large_messages_arrive
    server_that_joins_again_has_a_new_number
}

async fn servers_are_told_of_each_other_by_ascending_numbers(place: Place) {
    let one = place.join("a", ServerKind::Gateway).await;
    let two = place.join("b", ServerKind::Node).await;
    one.server.meets(two.id).await;
    let three = place.join("c", ServerKind::Node).await;
    for peer in [&one, &two] {
        peer.server.meets(three.id).await;
    }
    assert!(one.id < two.id && two.id < three.id);
    three.server.meets(two.id).await;
    let expected = vec![
        Told::Enrolled(three.id),
        Told::Joined(one.id, ServerKind::Gateway),
        Told::Joined(two.id, ServerKind::Node),
    ];
    assert_eq!(*three.server.told.borrow(), expected);
}

async fn messages_and_events_of_a_pair_arrive_in_order(place: Place) {
    let peers = place.joined().await;
    let count: u64 = 2000;
    for number in 0..count {
        for (index, peer) in peers.iter().enumerate() {
            if number % 3 == 0 {
                peer.transport
                    .distribute(event(number), UserScope::Everybody);
            } else {
                for other in peers.iter().enumerate().filter(|(at, _)| *at != index) {
                    peer.transport.send(other.1.id, message(number));
                }
            }
        }
    }
    let all: Vec<u64> = (0..count).collect();
    for peer in &peers {
        for other in peers.iter().filter(|other| other.id != peer.id) {
            assert_eq!(peer.server.messages(other.id, all.len()).await, all);
        }
    }
}

async fn messages_without_room_wait_for_it_in_order(place: Place) {
    let peers = place.joined().await;
    let [one, two, three] = peers.as_slice() else {
        panic!("three have joined");
    };
    *two.server.room.lock().unwrap() = RoomPolicy::Nothing;
    for number in 0..100 {
        one.transport.send(two.id, message(number));
        one.transport.send(three.id, message(number));
    }
    // One server without room delays no other.
    let all: Vec<u64> = (0..100).collect();
    assert_eq!(three.server.messages(one.id, 100).await, all);
    *two.server.room.lock().unwrap() = RoomPolicy::All;
    // The first may arrive only now, and then nothing waits.
    for number in 100..110 {
        one.transport.send(two.id, message(number));
        two.transport.room(one.id);
    }
    let all: Vec<u64> = (0..110).collect();
    let arrived = async {
        loop {
            two.transport.room(one.id);
            let count = two.server.told.borrow().len();
            if count >= 110 + 3 {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, arrived).await.expect("messages wait on");
    assert_eq!(two.server.messages(one.id, 110).await, all);
}

async fn server_that_leaves_is_reported_after_its_last_message(place: Place) {
    let mut peers = place.joined().await;
    let last = peers.pop().unwrap();
    // Those that were not acknowledged are lost with their sender.
    for peer in &peers {
        last.transport.send(peer.id, message(1));
        peer.server.messages(last.id, 1).await;
    }
    last.transport.leave().await;
    for peer in &peers {
        let told = peer
            .server
            .until(|all| all.contains(&Told::Left(last.id)))
            .await;
        assert_eq!(told.last(), Some(&Told::Left(last.id)));
        // Nothing comes of it.
        peer.transport.send(last.id, message(2));
    }
}

async fn large_messages_arrive(place: Place) {
    let peers = place.joined().await;
    let [one, two, _] = peers.as_slice() else {
        panic!("three have joined");
    };
    for (number, bytes) in [(1, 100), (2, 1 << 20), (3, 40 << 20), (4, 10)] {
        one.transport.send(two.id, large(number, bytes));
    }
    assert_eq!(two.server.messages(one.id, 4).await, [1, 2, 3, 4]);
}

async fn server_that_joins_again_has_a_new_number(place: Place) {
    let mut peers = place.joined().await;
    let last = peers.pop().unwrap();
    last.transport.leave().await;
    let again = place.join("c", ServerKind::Node).await;
    assert!(again.id > last.id);
    for peer in &peers {
        peer.server.meets(again.id).await;
        again.transport.send(peer.id, message(5));
        assert_eq!(peer.server.messages(again.id, 1).await, [5]);
        assert!(peer.server.told.borrow().contains(&Told::Left(last.id)));
    }
}

/// A server whose process has ended without a word is gone after its time, at all others.
#[needs(nats)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_server_is_declared_gone() {
    let place = Place::nats().await;
    let mut peers = Vec::new();
    for node in NODES {
        // Its task ends with its runtime, as with its process.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let server = Recorder::new();
        let transport = {
            let _entered = runtime.enter();
            place
                .network(node, quick())
                .join(server.clone(), ServerKind::Node)
        };
        let id = server.id().await;
        peers.push((runtime, server, transport, id));
    }
    let ids: Vec<ServerId> = peers.iter().map(|peer| peer.3).collect();
    for (_, server, _, own) in &peers {
        for id in ids.iter().filter(|id| *id != own) {
            server.meets(*id).await;
        }
    }
    let (runtime, _, _, gone) = peers.remove(0);
    runtime.shutdown_background();
    for (_, server, _, _) in &peers {
        server.until(|all| all.contains(&Told::Left(gone))).await;
    }
    for (runtime, ..) in peers {
        runtime.shutdown_background();
    }
}

/// Waits for messages that were sent both ways while the NATS servers were away.
async fn exchange(one: &Peer, two: &Peer, numbers: std::ops::Range<u64>) {
    for number in numbers.clone() {
        one.transport.send(two.id, message(number));
        two.transport
            .distribute(event(number), UserScope::Everybody);
    }
    let end = usize::try_from(numbers.end).unwrap();
    let all: Vec<u64> = (0..numbers.end).collect();
    assert_eq!(two.server.messages(one.id, end).await, all);
    assert_eq!(one.server.messages(two.id, end).await, all);
}

#[needs(nats)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_nats_is_away() {
    let place = Place::nats().await;
    let peers = place.joined().await;
    let Place::Nats(mut site) = place else {
        panic!("NATS was started");
    };
    let [one, two, _] = peers.as_slice() else {
        panic!("three have joined");
    };
    exchange(one, two, 0..20).await;
    site.signal("-STOP");
    for number in 20..40 {
        one.transport.send(two.id, message(number));
        two.transport
            .distribute(event(number), UserScope::Everybody);
    }
    site.signal("-CONT");
    exchange(one, two, 40..60).await;
    site.kill();
    for number in 60..80 {
        one.transport.send(two.id, message(number));
        two.transport
            .distribute(event(number), UserScope::Everybody);
    }
    site.start_again();
    exchange(one, two, 80..100).await;
    // Nobody was declared gone.
    for peer in &peers {
        let told = peer.server.told.borrow();
        assert!(!told.iter().any(|told| matches!(told, Told::Left(_))));
    }
}

#[needs(nats)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_join_again_after_nats_has_lost_everything() {
    let place = Place::nats().await;
    let peers = place.joined().await;
    let Place::Nats(mut site) = place else {
        panic!("NATS was started");
    };
    site.kill();
    site.wipe();
    site.start_again();
    let last = peers.iter().map(|peer| peer.id).max().unwrap();
    // Positions begin with the time, so that they are greater than those of some time ago.
    while SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() <= last.0.into() {
        tokio::task::yield_now().await;
    }
    let site = site.with_streams().await;
    let again = |told: &[Told]| {
        told.iter()
            .any(|told| matches!(told, Told::Enrolled(id) if *id > last))
    };
    let mut ids = Vec::new();
    for peer in &peers {
        let told = peer.server.until(again).await;
        ids.push(peer.server.id().await);
        // When a server got its new number, it had been told that all others have left.
        let mut others = BTreeSet::new();
        for told in told {
            match told {
                Told::Joined(id, _) => drop(others.insert(id)),
                Told::Left(id) => drop(others.remove(&id)),
                Told::Enrolled(_) => assert!(others.is_empty(), "{others:?}"),
                Told::Message(..) | Told::Refused(..) => {}
            }
        }
    }
    for peer in &peers {
        let own = peer.server.id().await;
        for id in ids.iter().filter(|id| **id != own) {
            peer.server.meets(*id).await;
        }
    }
    peers[0].transport.send(ids[1], message(7));
    assert_eq!(peers[1].server.messages(ids[0], 1).await, [7]);
    drop(site);
}

/// JetStream stores its answers wherever a node wants them, and keeps the last records of each node.
#[needs(nats)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_with_join_displaced_by_junk_stays_known() {
    let place = Place::nats().await;
    let one = place.join("a", ServerKind::Node).await;
    let two = place.join("b", ServerKind::Node).await;
    one.server.meets(two.id).await;
    let Place::Nats(site) = &place else {
        panic!("NATS was started");
    };
    let link = site.link("a").await;
    let [_, get] = link.subjects.reads(ClusterStream::Members);
    let node = node("b");
    let target = link.subjects.text(&ClusterSubject::Member { node });
    for _ in 0..100 {
        let request = (get.clone(), target.clone());
        let published = link
            .client
            .publish_with_reply(request.0, request.1, "{}".into());
        published.await.unwrap();
    }
    let join = format!("{{\"seq\":{}}}", two.id.0);
    let displaced = async {
        loop {
            let answer = link.client.request(get.clone(), join.clone().into());
            let answer = answer.await.unwrap();
            if String::from_utf8_lossy(&answer.payload).contains("\"error\"") {
                break;
            }
        }
    };
    timeout(PATIENCE, displaced)
        .await
        .expect("the join is kept");
    let three = place.join("c", ServerKind::Node).await;
    three.server.meets(two.id).await;
    two.server.meets(three.id).await;
    three.transport.send(two.id, message(5));
    assert_eq!(two.server.messages(three.id, 1).await, [5]);
    for peer in [&one, &two, &three] {
        let told = peer.server.told.borrow();
        assert!(!told.iter().any(|told| matches!(told, Told::Left(_))));
    }
}

/// Forwards connections to a NATS server, until it is cut.
struct Cable {
    port: u16,
    state: watch::Sender<CableState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CableState {
    Whole,
    Cut,
}

impl Cable {
    async fn to(server: u16) -> Cable {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = watch::Sender::new(CableState::Whole);
        let mut watched = state.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if *watched.borrow_and_update() == CableState::Cut {
                    continue;
                }
                let mut watched = watched.clone();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = watched.wait_for(|state| *state == CableState::Cut) => {}
                    }
                });
            }
        });
        Cable { port, state }
    }
}

#[needs(nats)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_off_server_is_gone_and_joins_again() {
    let Place::Nats(site) = Place::nats().await else {
        panic!("NATS was started");
    };
    let cable = Cable::to(site.site.servers[0].port()).await;
    let mut peers = Vec::new();
    for node in NODES {
        let mut access = site.access(node);
        if node == "a" {
            access.servers = vec![NatsAddress::loopback(cable.port)];
        }
        let server = Recorder::new();
        let network = NatsNetwork::new(access, quick(), "test".to_owned(), next_run());
        let transport = network.join(server.clone(), ServerKind::Node);
        let id = server.id().await;
        peers.push(Peer {
            server,
            transport,
            id,
        });
    }
    let [cut, one, two] = peers.as_slice() else {
        panic!("three have joined");
    };
    cut.server.meets(two.id).await;
    for peer in [one, two] {
        peer.server.meets(cut.id).await;
    }
    cable.state.send_replace(CableState::Cut);
    for peer in [one, two] {
        peer.server
            .until(|told| told.contains(&Told::Left(cut.id)))
            .await;
    }
    cable.state.send_replace(CableState::Whole);
    let again = |told: &[Told]| {
        let enrolled = told.iter().filter(|told| matches!(told, Told::Enrolled(_)));
        enrolled.count() == 2
    };
    let told = cut.server.until(again).await;
    let left = [one.id, two.id].map(Told::Left);
    assert!(left.iter().all(|left| told.contains(left)), "{told:?}");
    let id = cut.server.id().await;
    for peer in [one, two] {
        peer.server.meets(id).await;
        cut.server.meets(peer.id).await;
        cut.transport.send(peer.id, message(3));
        assert_eq!(peer.server.messages(id, 1).await, [3]);
    }
}
