//! Servers that join and die while their procs fence and raise events, compared with lists of the calls and events.
use super::cluster::{Cluster, seeds, status};
use peal_core::{
    group::ServerId,
    server::{EVENTS_MISSED, MessageRefusal, StateSettings},
};
use peal_model::{
    Info, Infos, KeyName, Nspace, Proc, Range, Rank, Request, Status, Value, code, key,
};
use std::collections::{BTreeMap, BTreeSet};

const NEWS: Status = Status(-3001);
const NUMBER: KeyName = KeyName("test.number");

/// An event, as it was raised.
struct Raised {
    source: Proc,
    origin: ServerId,
    /// The procs that were registered then, without the source.
    recipients: BTreeSet<Proc>,
}

/// A cluster and what a model knows of it: lists of what was done, and of what came of it.
struct World {
    cluster: Cluster,
    /// The sets of procs that fence.
    sets: Vec<(Vec<Proc>, BTreeSet<Proc>)>,
    /// The calls of each set by each proc, in order.
    fences: BTreeMap<usize, BTreeMap<Proc, Vec<usize>>>,
    raised: Vec<Raised>,
    joined: usize,
}

fn nspace(name: &str) -> Nspace {
    Nspace::new(name).unwrap()
}

fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(nspace(job), Rank(rank))
}

impl World {
    /// Creates four servers with a job of eight procs.
    fn new(seed: u64) -> World {
        let settings = StateSettings {
            // All below the root, a tree of three levels, or one of as many as there are servers.
            fence_fan_out: [32, 2, 1][usize::try_from(seed % 3).unwrap()],
            ..StateSettings::default()
        };
        let mut cluster = Cluster::new(4, seed, &settings);
        cluster.latency = 1 + seed % 40;
        cluster.capacity = 2 + usize::try_from(seed % 5).unwrap();
        cluster.copied = 10;
        cluster.add_job(
            "job",
            &[(1, &[0, 1]), (2, &[2, 3, 4]), (3, &[5]), (4, &[6, 7])],
        );
        cluster.pass(1_000);
        let all: Vec<Proc> = (0..8).map(|rank| proc("job", rank)).collect();
        let some: Vec<Proc> = all.iter().skip(1).step_by(2).cloned().collect();
        let set = |named: Vec<Proc>, procs: &[Proc]| (named, procs.iter().cloned().collect());
        let sets = vec![
            set(vec![Proc::all(nspace("job"))], &all),
            set(some.clone(), &some),
        ];
        let mut world = World {
            cluster,
            sets,
            fences: BTreeMap::new(),
            raised: Vec::new(),
            joined: 0,
        };
        for proc in &all {
            world.register(proc);
        }
        world
    }

    fn register(&mut self, proc: &Proc) {
        let request = Request::RegisterEvents {
            codes: vec![NEWS],
            infos: Vec::new(),
        };
        let call = self.cluster.request(proc, request);
        let answer = status(&self.cluster.calls[call].answers[0]);
        assert_eq!(answer, code::PMIX_SUCCESS);
    }

    /// Adds a server with a job of its own, whose procs fence with those of the first job.
    fn join(&mut self) {
        let id = self.cluster.join();
        let job = format!("late{}", self.joined);
        self.joined += 1;
        self.cluster.add_job(&job, &[(id.0, &[0, 1])]);
        // Nobody fences with procs that no server has announced.
        self.cluster.pass(100);
        let procs = [0, 1].map(|rank| proc(&job, rank));
        for proc in &procs {
            self.register(proc);
        }
        let mut members: BTreeSet<Proc> = procs.into_iter().collect();
        members.extend((0..8).map(|rank| proc("job", rank)));
        self.sets.push((
            vec![Proc::all(nspace("job")), Proc::all(nspace(&job))],
            members,
        ));
    }

    fn fence(&mut self, set: usize, proc: &Proc) {
        if !self.cluster.peers.contains_key(proc) {
            return;
        }
        let request = Request::Fence {
            procs: self.sets[set].0.clone(),
            infos: Vec::new(),
        };
        let call = self.cluster.request(proc, request);
        let of_set = self.fences.entry(set).or_default();
        of_set.entry(proc.clone()).or_default().push(call);
    }

