//! The deployment of modules with several servers over a store that is cut off and lost, compared with an
//! independent model; and single decisions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]
use peal_cluster::{
    ClusterDeployment, DeployedSet, DeploymentOutput, DeploymentRecord, NodeReport, ObjectId,
    PendingRecord, PreparedSet, ProposalError, RecordPosition, RolloutStage, RolloutTerms,
    SetNumber, SetProposal, WriteResult, canary_nodes,
};
use peal_core::MonotonicTime;
use peal_model::NodeName;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Deployers are the first of the nodes.
const DEPLOYERS: usize = 2;
/// Patience of rollouts, in milliseconds.
const PATIENCE: u64 = 60_000;

fn node(index: usize) -> NodeName {
    format!("n{index}").parse().unwrap()
}

fn object(of: u64) -> ObjectId {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&of.to_le_bytes());
    ObjectId { digest, size: of }
}

fn terms(quota_percent: u8, canary_percent: Option<u8>) -> RolloutTerms {
    RolloutTerms {
        quota_percent,
        patience_ms: PATIENCE,
        canary_percent,
    }
}

/// Contents of the store under one subject.
#[derive(Clone, Debug)]
enum Stored {
    Record(DeploymentRecord),
    Report(NodeReport),
}

/// Store that keeps the last message of each subject.
#[derive(Default)]
struct Store {
    /// Number of times that it was lost.
    losses: u32,
    last: u64,
    /// Messages by kind and node.
    messages: BTreeMap<(&'static str, usize), (u64, Stored)>,
    objects: BTreeSet<ObjectId>,
}

impl Store {
    fn put(&mut self, subject: (&'static str, usize), message: Stored) -> RecordPosition {
        self.last += 1;
        self.messages.insert(subject, (self.last, message));
        RecordPosition(self.last)
    }

    fn last_record(&self) -> Option<(u64, &DeploymentRecord)> {
        let records = self
            .messages
            .values()
            .filter_map(|(at, stored)| match stored {
                Stored::Record(record) => Some((*at, record)),
                Stored::Report(_) => None,
            });
        records.max_by_key(|(at, _)| *at)
    }
}

struct Server {
    state: ClusterDeployment,
    losses: u32,
    is_connected: bool,
    is_member: bool,
    /// Sets of the process by number, as they were prepared.
    holds: BTreeMap<SetNumber, DeployedSet>,
    runs: Option<SetNumber>,
}

/// Servers of a cluster with their store.
struct World {
    now: u64,
    store: Store,
    servers: Vec<Server>,
    /// Nodes and the sets that they have ever been ready for.
    ready: BTreeSet<(usize, SetNumber)>,
    /// Greatest revision that was ever stored.
    revision: u64,
    /// Records that were ever stored. Losses leave them.
    records: Vec<DeploymentRecord>,
    proposals: u64,
    /// Each fifth pair of a node and a set is refused, by this number; `None` for none.
    salt: Option<u64>,
}

/// Step of a history.
#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver(usize),
    Act(usize),
    Wait(u64),
    Propose {
        by: usize,
        quota: u8,
        canary: Option<u8>,
    },
    Promote(usize),
    RollBack(usize),
    Cut(usize),
    Restart(usize),
    Leave(usize),
    Lose,
    LoseObjects,
}

impl World {
    fn new(servers: usize, salt: Option<u64>) -> World {
        World {
            now: 1,
            store: Store::default(),
            servers: (0..servers).map(|index| Server::new(index, 0)).collect(),
            ready: BTreeSet::new(),
            revision: 0,
            records: Vec::new(),
            proposals: 0,
            salt,
        }
    }

    fn refuses(&self, server: usize, set: SetNumber) -> bool {
        let pair = server as u64 * 3 + set.0 * 7;
        self.salt
            .is_some_and(|salt| (pair + salt).is_multiple_of(5))
    }

    fn members(&self) -> BTreeSet<NodeName> {
        let members = self.servers.iter().enumerate();
        let members = members.filter(|(_, server)| server.is_member);
        members.map(|(index, _)| node(index)).collect()
    }

