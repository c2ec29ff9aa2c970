//! Membership and liveness of servers that die, are cut off and come back, on a network that is away for
//! a while. Time passes in seconds, in each of which every server is heard of by those it can reach.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_cluster::{
    JoiningServer, Liveness, LivenessSettings, Membership, MembershipChange, MembershipRecord,
    ProtocolVersion, RecordPosition, RecordRefusal,
};
use peal_core::{MonotonicTime, group::ServerId};
use peal_frames::{FrameLimit, named_bytes, of_named_bytes};
use peal_model::NodeName;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NODES: usize = 5;

/// Silence after which a server is declared gone, in seconds.
const GONE_AFTER: u64 = 15;

/// Time in which everybody knows of everything, in seconds.
const SETTLED: u64 = 60;

#[derive(Clone, Copy, Debug)]
enum Step {
    Start(usize),
    Kill(usize),
    Stop(usize),
    Cut(usize),
    Mend(usize),
    TakeNetworkAway,
    BringNetworkBack,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..NODES).prop_map(Step::Start),
        2 => (0..NODES).prop_map(Step::Kill),
        1 => (0..NODES).prop_map(Step::Stop),
        2 => (0..NODES).prop_map(Step::Cut),
        2 => (0..NODES).prop_map(Step::Mend),
        1 => Just(Step::TakeNetworkAway),
        2 => Just(Step::BringNetworkBack),
        6 => (1..40_u64).prop_map(Step::Pass),
    ]
}

/// Server of a node.
struct Server {
    id: ServerId,
    membership: Membership,
    liveness: Liveness,
    is_connected: bool,
    connected_since: u64,
}

#[derive(Default)]
struct Node {
    server: Option<Server>,
    is_cut: bool,
    /// The last second in which the server of this node was heard of by each node.
    heard_by: [u64; NODES],
}

struct Cluster {
    now: u64,
    log: Vec<(NodeName, MembershipRecord)>,
    is_away: bool,
    nodes: Vec<Node>,
}

fn node(number: usize) -> NodeName {
    NodeName::try_from(format!("node-{number}")).unwrap()
}

fn joining() -> MembershipRecord {
    MembershipRecord::Joined(JoiningServer {
        major: ProtocolVersion::CURRENT.major,
        minor: ProtocolVersion::CURRENT.minor,
        software: "test".to_owned(),
        is_gateway: false,
    })
}

impl Cluster {
    fn new() -> Cluster {
        Cluster {
            now: 0,
            log: Vec::new(),
            is_away: false,
            nodes: (0..NODES).map(|_| Node::default()).collect(),
        }
    }

    fn reaches_network(&self, number: usize) -> bool {
        !self.is_away && !self.nodes[number].is_cut
    }

    fn write(&mut self, number: usize, record: MembershipRecord) -> RecordPosition {
        self.log.push((node(number), record));
        RecordPosition(self.log.len() as u64)
    }

