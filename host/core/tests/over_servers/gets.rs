//! Gets of values of procs on other servers, compared with a list of what each proc has put.
use super::cluster::{Cluster, status};
use peal_core::{group::ServerId, server::StateSettings};
use peal_model::{
    Commit, Info, KeyName, Kval, Nspace, Proc, Rank, RankData, Request, Scope, Value, code, key,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

const SERVERS: u32 = 3;

const KEYS: [KeyName; 3] = [KeyName("test.a"), KeyName("test.b"), KeyName("test.c")];

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// A get that was made.
struct Made {
    call: usize,
    of: u32,
    key: usize,
    at: u64,
    timeout: u64,
    /// The server of the requester.
    from: ServerId,
}

/// Procs that put and get.
struct Getting {
    cluster: Cluster,
    homes: BTreeMap<u32, ServerId>,
    /// The values that each proc has put under each key for procs of other nodes, in order.
    put: BTreeMap<(u32, usize), Vec<u32>>,
    /// Keys under which a proc has put values for its own node.
    put_for_node: BTreeSet<(u32, usize)>,
    made: Vec<Made>,
    /// The number of gets that were looked at, with the number of their answers.
    seen: BTreeSet<usize>,
}

impl Getting {
    fn new(seed: u64) -> Getting {
        let settings = StateSettings {
            get_timeout: Duration::from_secs(2),
            ..StateSettings::default()
        };
        let mut cluster = Cluster::new(SERVERS, seed, &settings);
        let placement: [(u32, &[u32]); 3] = [(1, &[0, 3]), (2, &[1, 4]), (3, &[2, 5])];
        cluster.add_job("job", &placement);
        cluster.copied = 25;
        let homes = placement
            .iter()
            .flat_map(|(server, ranks)| ranks.iter().map(|rank| (*rank, ServerId(*server))));
        Getting {
            cluster,
            homes: homes.collect(),
            put: BTreeMap::new(),
            put_for_node: BTreeSet::new(),
            made: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    fn lives(&self, rank: u32) -> bool {
        self.cluster.peers.contains_key(&proc(rank))
    }

    fn put(&mut self, rank: u32, key: usize) {
        if !self.lives(rank) {
            return;
        }
        let is_for_node = self.cluster.random.percent(20);
        let values = self.put.entry((rank, key)).or_default();
        let value = u32::try_from(values.len()).unwrap();
        let scope = if is_for_node {
            self.put_for_node.insert((rank, key));
            Scope::Local
        } else {
            values.push(value);
            Scope::Remote
        };
        let kvals = vec![Kval::new(KEYS[key], Value::Uint32(value))];
        let commit = Commit { scope, kvals };
        self.cluster
            .request(&proc(rank), Request::Commit(vec![commit]));
        self.check();
    }

    fn get(&mut self, rank: u32, of: u32, key: usize) {
        if !self.lives(rank) || self.homes[&rank] == self.homes[&of] {
            return;
        }
        let timeout = self.cluster.random.percent(50).then_some(5);
        let infos = timeout.map(|seconds| Info::new(key::PMIX_TIMEOUT, Value::Int(seconds)));
        let get = Request::Get {
            proc: proc(of),
            key: Some(KEYS[key].0.into()),
            infos: infos.into_iter().collect(),
        };
        let call = self.cluster.request(&proc(rank), get);
        self.made.push(Made {
            call,
            of,
            key,
            at: self.cluster.now,
            timeout: timeout.map_or(2_000, |_| 5_000),
            from: self.homes[&rank],
        });
        self.check();
    }

    /// Checks the answers that have come since the last look.
    fn check(&mut self) {
        for (number, made) in self.made.iter().enumerate() {
            let answers = &self.cluster.calls[made.call].answers;
            assert!(answers.len() < 2, "answered twice: {answers:?}");
            let Some(answer) = answers.first() else {
                continue;
            };
            if !self.seen.insert(number) {
                continue;
            }
            let put = self.put.get(&(made.of, made.key)).cloned();
            let put = put.unwrap_or_default();
            match status(answer) {
                code::PMIX_SUCCESS => {
                    let value = value(&self.cluster.data_of(made.call), KEYS[made.key]);
                    assert!(
                        value.is_some_and(|value| put.contains(&value)),
                        "{value:?} was never put for others: {put:?}"
                    );
                }
                code::PMIX_ERR_NOT_FOUND => assert!(
                    !self.lives(made.of) || self.put_for_node.contains(&(made.of, made.key)),
                    "rank {} lives and may still put the value",
                    made.of
                ),
                code::PMIX_ERR_TIMEOUT => {
                    let waited = self.cluster.now - made.at;
                    assert!(waited >= made.timeout, "after {waited} ms");
                    // All that was sent has arrived since.
                    assert!(
                        self.lives(made.of) && put.is_empty(),
                        "a value of {} that was put, or that cannot come, is not told",
                        made.of
                    );
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }
}

fn value(data: &[RankData], key: KeyName) -> Option<u32> {
    let mut kvals = data.iter().flat_map(|data| &data.kvals);
    kvals.find(|kval| kval.key == key)?.value.as_u32()
}

#[test]
fn remote_gets_agree_with_what_procs_have_put() {
    for seed in 0..300 {
        let mut getting = Getting::new(seed);
        for _ in 0..80 {
            let below = |getting: &mut Getting, most: usize| {
                u32::try_from(getting.cluster.random.below(most)).unwrap()
            };
            let rank = below(&mut getting, 6);
            let key = getting.cluster.random.below(3);
            match getting.cluster.random.below(40) {
                0..=9 => getting.put(rank, key),
                10..=29 => {
                    let of = below(&mut getting, 6);
                    getting.get(rank, of, key);
                }
                30 => getting.cluster.die(&proc(rank)),
                31 if getting.cluster.servers.len() > 1 && getting.cluster.random.percent(30) => {
                    let server = ServerId(1 + below(&mut getting, SERVERS as usize));
                    // A server is lost with its procs, which it has announced before.
                    getting.cluster.deliver_all();
                    getting.cluster.server_dies(server);
                }
                32 => getting.cluster.pass(700),
                _ => getting.cluster.deliver_some(5),
            }
            getting.check();
        }
        getting.cluster.pass(10_000);
        getting.check();
        for made in &getting.made {
            let is_there = getting.cluster.servers.contains_key(&made.from);
            let call = &getting.cluster.calls[made.call];
            let lives = getting.cluster.peers.contains_key(&call.proc);
            assert!(
                !is_there || !lives || call.answers.len() == 1,
                "seed {seed}: a get of {} is not answered",
                made.of
            );
        }
        for server in getting.cluster.servers.values() {
            assert_eq!(server.deadline(), None, "seed {seed}: something is left");
        }
    }
}

#[test]
fn get_waits_at_server_of_proc_until_value_is_put() {
    let mut getting = Getting::new(1);
    getting.cluster.copied = 0;
    getting.cluster.deliver_all();
    getting.get(0, 1, 0);
    getting.get(3, 1, 0);
    getting.cluster.deliver_all();
    let before = getting.cluster.sent;
    let kvals = vec![Kval::new(KEYS[1], Value::Uint32(0))];
    let other = Commit {
        scope: Scope::Remote,
        kvals,
    };
    // Another value is no answer.
    getting
        .cluster
        .request(&proc(1), Request::Commit(vec![other]));
    assert_eq!(getting.cluster.sent, before);
    let kvals = vec![Kval::new(KEYS[0], Value::Uint32(7))];
    let sought = Commit {
        scope: Scope::Remote,
        kvals,
    };
    getting
        .cluster
        .request(&proc(1), Request::Commit(vec![sought]));
    // One answer for both gets: they have asked for the same.
    assert_eq!(getting.cluster.sent, before + 1);
    getting.cluster.deliver_all();
    for made in &getting.made {
        let data = getting.cluster.data_of(made.call);
        assert_eq!(value(&data, KEYS[0]), Some(7));
    }
}