    fn raise(&mut self, source: &Proc) {
        let Some((origin, _)) = self.cluster.peers.get(source).copied() else {
            return;
        };
        let number = u64::try_from(self.raised.len()).unwrap();
        let recipients = self.cluster.peers.keys().filter(|proc| *proc != source);
        let recipients = recipients.cloned().collect();
        let affected = Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(source.clone()));
        let request = Request::Notify {
            code: NEWS,
            range: Range::Global,
            infos: vec![affected, Info::new(NUMBER, Value::Uint64(number))],
        };
        self.cluster.request(source, request);
        self.raised.push(Raised {
            source: source.clone(),
            origin,
            recipients,
        });
    }

    fn any_proc(&mut self) -> Proc {
        let procs: Vec<Proc> = self.cluster.peers.keys().cloned().collect();
        procs[self.cluster.random.below(procs.len())].clone()
    }

    fn act(&mut self) {
        match self.cluster.random.below(100) {
            0..45 => {
                let set = self.cluster.random.below(self.sets.len());
                let members: Vec<Proc> = self.sets[set].1.iter().cloned().collect();
                for proc in self.cluster.random.some(&members, members.len()) {
                    self.fence(set, &proc);
                    self.cluster.deliver_some(3);
                }
            }
            45..85 => {
                let proc = self.any_proc();
                for _ in 0..=self.cluster.random.below(8) {
                    self.raise(&proc);
                }
            }
            85..88 => {
                let proc = self.any_proc();
                // Some have to tell at the end what others have missed.
                if self.cluster.peers.len() > 4 {
                    self.cluster.die(&proc);
                }
            }
            88..91 if self.cluster.servers.len() > 2 => {
                let servers: Vec<ServerId> = self.cluster.servers.keys().copied().collect();
                let server = servers[self.cluster.random.below(servers.len())];
                let others = self.cluster.peers.values().filter(|(at, _)| *at != server);
                if others.count() > 2 {
                    self.cluster.server_dies(server);
                }
            }
            91..94 if self.joined < 3 => self.join(),
            _ => {
                let milliseconds = self.cluster.random.below(60);
                self.cluster.pass(u64::try_from(milliseconds).unwrap());
            }
        }
    }

    /// Lets all come to rest. Then two procs of each server raise events, so that each proc gets one of another, which
    /// tells it how many it has missed.
    fn end(&mut self) {
        self.cluster.pass(20_000);
        let servers: Vec<ServerId> = self.cluster.servers.keys().copied().collect();
        for server in servers {
            let procs = self.cluster.peers.iter();
            let there = procs.filter(|(_, (at, _))| *at == server).take(2);
            let there: Vec<Proc> = there.map(|(proc, _)| proc.clone()).collect();
            for proc in there {
                self.raise(&proc);
                self.cluster.pass(1_000);
            }
        }
    }

    /// Checks that all living procs got the same answer to the same fence, once.
    fn check_fences(&self, seed: u64) {
        for (set, calls) in &self.fences {
            let living = calls.iter();
            let living: Vec<&Vec<usize>> = living
                .filter(|(proc, _)| self.cluster.peers.contains_key(proc))
                .map(|(_, calls)| calls)
                .collect();
            let longest = living.iter().map(|calls| calls.len()).max().unwrap_or(0);
            for round in 0..longest {
                let answers = living.iter().filter_map(|calls| calls.get(round));
                let answers = answers.map(|call| self.cluster.calls[*call].status());
                let answers: BTreeSet<Option<Status>> = answers.collect();
                assert_eq!(
                    answers.len(),
                    1,
                    "seed {seed}: fence {round} of set {set} ended as {answers:?}"
                );
                assert!(
                    !answers.contains(&None),
                    "seed {seed}: fence {round} of set {set} has not ended"
                );
            }
        }
    }

    /// Checks that each proc got each event once and in order, or was told that it missed some.
    /// Events of a server that has died may have died with it.
    fn check_events(&self, seed: u64) {
        let mut heard: BTreeMap<&Proc, Vec<usize>> = BTreeMap::new();
        let mut told: BTreeMap<&Proc, u64> = BTreeMap::new();
        for (proc, event) in &self.cluster.heard {
            if let Some(Value::Uint64(number)) = event.infos.value_of(NUMBER) {
                let number = usize::try_from(*number).unwrap();
                heard.entry(proc).or_default().push(number);
            }
            if let Some(Value::Uint64(number)) = event.infos.value_of(EVENTS_MISSED) {
                *told.entry(proc).or_default() += number;
            }
        }
        for (proc, heard) in &heard {
            for origin in (1..20).map(ServerId) {
                let of = heard.iter().filter(|n| self.raised[**n].origin == origin);
                let of: Vec<usize> = of.copied().collect();
                assert!(
                    of.is_sorted_by(|one, next| one < next),
                    "seed {seed}: {proc} heard {of:?} of {origin:?}"
                );
            }
        }
        for proc in self.cluster.peers.keys() {
            let heard = heard.get(proc).cloned().unwrap_or_default();
            let heard: BTreeSet<usize> = heard.into_iter().collect();
            let of_living = |raised: &&(usize, &Raised)| {
                raised.1.recipients.contains(proc)
                    && self.cluster.servers.contains_key(&raised.1.origin)
            };
            let raised: Vec<(usize, &Raised)> = self.raised.iter().enumerate().collect();
            let missing = raised.iter().filter(of_living);
            let missing: Vec<&Proc> = missing
                .filter(|(number, _)| !heard.contains(number))
                .map(|(_, raised)| &raised.source)
                .collect();
            let told = told.get(proc).copied().unwrap_or_default();
            assert!(
                u64::try_from(missing.len()).unwrap() <= told,
                "seed {seed}: {proc} was told of {told}, and misses events of {missing:?}"
            );
        }
    }
}

#[test]
fn fences_and_events_hold_while_servers_join_and_die() {
    let mut missed = 0;
    for seed in seeds(150) {
        let mut world = World::new(seed);
        for _ in 0..40 {
            world.act();
        }
        world.end();
        world.check_fences(seed);
        world.check_events(seed);
        // Of honest servers nothing is refused but what crossed the loss of a server.
        let decides = |refusal: &&MessageRefusal| **refusal == MessageRefusal::NotCoordinator;
        assert_eq!(
            world.cluster.refused.iter().find(decides),
            None,
            "seed {seed}"
        );
        let told = world.cluster.heard.iter();
        missed += told
            .filter(|(_, event)| event.infos.value_of(EVENTS_MISSED).is_some())
            .count();
    }
    assert!(missed > 0, "no link was ever full");
}