    /// Gives a server what was stored since it last read.
    fn deliver(&mut self, index: usize) {
        let members = self.members();
        let store = &self.store;
        let server = &mut self.servers[index];
        if !server.is_connected {
            return;
        }
        server.state.set_members(if server.is_member {
            members
        } else {
            BTreeSet::new()
        });
        if server.losses != store.losses {
            server.losses = store.losses;
            server.state.restarted();
        }
        let position = server.state.position().0;
        let mut new: Vec<(u64, usize, Stored)> = store
            .messages
            .iter()
            .filter(|(_, (at, _))| *at > position)
            .map(|((_, writer), (at, stored))| (*at, *writer, stored.clone()))
            .collect();
        new.sort_by_key(|(at, ..)| *at);
        for (at, writer, stored) in new {
            let at = RecordPosition(at);
            match stored {
                Stored::Record(record) => server.state.apply_record(at, record),
                Stored::Report(report) => server.state.apply_report(at, node(writer), report),
            }
        }
        server.state.caught_up(RecordPosition(store.last));
    }

    /// Carries out what a server has to do. Returns the number of outputs.
    fn act(&mut self, index: usize) -> usize {
        let mut count = 0;
        loop {
            let now = MonotonicTime(self.now);
            let Some(output) = self.servers[index].state.next_output(now) else {
                return count;
            };
            count += 1;
            assert!(count < 1000, "server {index} never rests: {output:?}");
            match output {
                DeploymentOutput::Prepare(set) => self.prepare(index, set),
                DeploymentOutput::Run(set) => self.run(index, set),
                DeploymentOutput::Report(report) => {
                    let server = &mut self.servers[index];
                    let result = if server.is_connected {
                        let stored = Stored::Report(report.clone());
                        WriteResult::Stored(self.store.put(("report", index), stored))
                    } else {
                        WriteResult::Refused
                    };
                    self.servers[index].state.reported(report, result, now);
                }
                DeploymentOutput::Write(pending) => {
                    let result = self.write(index, &pending);
                    let state = &mut self.servers[index].state;
                    state.wrote(pending.record, result, now);
                }
                DeploymentOutput::Provide(object) => {
                    let holds = &self.servers[index].holds;
                    if holds.values().any(|set| set.object == object) {
                        self.store.objects.insert(object);
                    }
                }
            }
        }
    }

    fn prepare(&mut self, index: usize, set: DeployedSet) {
        let is_refused = self.refuses(index, set.number);
        let server = &mut self.servers[index];
        let is_here = server.holds.get(&set.number) == Some(&set);
        let result = if !is_here && !server.is_connected {
            PreparedSet::Interrupted
        } else if !is_here && !self.store.objects.contains(&set.object) {
            PreparedSet::Lacks(set.object)
        } else if is_refused {
            PreparedSet::Refused("the model says so".to_owned())
        } else {
            self.ready.insert((index, set.number));
            server.holds.insert(set.number, set.clone());
            PreparedSet::Ready
        };
        let now = MonotonicTime(self.now);
        server.state.prepared(set.number, result, now);
    }

    fn run(&mut self, index: usize, set: Option<DeployedSet>) {
        let server = &mut self.servers[index];
        let number = set.as_ref().map(|set| set.number);
        let record = server
            .state
            .record()
            .expect("a server without a record runs its own");
        assert_eq!(record.target(&node(index)), number, "server {index}");
        if let Some(set) = &set {
            assert_eq!(
                server.holds.get(&set.number),
                Some(set),
                "not prepared here"
            );
        }
        server.runs = number;
        server.state.ran(set.as_ref(), Ok(()));
        if let Some(number) = number {
            assert!(!self.refuses(index, number), "server {index} runs {number}");
        }
    }

    /// Stores a record as the NATS server would, and checks whether it may be decided.
    fn write(&mut self, index: usize, pending: &PendingRecord) -> WriteResult {
        let last = self.store.last_record();
        let at = last.map(|(at, _)| at).unwrap_or_default();
        if !self.servers[index].is_connected || at != pending.after.0 {
            return WriteResult::Refused;
        }
        if index >= DEPLOYERS {
            return WriteResult::Forbidden;
        }
        let record = &pending.record;
        if let Some((_, before)) = last {
            assert!(record.revision > before.revision);
            // Others put a record back that was lost, and was decided with the members of that time, or
            // pass the revision of one that cannot be put back.
            let is_next = record.revision == before.revision + 1;
            if is_next && !self.records.contains(record) {
                self.check_decision(index, before, record);
            }
        }
        self.put_record(index, record)
    }

    fn put_record(&mut self, index: usize, record: &DeploymentRecord) -> WriteResult {
        self.revision = self.revision.max(record.revision);
        self.records.push(record.clone());
        let stored = Stored::Record(record.clone());
        WriteResult::Stored(self.store.put(("record", index), stored))
    }

