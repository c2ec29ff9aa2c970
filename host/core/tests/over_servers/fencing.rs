//! Procs over servers that fence again and again, and a count of their calls.
use super::cluster::Cluster;
use peal_core::server::StateSettings;
use peal_model::{
    Commit, Info, KeyName, Kval, Nspace, Proc, Rank, Request, Scope, Status, Value, code, key,
};
use std::collections::{BTreeMap, BTreeSet};

pub const SERVERS: u32 = 8;
pub const PROCS: u32 = 12;

/// The ranks of each server.
pub const PLACEMENT: [(u32, &[u32]); 8] = [
    (1, &[0, 1]),
    (2, &[2, 3, 4]),
    (3, &[5]),
    (4, &[6, 7]),
    (5, &[8]),
    (6, &[9]),
    (7, &[10]),
    (8, &[11]),
];

/// Fan-outs of the tree of a fence: with 32 all servers are below the root, with 2 they are on four
/// levels and with 3 on three, with 1 one below the other.
pub const FAN_OUTS: [usize; 4] = [32, 2, 3, 1];

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

pub fn proc(rank: u32) -> Proc {
    Proc::new(nspace(), Rank(rank))
}

/// Key of the number of fences of a set that a proc has called.
const COUNTS: [KeyName; 5] = [
    KeyName("test.a"),
    KeyName("test.b"),
    KeyName("test.c"),
    KeyName("test.d"),
    KeyName("test.e"),
];

/// Sets of procs that fence again and again, and the calls.
pub struct Fencing {
    pub cluster: Cluster,
    /// The sets as they are named, and their ranks.
    pub sets: Vec<(Vec<Proc>, Vec<u32>)>,
    /// The calls of each set by each rank, in order.
    made: BTreeMap<(usize, u32), Vec<usize>>,
    /// Those that were answered at the last look.
    seen: usize,
}

impl Fencing {
    /// Creates a job over all servers. The sets overlap, and two of them have the same procs under two
    /// names. The seed chooses the fan-out, too.
    pub fn new(seed: u64) -> Fencing {
        let fan_out = FAN_OUTS[usize::try_from(seed).unwrap() % FAN_OUTS.len()];
        Fencing::with_fan_out(fan_out, seed)
    }

    pub fn with_fan_out(fan_out: usize, seed: u64) -> Fencing {
        let settings = StateSettings {
            fence_fan_out: fan_out,
            ..StateSettings::default()
        };
        let mut cluster = Cluster::new(SERVERS, seed, &settings);
        cluster.add_job("job", &PLACEMENT);
        let named = |ranks: &[u32]| ranks.iter().map(|rank| proc(*rank)).collect::<Vec<Proc>>();
        let all: Vec<u32> = (0..PROCS).collect();
        let sets = vec![
            (vec![Proc::all(nspace())], all.clone()),
            (named(&all), all),
            (named(&[1, 2, 5]), vec![1, 2, 5]),
            (named(&[2, 3, 4, 6]), vec![2, 3, 4, 6]),
            (named(&[4, 5, 8, 9, 10, 11]), vec![4, 5, 8, 9, 10, 11]),
        ];
        cluster.copied = 25;
        Fencing {
            cluster,
            sets,
            made: BTreeMap::new(),
            seen: 0,
        }
    }

    pub fn lives(&self, rank: u32) -> bool {
        self.cluster.peers.contains_key(&proc(rank))
    }