    fn join(&mut self, number: usize) {
        let at = self.write(number, joining());
        let id = ServerId(u32::try_from(at.0).unwrap());
        self.nodes[number].server = Some(Server {
            id,
            membership: Membership::new(),
            liveness: Liveness::new(id, LivenessSettings::default()),
            is_connected: false,
            connected_since: 0,
        });
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Start(number) => {
                if self.nodes[number].server.is_none() && self.reaches_network(number) {
                    self.join(number);
                }
            }
            Step::Kill(number) => self.nodes[number].server = None,
            Step::Stop(number) => {
                let reaches = self.reaches_network(number);
                if self.nodes[number].server.take().is_some() && reaches {
                    self.write(number, MembershipRecord::Left);
                }
            }
            Step::Cut(number) => self.nodes[number].is_cut = true,
            Step::Mend(number) => self.nodes[number].is_cut = false,
            Step::TakeNetworkAway => self.is_away = true,
            Step::BringNetworkBack => self.is_away = false,
            Step::Pass(seconds) => (0..seconds).for_each(|_| self.second()),
        }
    }

    fn second(&mut self) {
        self.now += 1;
        let now = MonotonicTime(self.now * 1000);
        let reaching: Vec<usize> = (0..NODES)
            .filter(|number| self.reaches_network(*number) && self.nodes[*number].server.is_some())
            .collect();
        for number in 0..NODES {
            let reaches = reaching.contains(&number);
            if let Some(server) = &mut self.nodes[number].server
                && server.is_connected != reaches
            {
                server.is_connected = reaches;
                server.connected_since = self.now;
                if reaches {
                    server.liveness.connect(now);
                } else {
                    server.liveness.disconnect();
                }
            }
        }
        for server in self.nodes.iter().filter_map(|node| node.server.as_ref()) {
            if !server.is_connected {
                let gone = server.liveness.to_declare_gone(&server.membership, now);
                assert_eq!(
                    gone,
                    [],
                    "a server that reaches nobody declares others gone"
                );
            }
        }
        for number in &reaching {
            self.follow(*number, now);
        }
        for from in &reaching {
            let id = self.nodes[*from].server.as_ref().unwrap().id;
            for to in &reaching {
                self.nodes[*to]
                    .server
                    .as_mut()
                    .unwrap()
                    .liveness
                    .hear(id, now);
                self.nodes[*from].heard_by[*to] = self.now;
            }
        }
        for number in reaching {
            self.judge(number, now);
        }
    }

    /// Applies the records that a server has not seen. One that was declared gone joins again.
    fn follow(&mut self, number: usize, now: MonotonicTime) {
        let server = self.nodes[number].server.as_mut().unwrap();
        let mut is_out = false;
        let seen = usize::try_from(server.membership.last().0).unwrap();
        for (at, (writer, record)) in self.log.iter().enumerate().skip(seen) {
            let at = RecordPosition(at as u64 + 1);
            let Ok(changes) = server.membership.apply(at, writer.clone(), record.clone()) else {
                continue;
            };
            for change in changes {
                match change {
                    MembershipChange::Joined { id, .. } => server.liveness.hear(id, now),
                    MembershipChange::Left { id, .. } => {
                        server.liveness.leave(id);
                        is_out |= id == server.id;
                    }
                }
            }
        }
        if is_out {
            self.join(number);
        }
    }

    /// Writes a verdict if the server has seen the whole sequence, as the real one demands.
    fn judge(&mut self, number: usize, now: MonotonicTime) {
        let server = self.nodes[number].server.as_ref().unwrap();
        let gone = server.liveness.to_declare_gone(&server.membership, now);
        let connected_since = server.connected_since;
        for id in gone {
            let server = self.nodes[number].server.as_ref().unwrap();
            if server.membership.last().0 != self.log.len() as u64 {
                return;
            }
            let victim = &server.membership.member(id).unwrap().node;
            let victim = (0..NODES).find(|number| node(*number) == *victim).unwrap();
            let alive = self.nodes[victim]
                .server
                .as_ref()
                .is_some_and(|server| server.id == id);
            if alive {
                assert!(self.now - self.nodes[victim].heard_by[number] >= GONE_AFTER);
            }
            assert!(self.now - connected_since >= GONE_AFTER);
            self.write(number, MembershipRecord::Gone(id));
            self.follow(number, now);
        }
    }

    fn settle(&mut self) {
        self.is_away = false;
        self.nodes.iter_mut().for_each(|node| node.is_cut = false);
        (0..SETTLED).for_each(|_| self.second());
        let alive: BTreeSet<ServerId> = self
            .nodes
            .iter()
            .filter_map(|node| Some(node.server.as_ref()?.id))
            .collect();
        for node in &self.nodes {
            if let Some(server) = &node.server {
                let known: BTreeSet<ServerId> =
                    server.membership.members().map(|(id, _)| id).collect();
                assert_eq!(known, alive);
                assert_eq!(
                    server
                        .liveness
                        .suspected(&server.membership, MonotonicTime(self.now * 1000)),
                    []
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(500)
    ))]

    /// Nobody is declared gone who was heard of within 15 seconds, and in the end all servers know
    /// exactly those that live.
    #[test]
    fn all_servers_know_those_that_live(steps in prop::collection::vec(step(), 1..60)) {
        let mut cluster = Cluster::new();
        steps.into_iter().for_each(|step| cluster.run(step));
        cluster.settle();
    }
}

#[test]
fn server_that_joins_again_takes_the_place_of_its_former_run() {
    let mut membership = Membership::new();
    let join = |membership: &mut Membership, at| {
        membership
            .apply(RecordPosition(at), node(1), joining())
            .unwrap()
    };
    join(&mut membership, 3);
    let changes = join(&mut membership, 9);
    assert!(matches!(
        changes.as_slice(),
        [
            MembershipChange::Left {
                id: ServerId(3),
                ..
            },
            MembershipChange::Joined {
                id: ServerId(9),
                ..
            }
        ]
    ));
    assert_eq!(membership.server_of(&node(1)), Some(ServerId(9)));
    assert_eq!(membership.members().count(), 1);
}

#[test]
fn records_that_may_not_be_applied_are_refused() {
    let mut membership = Membership::new();
    let mut apply = |at, number, record| membership.apply(RecordPosition(at), node(number), record);
    apply(5, 1, joining()).unwrap();
    assert!(matches!(
        apply(5, 2, joining()),
        Err(RecordRefusal::Late { .. })
    ));
    assert!(matches!(
        apply(4, 2, joining()),
        Err(RecordRefusal::Late { .. })
    ));
    // A node without a server decides about nobody.
    let gone = MembershipRecord::Gone(ServerId(5));
    assert!(matches!(
        apply(6, 2, gone.clone()),
        Err(RecordRefusal::NoMember { .. })
    ));
    let huge = u64::from(u32::MAX) + 1;
    assert!(matches!(
        apply(huge, 2, joining()),
        Err(RecordRefusal::Number { .. })
    ));
    // One may leave twice, and be declared gone after it has left.
    assert_eq!(apply(huge + 1, 1, MembershipRecord::Left).unwrap().len(), 1);
    assert_eq!(apply(huge + 2, 1, MembershipRecord::Left).unwrap(), []);
}

#[test]
fn wrong_names_of_nodes_are_refused_when_decoded() {
    let limit = FrameLimit(1000);
    let decoded = |name: &str| {
        let bytes = named_bytes(Vec::new(), &name, limit).unwrap();
        of_named_bytes::<NodeName>(&bytes, limit)
    };
    for name in ["n", "node-1_a", &"x".repeat(63)] {
        assert_eq!(decoded(name).unwrap().as_str(), name);
    }
    for name in ["", "a.b", "a*", ">", "a b", "n\u{e4}", &"x".repeat(64)] {
        let error = decoded(name).unwrap_err().to_string();
        assert!(error.contains("is no name of a node"), "{error}");
    }
}
