//! Fences over servers, compared with a count of calls: no fence of a set is over before each of its procs has called it as often.
use super::cluster::Cluster;
use peal_core::{group::ServerId, server::StateSettings};
use peal_model::{
    Commit, Info, KeyName, Kval, Nspace, Proc, Rank, Request, Scope, Status, Value, code, key,
};
use std::collections::BTreeMap;

const SERVERS: u32 = 4;

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

fn proc(rank: u32) -> Proc {
    Proc::new(nspace(), Rank(rank))
}

/// Key of the number of fences of a set that a proc has called.
const COUNTS: [KeyName; 4] = [
    KeyName("test.a"),
    KeyName("test.b"),
    KeyName("test.c"),
    KeyName("test.d"),
];

/// Sets of procs that fence again and again, and the calls.
struct Fencing {
    cluster: Cluster,
    /// The sets as they are named, and their ranks.
    sets: Vec<(Vec<Proc>, Vec<u32>)>,
    /// The calls of each set by each rank, in order.
    made: BTreeMap<(usize, u32), Vec<usize>>,
    /// Those that were answered at the last look.
    seen: usize,
}

impl Fencing {
    /// Creates a job of eight procs over four servers. The sets overlap, and two of them have the
    /// same procs under two names.
    fn new(seed: u64) -> Fencing {
        let mut cluster = Cluster::new(SERVERS, seed, &StateSettings::default());
        cluster.add_job(
            "job",
            &[(1, &[0, 1]), (2, &[2, 3, 4]), (3, &[5]), (4, &[6, 7])],
        );
        let named = |ranks: &[u32]| ranks.iter().map(|rank| proc(*rank)).collect::<Vec<Proc>>();
        let all: Vec<u32> = (0..8).collect();
        let sets = vec![
            (vec![Proc::all(nspace())], all.clone()),
            (named(&all), all),
            (named(&[1, 2, 5]), vec![1, 2, 5]),
            (named(&[2, 3, 4, 6]), vec![2, 3, 4, 6]),
        ];
        cluster.copied = 25;
        Fencing {
            cluster,
            sets,
            made: BTreeMap::new(),
            seen: 0,
        }
    }

    fn lives(&self, rank: u32) -> bool {
        self.cluster.peers.contains_key(&proc(rank))
    }

    /// Calls a fence of a set, after a commit of the number of the call.
    fn call(&mut self, set: usize, rank: u32, timeout: Option<u32>) {
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

    fn calls_of(&self, set: usize, rank: u32) -> &[usize] {
        self.made.get(&(set, rank)).map_or(&[], Vec::as_slice)
    }

    /// Checks all calls: those that succeeded, each proc of the set has made.
    fn check(&mut self) {
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

    fn status(&self, call: usize) -> Option<Status> {
        self.cluster.calls[call].status()
    }
}

#[test]
fn fences_equal_the_counts_of_their_calls() {
    for seed in 0..150 {
        let mut fencing = Fencing::new(seed);
        for _ in 0..150 {
            let set = fencing.cluster.random.below(fencing.sets.len());
            let ranks = fencing.sets[set].1.clone();
            let rank = ranks[fencing.cluster.random.below(ranks.len())];
            let pending = fencing.calls_of(set, rank).iter();
            let pending = pending.filter(|call| fencing.status(**call).is_none());
            // A proc may call again before it is answered.
            if pending.count() < 3 {
                fencing.call(set, rank, None);
            }
            fencing.cluster.deliver_some(6);
            fencing.check();
        }
        fencing.cluster.pass(5_000);
        fencing.check();
        for (set, (_, ranks)) in fencing.sets.iter().enumerate() {
            let counts = ranks.iter().map(|rank| fencing.calls_of(set, *rank).len());
            let over = counts.min().unwrap();
            for rank in ranks {
                for (n, call) in fencing.calls_of(set, *rank).iter().enumerate() {
                    let expected = (n < over).then_some(code::PMIX_SUCCESS);
                    assert_eq!(
                        fencing.status(*call),
                        expected,
                        "seed {seed}: fence {n} of set {set}, rank {rank}, of {over}"
                    );
                }
            }
        }
        assert_eq!(fencing.cluster.refused, [], "seed {seed}");
    }
}

#[test]
fn fences_end_once_although_procs_and_servers_die() {
    for seed in 0..200 {
        let mut fencing = Fencing::new(seed);
        // Nobody could tell the procs of a server that is lost before it has announced them.
        fencing.cluster.deliver_all();
        for round in 0..6 {
            for set in 0..fencing.sets.len() {
                let mut ranks = fencing.sets[set].1.clone();
                fencing.cluster.random.shuffle(&mut ranks);
                for rank in ranks {
                    fencing.call(set, rank, None);
                    fencing.cluster.deliver_some(4);
                    match fencing.cluster.random.below(60) {
                        0 => {
                            let rank = fencing.cluster.random.below(8);
                            fencing.cluster.die(&proc(u32::try_from(rank).unwrap()));
                        }
                        1 => {
                            let number = 1 + fencing.cluster.random.below(SERVERS as usize);
                            let server = ServerId(u32::try_from(number).unwrap());
                            if fencing.cluster.servers.len() > 1 {
                                fencing.cluster.server_dies(server);
                            }
                        }
                        _ => {}
                    }
                }
            }
            fencing.cluster.pass(3_000);
            fencing.check();
            for (number, call) in fencing.cluster.calls.iter().enumerate() {
                let lives = fencing.cluster.peers.contains_key(&call.proc);
                assert!(
                    !lives || call.status().is_some(),
                    "seed {seed}, round {round}: call {number} is not answered: {call:?}"
                );
            }
        }
    }
}

#[test]
fn fences_after_timeouts_meet_again_in_step() {
    for seed in 0..200 {
        let mut fencing = Fencing::new(seed);
        for round in 0..6 {
            // Some do not call in time, or call more than once.
            for _ in 0..10 {
                let set = fencing.cluster.random.below(fencing.sets.len());
                let ranks = fencing.sets[set].1.clone();
                let rank = ranks[fencing.cluster.random.below(ranks.len())];
                fencing.call(set, rank, Some(1 + u32::try_from(set).unwrap()));
                fencing.cluster.deliver_some(5);
            }
            fencing.cluster.pass(10_000);
            let pending = fencing.cluster.calls.iter();
            let pending: Vec<_> = pending.filter(|call| call.status().is_none()).collect();
            assert!(
                pending.is_empty(),
                "seed {seed}, round {round}: {pending:?}"
            );
            // Then all call once, and meet.
            let first = fencing.cluster.calls.len();
            for set in 0..fencing.sets.len() {
                for rank in fencing.sets[set].1.clone() {
                    fencing.call(set, rank, None);
                    fencing.cluster.deliver_some(3);
                }
            }
            fencing.cluster.pass(1_000);
            for call in &fencing.cluster.calls[first..] {
                assert_eq!(
                    call.status(),
                    Some(code::PMIX_SUCCESS),
                    "seed {seed}, round {round}: {call:?}"
                );
            }
        }
    }
}

#[test]
fn fence_costs_two_messages_for_each_other_server() {
    let mut fencing = Fencing::new(1);
    fencing.cluster.copied = 0;
    fencing.cluster.deliver_all();
    fencing.cluster.sent = 0;
    for rank in 0..8 {
        fencing.call(0, rank, None);
    }
    fencing.cluster.deliver_all();
    fencing.check();
    assert_eq!(fencing.cluster.sent, 2 * (SERVERS as usize - 1));
}
