//! Published data while requests cross, servers die and join: each request is answered once, and no answer contradicts what was known
//! when it was made.
use super::{
    cluster::Cluster,
    published::{found, key_texts, look_up, publish, status_of, unpublish},
};
use peal_core::{group::ServerId, server::StateSettings};
use peal_model::{Persistence, Proc, Range, code};
use std::collections::BTreeMap;

/// A publication of one key, with the steps at which it began and was answered, and at which it was
/// first withdrawn, if it was.
#[derive(Debug)]
struct Attempt {
    call: usize,
    by: Proc,
    server: ServerId,
    key: usize,
    range: Range,
    persistence: Persistence,
    begun: usize,
    answered: Option<usize>,
    /// The first request to withdraw it, or the end of its proc.
    withdrawn: Option<usize>,
    /// The step at which an unpublish was answered.
    gone: Option<usize>,
}

#[derive(Debug)]
struct Lookup {
    call: usize,
    by: Proc,
    keys: Vec<usize>,
    begun: usize,
    answered: Option<usize>,
}

#[derive(Debug)]
struct Withdrawal {
    call: usize,
    /// The publications that it is about.
    attempts: Vec<u32>,
}

struct World {
    cluster: Cluster,
    step: usize,
    /// By their values.
    attempts: BTreeMap<u32, Attempt>,
    lookups: Vec<Lookup>,
    withdrawals: Vec<Withdrawal>,
    /// The step at which each server has died.
    dead: BTreeMap<ServerId, usize>,
    joined: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut cluster = Cluster::new(3, seed, &StateSettings::default());
        cluster.latency = 1 + seed % 30;
        cluster.add_job("one", &[(1, &[0, 1]), (2, &[2, 3]), (3, &[4, 5])]);
        cluster.pass(200);
        World {
            cluster,
            step: 0,
            attempts: BTreeMap::new(),
            lookups: Vec::new(),
            withdrawals: Vec::new(),
            dead: BTreeMap::new(),
            joined: 0,
        }
    }

    fn publish(&mut self) {
        let Some((by, server)) = self.cluster.some_proc() else {
            return;
        };
        let key = self.cluster.random.below(3);
        let range = [Range::Session, Range::Global][self.cluster.random.below(2)];
        let persistence = if self.cluster.random.percent(20) {
            Persistence::FirstRead
        } else {
            Persistence::Indefinite
        };
        let value = u32::try_from(self.attempts.len()).unwrap() + 1;
        let request = publish(&[(key, value)], range, persistence);
        let attempt = Attempt {
            call: self.cluster.request(&by, request),
            by,
            server,
            key,
            range,
            persistence,
            begun: self.step,
            answered: None,
            withdrawn: None,
            gone: None,
        };
        self.attempts.insert(value, attempt);
    }

    fn look_up(&mut self, wait: Option<usize>) {
        let Some((by, _)) = self.cluster.some_proc() else {
            return;
        };
        let many = 1 + self.cluster.random.below(2);
        let keys = self.cluster.random.some(&[0, 1, 2], many);
        self.ask(by, keys, wait);
    }

    /// Has a proc look up keys, and notes the lookup.
    fn ask(&mut self, by: Proc, keys: Vec<usize>, wait: Option<usize>) {
        let request = look_up(&keys, Range::Session, wait);
        self.lookups.push(Lookup {
            call: self.cluster.request(&by, request),
            by,
            keys,
            begun: self.step,
            answered: None,
        });
    }

    fn unpublish(&mut self) {
        let Some((by, _)) = self.cluster.some_proc() else {
            return;
        };
        let key = self.cluster.random.below(3);
        let call = self.cluster.request(&by, unpublish(&key_texts(&[key])));
        let mut withdrawal = Withdrawal {
            call,
            attempts: Vec::new(),
        };
        for (value, attempt) in &mut self.attempts {
            // A second request has nothing to withdraw, and does not wait for the first.
            if attempt.by == by && attempt.key == key && attempt.withdrawn.is_none() {
                attempt.withdrawn = Some(self.step);
                withdrawal.attempts.push(*value);
            }
        }
        self.withdrawals.push(withdrawal);
    }

    fn proc_dies(&mut self) {
        if let Some((proc, _)) = self.cluster.some_proc() {
            self.cluster.die(&proc);
        }
    }

    fn server_dies(&mut self) {
        let servers: Vec<ServerId> = self.cluster.servers.keys().copied().collect();
        if servers.len() > 1 {
            let chosen = self.cluster.random.below(servers.len() * 2);
            let server = servers.get(chosen).copied().unwrap_or(servers[0]);
            self.cluster.server_dies(server);
            self.dead.insert(server, self.step);
        }
    }

    fn join(&mut self) {
        if self.joined < 3 {
            self.joined += 1;
            let id = self.cluster.join();
            let name = format!("late{}", self.joined);
            self.cluster.add_job(&name, &[(id.0, &[0])]);
        }
    }

    fn act(&mut self) {
        match self.cluster.random.below(60) {
            0..14 => self.publish(),
            14..22 => self.look_up(None),
            22..28 => self.look_up(Some(0)),
            28..33 => self.unpublish(),
            33..35 => self.proc_dies(),
            35 => self.server_dies(),
            36 => self.join(),
            37..50 => self.cluster.deliver_some(8),
            _ => {
                let time = self.cluster.random.below(20) as u64;
                self.cluster.pass(time);
            }
        }
        self.note();
        self.step += 1;
    }

    /// Notes the steps at which requests were answered.
    fn note(&mut self) {
        for attempt in self.attempts.values_mut() {
            if status_of(&self.cluster, attempt.call).is_some() {
                attempt.answered.get_or_insert(self.step);
            }
        }
        for lookup in &mut self.lookups {
            if status_of(&self.cluster, lookup.call).is_some() {
                lookup.answered.get_or_insert(self.step);
            }
        }
        for withdrawal in &self.withdrawals {
            if status_of(&self.cluster, withdrawal.call).is_some() {
                for value in &withdrawal.attempts {
                    let attempt = self.attempts.get_mut(value).unwrap();
                    attempt.gone.get_or_insert(self.step);
                }
            }
        }
    }

    fn is_published(&self, attempt: &Attempt) -> bool {
        status_of(&self.cluster, attempt.call) == Some(code::PMIX_SUCCESS)
    }

    fn check(&mut self) {
        self.cluster.pass(500);
        self.note();
        self.step += 1;
        // Longer than any lookup waits.
        self.cluster.pass(1_001_000);
        self.note();
        self.step += 1;
        self.cluster.latency = 0;
        self.look_up_everywhere();
        self.cluster.pass(10);
        self.note();
        assert!(
            self.cluster.refused.is_empty(),
            "{:?}",
            self.cluster.refused
        );
        assert!(self.cluster.lost.is_empty(), "{:?}", self.cluster.lost);
        let mut reads: BTreeMap<u32, usize> = BTreeMap::new();
        for lookup in &self.lookups {
            if lookup.answered.is_some() {
                for value in self.check_lookup(lookup) {
                    *reads.entry(value).or_default() += 1;
                }
            } else {
                let lives = self.cluster.peers.contains_key(&lookup.by);
                assert!(!lives, "{lookup:?} is not answered");
            }
        }
        for attempt in self.attempts.values() {
            self.check_attempt(attempt);
        }
        if self.dead.is_empty() {
            for (value, count) in reads {
                let once = self.attempts[&value].persistence == Persistence::FirstRead;
                assert!(!once || count == 1, "{value} was read {count} times");
            }
        }
    }

    /// Looks up all keys for one proc of each server.
    fn look_up_everywhere(&mut self) {
        let mut procs: BTreeMap<ServerId, Proc> = BTreeMap::new();
        for (proc, (server, _)) in &self.cluster.peers {
            procs.insert(*server, proc.clone());
        }
        for by in procs.into_values() {
            self.ask(by, vec![0, 1, 2], None);
        }
    }

    /// Checks the answer to a lookup, and returns the values that it has found.
    fn check_lookup(&self, lookup: &Lookup) -> Vec<u32> {
        let Lookup { begun, keys, .. } = lookup;
        let answered = lookup.answered.unwrap();
        let values = found(&self.cluster, lookup.call);
        let mut seen = Vec::new();
        for value in &values {
            let attempt = &self.attempts[value];
            assert!(keys.contains(&attempt.key));
            let is_gone = attempt.gone.is_some_and(|gone| gone < *begun);
            assert!(!is_gone, "{lookup:?} has found {attempt:?}");
            seen.push(attempt.key);
        }
        for attempt in self.attempts.values() {
            let exists = self.is_published(attempt)
                && attempt.answered.is_some_and(|at| at < *begun)
                && attempt.withdrawn.is_none_or(|at| at > answered)
                && self
                    .dead
                    .get(&attempt.server)
                    .is_none_or(|at| *at > answered)
                && attempt.persistence == Persistence::Indefinite
                && keys.contains(&attempt.key);
            let is_over = status_of(&self.cluster, lookup.call) == Some(code::PMIX_ERR_TIMEOUT);
            assert!(
                !exists || is_over || seen.contains(&attempt.key),
                "{lookup:?} has not found {attempt:?}"
            );
        }
        values
    }

    fn check_attempt(&self, attempt: &Attempt) {
        let Some(status) = status_of(&self.cluster, attempt.call) else {
            let lives = self.cluster.peers.contains_key(&attempt.by);
            return assert!(!lives, "{attempt:?} is not answered");
        };
        let answered = attempt.answered.unwrap();
        let others = self.attempts.values().filter(|other| {
            other.call != attempt.call && other.key == attempt.key && other.range == attempt.range
        });
        if status == code::PMIX_ERR_DUPLICATE_KEY {
            // Another one may have been there.
            let mut others = others.filter(|other| {
                other.begun <= answered && other.gone.is_none_or(|gone| gone >= attempt.begun)
            });
            assert!(others.next().is_some(), "{attempt:?} is no duplicate");
        } else {
            assert_eq!(status, code::PMIX_SUCCESS, "{attempt:?}");
            // One that was surely there refuses this one.
            let there = |other: &&Attempt| {
                self.is_published(other)
                    && other.persistence == Persistence::Indefinite
                    && other.answered.is_some_and(|at| at < attempt.begun)
                    && other.withdrawn.is_none_or(|at| at > answered)
                    && self.dead.get(&other.server).is_none_or(|at| *at > answered)
            };
            let other = others.clone().find(there);
            // A publication that was withdrawn before it was answered has published nothing.
            let is_withdrawn = attempt.withdrawn.is_some_and(|at| at <= answered);
            assert!(
                is_withdrawn || other.is_none(),
                "{attempt:?} beside {other:?}"
            );
        }
    }
}

#[test]
fn answers_agree_with_what_was_known_before() {
    for seed in 0..600 {
        let mut world = World::new(seed);
        for _ in 0..120 {
            world.act();
        }
        world.check();
    }
}