    /// Checks a decision against what nodes were ready for.
    fn check_decision(&self, index: usize, before: &DeploymentRecord, after: &DeploymentRecord) {
        let Some(rollout) = &before.rollout else {
            return;
        };
        let is_canary = after
            .rollout
            .as_ref()
            .is_some_and(|after| after.stage == RolloutStage::Canary && after.set == rollout.set);
        let is_activated = after.active == Some(rollout.set) && before.active != after.active;
        let members = self.servers[index].state.members();
        let is_ready = |node: &&NodeName| {
            let index = node.as_str()[1..].parse().unwrap();
            self.ready.contains(&(index, rollout.set))
        };
        if is_activated {
            let ready = members.iter().filter(is_ready).count();
            // In hundredths of nodes, so that nothing is rounded.
            assert!(ready * 100 >= members.len() * usize::from(rollout.quota_percent));
            assert!(ready > 0);
        } else if is_canary && rollout.stage == RolloutStage::Preparing {
            let chosen = members.iter().filter(|node| rollout.canary.contains(node));
            assert!(chosen.clone().count() > 0 && chosen.clone().all(|node| is_ready(&node)));
        }
    }

    fn ask(
        &mut self,
        index: usize,
        request: impl FnOnce(&ClusterDeployment) -> Result<PendingRecord, ProposalError>,
    ) {
        let index = index % DEPLOYERS;
        if let Ok(pending) = request(&self.servers[index].state) {
            // What an administrator wants needs no one to be ready.
            let last = self.store.last_record().map(|(at, _)| at);
            let is_stored =
                self.servers[index].is_connected && last.unwrap_or_default() == pending.after.0;
            let result = if is_stored {
                self.put_record(index, &pending.record)
            } else {
                WriteResult::Refused
            };
            let now = MonotonicTime(self.now);
            self.servers[index].state.wrote(pending.record, result, now);
        }
    }

    fn step(&mut self, step: Step) {
        let count = self.servers.len();
        match step {
            Step::Deliver(index) => self.deliver(index % count),
            Step::Act(index) => drop(self.act(index % count)),
            Step::Wait(time) => self.now += time,
            Step::Propose { by, quota, canary } => {
                self.proposals += 1;
                let number = self.proposals;
                let object = object(number);
                self.store.objects.insert(object);
                self.ask(by, |state| {
                    let base = state.record().map(|record| record.revision);
                    state.propose(SetProposal {
                        base: base.unwrap_or_default(),
                        object,
                        cause: String::new(),
                        terms: terms(quota, canary),
                        // Times only grow, whatever is lost.
                        at: number * 1_000_000,
                    })
                });
            }
            Step::Promote(index) => self.ask(index, ClusterDeployment::promote),
            Step::RollBack(index) => self.ask(index, |state| state.roll_back(None)),
            Step::Cut(index) => {
                let server = &mut self.servers[index % count];
                server.is_connected = !server.is_connected;
                if !server.is_connected {
                    server.state.disconnected();
                }
            }
            Step::Restart(index) => {
                let index = index % count;
                let runs = self.servers[index].runs;
                self.servers[index] = Server::new(index, self.store.losses);
                // The modules are in the store of the node.
                self.servers[index].runs = runs;
            }
            Step::Leave(index) => {
                let server = &mut self.servers[index % count];
                server.is_member = !server.is_member;
            }
            Step::Lose => {
                self.store.losses += 1;
                self.store.messages.clear();
                self.store.objects.clear();
            }
            Step::LoseObjects => self.store.objects.clear(),
        }
    }

    /// Connects all and waits until nothing happens any more.
    fn settle(&mut self) {
        for server in &mut self.servers {
            server.is_connected = true;
            server.is_member = true;
        }
        // Longer than the patience of some rollouts.
        for _ in 0..60 {
            for index in 0..self.servers.len() {
                self.deliver(index);
                self.act(index);
            }
            self.now += 5000;
        }
    }

    /// Returns true if an object is nowhere, neither in the store nor at a server.
    fn lacks_for_ever(&self) -> bool {
        let wanted = self
            .servers
            .iter()
            .enumerate()
            .filter_map(|(index, server)| {
                let record = server.state.record()?;
                record.set(record.target(&node(index))?)
            });
        wanted.into_iter().any(|set| {
            !self.store.objects.contains(&set.object)
                && !self
                    .servers
                    .iter()
                    .any(|server| server.holds.get(&set.number) == Some(set))
        })
    }

