//! Published data of several servers, step by step: all that moves arrives before the next step, and a list of all publications is
//! filtered for each lookup.
use super::{
    cluster::Cluster,
    published::{found, key_texts, look_up, publish, status_of, unpublish},
};
use peal_core::{group::ServerId, server::StateSettings};
use peal_model::{Persistence, Proc, Range, Status, code};
use std::collections::BTreeSet;

const RANGES: [Range; 6] = [
    Range::ProcLocal,
    Range::Local,
    Range::Namespace,
    Range::Session,
    Range::Global,
    Range::Custom,
];
const PERSISTENCES: [Persistence; 5] = [
    Persistence::Indefinite,
    Persistence::FirstRead,
    Persistence::Proc,
    Persistence::App,
    Persistence::Session,
];

/// A publication that exists.
#[derive(Clone, Debug)]
struct Item {
    by: Proc,
    server: ServerId,
    key: usize,
    range: Range,
    persistence: Persistence,
    value: u32,
}

/// A lookup that is not answered.
#[derive(Clone, Debug)]
struct Wanted {
    call: usize,
    by: Proc,
    server: ServerId,
    keys: Vec<usize>,
    range: Range,
    required: usize,
}

/// Returns true if a range of one proc includes another. A custom range means the procs of odd rank.
fn within(range: Range, (of, at): (&Proc, ServerId), (proc, there): (&Proc, ServerId)) -> bool {
    match range {
        Range::ProcLocal => of == proc,
        Range::Local => at == there,
        Range::Namespace => of.nspace == proc.nspace,
        Range::Custom => proc.rank.0 % 2 == 1,
        _ => true,
    }
}

impl Wanted {
    fn sees(&self, item: &Item) -> bool {
        let (me, other) = ((&self.by, self.server), (&item.by, item.server));
        within(item.range, other, me) && within(self.range, me, other)
    }
}