    /// Calls a fence of a set, after a commit of the number of the call.
    pub fn call(&mut self, set: usize, rank: u32, timeout: Option<u32>) {
        if !self.lives(rank) {
            return;
        }
        let made = self.made.entry((set, rank)).or_default();
        let number = u32::try_from(made.len() + 1).unwrap();
        let kvals = vec![Kval::new(COUNTS[set], Value::Uint32(number))];
        let commit = Commit {
            scope: Scope::Remote,
            kvals,
        };
        self.cluster
            .request(&proc(rank), Request::Commit(vec![commit]));
        let mut infos = vec![Info::new(key::PMIX_COLLECT_DATA, Value::Bool(true))];
        infos.extend(timeout.map(|seconds| {
            Info::new(
                key::PMIX_TIMEOUT,
                Value::Int(i32::try_from(seconds).unwrap()),
            )
        }));
        let fence = Request::Fence {
            procs: self.sets[set].0.clone(),
            infos,
        };
        let call = self.cluster.request(&proc(rank), fence);
        self.made.get_mut(&(set, rank)).unwrap().push(call);
    }

    pub fn calls_of(&self, set: usize, rank: u32) -> &[usize] {
        self.made.get(&(set, rank)).map_or(&[], Vec::as_slice)
    }

    /// Checks all calls: those that succeeded, each proc of the set has made.
    pub fn check(&mut self) {
        let mut answered = 0;
        let sets: Vec<(usize, Vec<u32>)> = (0..self.sets.len())
            .map(|set| (set, self.sets[set].1.clone()))
            .collect();
        let mut fresh = Vec::new();
        for (set, ranks) in &sets {
            for rank in ranks {
                for (n, call) in self.calls_of(*set, *rank).iter().enumerate() {
                    let status = self.cluster.calls[*call].status();
                    answered += usize::from(status.is_some());
                    if status != Some(code::PMIX_SUCCESS) {
                        continue;
                    }
                    for other in ranks {
                        assert!(
                            self.calls_of(*set, *other).len() > n,
                            "fence {n} of set {set} is over for {rank} without {other}"
                        );
                    }
                    fresh.push((*set, *rank, n, ranks.clone()));
                }
            }
        }
        if answered == self.seen {
            return;
        }
        self.seen = answered;
        for (set, rank, n, ranks) in fresh {
            self.check_values(set, rank, n, &ranks);
        }
    }

    /// Checks that a proc sees what procs of other servers put before the fence.
    fn check_values(&mut self, set: usize, rank: u32, n: usize, ranks: &[u32]) {
        let Some((home, _)) = self.cluster.peers.get(&proc(rank)).copied() else {
            return;
        };
        for other in ranks {
            let at = self.cluster.peers.get(&proc(*other)).map(|peer| peer.0);
            if at.is_none_or(|at| at == home) {
                continue;
            }
            let get = Request::Get {
                proc: proc(*other),
                key: Some(COUNTS[set].0.into()),
                infos: vec![Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))],
            };
            let call = self.cluster.request(&proc(rank), get);
            let data = self.cluster.data_of(call);
            let value = data.iter().flat_map(|data| &data.kvals);
            let mut value = value.filter(|kval| kval.key == COUNTS[set]);
            let count = value.next().and_then(|kval| kval.value.as_u32());
            assert!(
                count > Some(u32::try_from(n).unwrap()),
                "{rank} sees {count:?} of {other} after fence {n} of set {set}"
            );
        }
    }

    /// Checks that all living procs of a set got the same answer to the same call.
    pub fn check_alike(&self, seed: u64) {
        for (set, (_, ranks)) in self.sets.iter().enumerate() {
            let living: Vec<u32> = ranks.iter().copied().filter(|r| self.lives(*r)).collect();
            let most = living.iter().map(|rank| self.calls_of(set, *rank).len());
            for n in 0..most.max().unwrap_or(0) {
                let calls = living.iter().map(|rank| self.calls_of(set, *rank).get(n));
                let answers: BTreeSet<Option<Status>> =
                    calls.map(|call| self.status(*call?)).collect();
                assert!(
                    answers.len() < 2,
                    "seed {seed}: fence {n} of set {set} ended as {answers:?}"
                );
            }
        }
    }

    pub fn status(&self, call: usize) -> Option<Status> {
        self.cluster.calls[call].status()
    }
}