    /// Checks that all follow the last record.
    fn check_settled(&self) {
        if self.lacks_for_ever() {
            return;
        }
        let latest = self
            .servers
            .iter()
            .filter_map(|server| server.state.record())
            .max_by_key(|record| record.revision);
        let Some(latest) = latest else {
            // All records are lost, and with them what should run.
            return;
        };
        // Without a deployer that knows it nobody stores a record that was lost.
        let is_stored = self
            .store
            .last_record()
            .is_some_and(|(_, stored)| stored == latest);
        let is_waiting = latest
            .rollout
            .as_ref()
            .is_some_and(|rollout| rollout.stage != RolloutStage::Canary);
        assert!(
            !(is_stored && is_waiting),
            "a rollout has no end: {latest:?}"
        );
        for (index, server) in self.servers.iter().enumerate() {
            let knows = server.state.record().is_some_and(|record| record == latest);
            assert!(
                knows || !is_stored,
                "server {index} does not know {latest:?}"
            );
            if !knows {
                continue;
            }
            let target = latest.target(&node(index));
            let report = &server.state.reports()[&node(index)];
            match target.filter(|set| self.refuses(index, *set)) {
                Some(set) => {
                    assert_ne!(server.runs, target, "server {index}");
                    assert!(report.refusal(set).is_some(), "server {index}: {report:?}");
                }
                None => {
                    assert_eq!(server.runs, target, "server {index} of {latest:?}");
                    assert_eq!(report.runs, target, "server {index}");
                }
            }
        }
    }
}

impl Server {
    fn new(index: usize, losses: u32) -> Server {
        Server {
            state: ClusterDeployment::new(node(index)),
            losses,
            is_connected: true,
            is_member: true,
            holds: BTreeMap::new(),
            runs: None,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let server = 0..6_usize;
    prop_oneof![
        12 => server.clone().prop_map(Step::Deliver),
        12 => server.clone().prop_map(Step::Act),
        4 => (1..20_000_u64).prop_map(Step::Wait),
        3 => (server.clone(), prop_oneof![Just(100_u8), 1..=100_u8], prop::option::of(1..100_u8))
            .prop_map(|(by, quota, canary)| Step::Propose { by, quota, canary }),
        2 => server.clone().prop_map(Step::Promote),
        2 => server.clone().prop_map(Step::RollBack),
        2 => server.clone().prop_map(Step::Cut),
        1 => server.clone().prop_map(Step::Restart),
        1 => server.prop_map(Step::Leave),
        1 => Just(Step::Lose),
        1 => Just(Step::LoseObjects),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn servers_follow_the_last_record_whatever_is_lost(
        servers in 2..6_usize,
        salt in prop::option::of(0..5_u64),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(servers, salt);
        for step in steps {
            world.step(step);
        }
        world.settle();
        world.check_settled();
    }
}

/// Cluster whose servers have nothing to refuse.
fn agreeing(servers: usize) -> World {
    World::new(servers, None)
}

fn runs(world: &World) -> Vec<Option<u64>> {
    let servers = world.servers.iter();
    servers.map(|server| server.runs.map(|set| set.0)).collect()
}

#[test]
fn refusal_of_one_node_stops_a_set_of_all_but_no_quota() {
    // Node 0 refuses set 1: 0 * 3 + 1 * 7 + 3 is a multiple of five. No other of three does.
    let mut world = World::new(3, Some(3));
    world.settle();
    let propose = |quota| Step::Propose {
        by: 1,
        quota,
        canary: None,
    };
    world.step(propose(100));
    world.settle();
    assert_eq!(runs(&world), [None, None, None]);
    let record = world.servers[2].state.record().unwrap();
    let reason = &record.abandoned.as_ref().unwrap().reason;
    assert_eq!(reason, "n0 refuses: the model says so");
    // Set 2 is refused by node 1: 1 * 3 + 2 * 7 + 3 is one.
    world.step(propose(60));
    world.settle();
    assert_eq!(runs(&world), [Some(2), None, Some(2)]);
    let reports = world.servers[0].state.reports();
    assert!(reports[&node(1)].refusal(SetNumber(2)).is_some());
}

#[test]
fn canary_runs_alone_until_promoted_or_given_up() {
    let mut world = agreeing(2);
    world.settle();
    let propose = |canary| Step::Propose {
        by: 0,
        quota: 100,
        canary,
    };
    world.step(propose(None));
    world.settle();
    assert_eq!(runs(&world), [Some(1), Some(1)]);
    world.step(propose(Some(10)));
    world.settle();
    let chosen = canary_nodes(SetNumber(2), &world.members(), 10);
    assert_eq!(chosen.len(), 1);
    let expected: Vec<Option<u64>> = (0..2)
        .map(|index| Some(if chosen.contains(&node(index)) { 2 } else { 1 }))
        .collect();
    assert_eq!(runs(&world), expected);
    // No other set begins meanwhile, on no deployer.
    world.step(propose(None));
    world.settle();
    assert_eq!(runs(&world), expected);
    world.step(Step::RollBack(1));
    world.settle();
    assert_eq!(runs(&world), [Some(1), Some(1)]);
    world.step(propose(Some(10)));
    world.settle();
    world.step(Step::Promote(1));
    world.settle();
    assert_eq!(runs(&world), [Some(3), Some(3)]);
    world.step(Step::RollBack(0));
    world.settle();
    assert_eq!(runs(&world), [Some(1), Some(1)]);
}

#[test]
fn silent_node_delays_a_set_until_its_time_is_over() {
    let mut world = agreeing(2);
    world.settle();
    // The other one is a member and cannot say anything.
    world.servers[1].is_connected = false;
    world.servers[1].state.disconnected();
    world.step(Step::Propose {
        by: 0,
        quota: 100,
        canary: None,
    });
    let until_quiet = |world: &mut World| {
        world.deliver(0);
        world.act(0);
    };
    until_quiet(&mut world);
    world.now += PATIENCE - 1;
    until_quiet(&mut world);
    assert!(world.servers[0].state.record().unwrap().rollout.is_some());
    world.now += 1;
    until_quiet(&mut world);
    let record = world.servers[0].state.record().unwrap();
    let reason = &record.abandoned.as_ref().unwrap().reason;
    assert_eq!(reason, "n1 was not ready in 60 s");
}

#[test]
fn lost_store_is_filled_again_by_those_that_have_it() {
    let mut world = agreeing(3);
    world.settle();
    world.step(Step::Propose {
        by: 0,
        quota: 100,
        canary: None,
    });
    world.settle();
    world.step(Step::Lose);
    world.settle();
    let (_, record) = world.store.last_record().unwrap();
    assert_eq!(record.active, Some(SetNumber(1)));
    // The objects come back when a server needs them.
    assert!(world.store.objects.is_empty());
    world.step(Step::Restart(2));
    world.settle();
    assert_eq!(world.store.objects.len(), 1);
    assert_eq!(runs(&world), [Some(1), Some(1), Some(1)]);
}

#[test]
fn older_record_of_a_lost_store_changes_nothing() {
    let mut world = agreeing(3);
    world.settle();
    for _ in 0..2 {
        world.step(Step::Propose {
            by: 0,
            quota: 100,
            canary: None,
        });
        world.settle();
    }
    let mut old = world.servers[2].state.record().unwrap().clone();
    old.revision -= 1;
    old.active = Some(SetNumber(1));
    let state = &mut world.servers[2].state;
    state.restarted();
    state.apply_record(RecordPosition(1), old);
    state.caught_up(RecordPosition(1));
    assert_eq!(state.record().unwrap().active, Some(SetNumber(2)));
    world.act(2);
    assert_eq!(world.servers[2].runs, Some(SetNumber(2)));
}

proptest! {
    #[test]
    fn canary_is_the_asked_share_and_the_same_each_time(
        count in 1..200_usize,
        share in 1..100_u8,
        set in 1..1000_u64,
    ) {
        let members: BTreeSet<NodeName> = (0..count).map(node).collect();
        let chosen = canary_nodes(SetNumber(set), &members, share);
        prop_assert!(chosen.is_subset(&members));
        prop_assert_eq!(&chosen, &canary_nodes(SetNumber(set), &members, share));
        // The least number of nodes that is no less than the share.
        let enough = chosen.len() * 100 >= count * usize::from(share);
        let less = (chosen.len() - 1) * 100 < count * usize::from(share);
        prop_assert!(enough && less);
    }
}

#[test]
fn canaries_of_sets_differ_and_take_turns() {
    let members: BTreeSet<NodeName> = (0..100).map(node).collect();
    let mut times: BTreeMap<NodeName, u32> = BTreeMap::new();
    for set in 1..=1000 {
        for chosen in canary_nodes(SetNumber(set), &members, 10) {
            *times.entry(chosen).or_default() += 1;
        }
    }
    assert_eq!(times.len(), 100);
    // Each node is expected 100 times.
    let range = (times.values().min().unwrap(), times.values().max().unwrap());
    assert!(*range.0 > 50 && *range.1 < 150, "{range:?}");
}