struct World {
    cluster: Cluster,
    items: Vec<Item>,
    wanted: Vec<Wanted>,
    next_value: u32,
    next_job: u32,
    /// Kinds of results that were seen, so that none is missing.
    seen: BTreeSet<Status>,
    waited: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut cluster = Cluster::new(3, seed, &StateSettings::default());
        cluster.latency = seed % 40;
        cluster.add_job("one", &[(1, &[0, 1]), (2, &[2, 3]), (3, &[4, 5])]);
        cluster.add_job("two", &[(2, &[0]), (3, &[1])]);
        cluster.pass(200);
        World {
            cluster,
            items: Vec::new(),
            wanted: Vec::new(),
            next_value: 1,
            next_job: 0,
            seen: BTreeSet::new(),
            waited: 0,
        }
    }

    fn some_keys(&mut self) -> Vec<usize> {
        let many = 1 + self.cluster.random.below(2);
        let mut keys = self.cluster.random.some(&[0, 1, 2], many);
        keys.sort_unstable();
        keys
    }

    fn settle(&mut self) {
        self.cluster.pass(200);
    }

    fn publish(&mut self) {
        let Some((by, server)) = self.cluster.some_proc() else {
            return;
        };
        let keys = self.some_keys();
        let range = RANGES[self.cluster.random.below(RANGES.len())];
        let persistence = PERSISTENCES[self.cluster.random.below(PERSISTENCES.len())];
        let items: Vec<Item> = keys
            .iter()
            .map(|key| {
                self.next_value += 1;
                Item {
                    by: by.clone(),
                    server,
                    key: *key,
                    range,
                    persistence,
                    value: self.next_value,
                }
            })
            .collect();
        let data: Vec<(usize, u32)> = items.iter().map(|item| (item.key, item.value)).collect();
        let request = publish(&data, range, persistence);
        let call = self.cluster.request(&by, request);
        self.settle();
        let is_same_place = |one: &Item, other: &Item| {
            one.range == other.range
                && one.key == other.key
                && match range {
                    Range::ProcLocal => one.by == other.by,
                    Range::Local => one.server == other.server,
                    Range::Namespace => one.by.nspace == other.by.nspace,
                    _ => true,
                }
        };
        let mut there = self.items.iter();
        let is_taken = there.any(|old| items.iter().any(|new| is_same_place(old, new)));
        let expected = if is_taken {
            code::PMIX_ERR_DUPLICATE_KEY
        } else {
            code::PMIX_SUCCESS
        };
        assert_eq!(status_of(&self.cluster, call), Some(expected), "{items:?}");
        self.seen.insert(expected);
        if expected == code::PMIX_SUCCESS {
            self.items.extend(items);
        }
    }

    fn look_up(&mut self) {
        let Some((by, server)) = self.cluster.some_proc() else {
            return;
        };
        let keys = self.some_keys();
        let range = RANGES[self.cluster.random.below(RANGES.len())];
        let wait = self.cluster.random.below(4).checked_sub(1);
        let required = match wait {
            None => 0,
            Some(0) => keys.len(),
            Some(many) => many.min(keys.len()),
        };
        let request = look_up(&keys, range, wait);
        let call = self.cluster.request(&by, request);
        self.settle();
        self.wanted.push(Wanted {
            call,
            by,
            server,
            keys,
            range,
            required,
        });
    }

    /// Compares the answers that have come, and those that have not, with the items.
    fn compare(&mut self) {
        let mut taken: Vec<u32> = Vec::new();
        for wanted in std::mem::take(&mut self.wanted) {
            let sees = |item: &&Item| wanted.keys.contains(&item.key) && wanted.sees(item);
            let Some(status) = status_of(&self.cluster, wanted.call) else {
                self.wanted.push(wanted);
                continue;
            };
            self.seen.insert(status);
            let found = found(&self.cluster, wanted.call);
            let of_value = |value: &u32| self.items.iter().find(|item| item.value == *value);
            let read: Vec<&Item> = found
                .iter()
                .map(|value| of_value(value).unwrap_or_else(|| panic!("{value} is gone")))
                .collect();
            assert!(read.iter().all(&sees), "{wanted:?}: {read:?}");
            let keys: Vec<usize> = read.iter().map(|item| item.key).collect();
            assert!(keys.is_sorted(), "the order of the keys: {read:?}");
            assert!(keys.len() >= wanted.required, "{wanted:?}: {read:?}");
            assert_eq!(status.is_success(), !found.is_empty(), "{status}");
            for item in self.items.iter().filter(sees) {
                // Another lookup may have taken it.
                let may_miss = item.persistence == Persistence::FirstRead;
                assert!(
                    may_miss || keys.contains(&item.key),
                    "{wanted:?} has not found {item:?}"
                );
            }
            let once = read.iter();
            let once = once.filter(|item| item.persistence == Persistence::FirstRead);
            taken.extend(once.map(|item| item.value));
        }
        let number = taken.len();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), number, "read twice");
        self.items.retain(|item| !taken.contains(&item.value));
        for wanted in &self.wanted {
            let sees = |item: &&Item| wanted.keys.contains(&item.key) && wanted.sees(item);
            let there: BTreeSet<usize> = self
                .items
                .iter()
                .filter(sees)
                .map(|item| item.key)
                .collect();
            assert!(
                there.len() < wanted.required,
                "{wanted:?} waits for {there:?}"
            );
            self.waited += 1;
        }
    }

    fn unpublish(&mut self) {
        let Some((by, _)) = self.cluster.some_proc() else {
            return;
        };
        let all = self.cluster.random.percent(30);
        let keys = if all { Vec::new() } else { self.some_keys() };
        let call = self.cluster.request(&by, unpublish(&key_texts(&keys)));
        self.settle();
        assert_eq!(status_of(&self.cluster, call), Some(code::PMIX_SUCCESS));
        self.items
            .retain(|item| item.by != by || !(keys.is_empty() || keys.contains(&item.key)));
    }

    fn proc_dies(&mut self) {
        if let Some((proc, _)) = self.cluster.some_proc() {
            self.cluster.die(&proc);
            self.settle();
            let is_gone = |item: &Item| item.by == proc && item.persistence == Persistence::Proc;
            self.items.retain(|item| !is_gone(item));
            self.wanted.retain(|wanted| wanted.by != proc);
        }
    }

    /// Ends the part of a job that a server has.
    fn job_ends(&mut self) {
        let Some((proc, server)) = self.cluster.some_proc() else {
            return;
        };
        let nspace = proc.nspace;
        self.cluster
            .step(server, |server, _| server.remove_job(&nspace));
        let is_there = |proc: &Proc, at: ServerId| proc.nspace == nspace && at == server;
        self.cluster
            .peers
            .retain(|proc, (at, _)| !is_there(proc, *at));
        let has_jobs = self.cluster.servers[&server].jobs().next().is_some();
        self.items.retain(|item| {
            let job_ends = is_there(&item.by, item.server)
                && matches!(
                    item.persistence,
                    Persistence::Proc | Persistence::App | Persistence::FirstRead
                );
            let session_ends =
                !has_jobs && item.server == server && item.persistence == Persistence::Session;
            !job_ends && !session_ends
        });
        self.wanted
            .retain(|wanted| !is_there(&wanted.by, wanted.server));
        self.settle();
    }

    fn server_dies(&mut self) {
        let servers: Vec<ServerId> = self.cluster.servers.keys().copied().collect();
        if servers.len() < 2 {
            return;
        }
        // Often the holder.
        let chosen = self.cluster.random.below(servers.len() * 2);
        let server = servers.get(chosen).copied().unwrap_or(servers[0]);
        self.cluster.server_dies(server);
        self.items.retain(|item| item.server != server);
        self.wanted.retain(|wanted| wanted.server != server);
        self.settle();
    }

    fn join(&mut self) {
        if self.cluster.servers.len() < 5 {
            let id = self.cluster.join();
            self.next_job += 1;
            let name = format!("late{}", self.next_job);
            self.cluster.add_job(&name, &[(id.0, &[0, 1])]);
            self.settle();
        }
    }

    fn step(&mut self) {
        match self.cluster.random.below(40) {
            0..12 => self.publish(),
            12..26 => self.look_up(),
            26..30 => self.unpublish(),
            30..33 => self.proc_dies(),
            33 => self.job_ends(),
            34..36 => self.server_dies(),
            36..38 => self.join(),
            _ => {
                // Longer than any lookup waits.
                self.cluster.pass(1_000_000);
                for wanted in std::mem::take(&mut self.wanted) {
                    let status = status_of(&self.cluster, wanted.call);
                    assert_eq!(status, Some(code::PMIX_ERR_TIMEOUT), "{wanted:?}");
                    self.seen.insert(code::PMIX_ERR_TIMEOUT);
                }
            }
        }
        self.compare();
        assert!(
            self.cluster.refused.is_empty(),
            "{:?}",
            self.cluster.refused
        );
        assert!(self.cluster.lost.is_empty(), "{:?}", self.cluster.lost);
    }
}

#[test]
fn published_data_of_servers_agree_with_a_list() {
    let mut seen = BTreeSet::new();
    let mut waited = 0;
    for seed in 0..300 {
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.step();
        }
        seen.extend(world.seen);
        waited += world.waited;
    }
    let expected = [
        code::PMIX_SUCCESS,
        code::PMIX_ERR_DUPLICATE_KEY,
        code::PMIX_ERR_NOT_FOUND,
        code::PMIX_ERR_TIMEOUT,
    ];
    assert_eq!(seen, expected.into());
    assert!(waited > 1_000, "{waited} lookups have waited");
}
