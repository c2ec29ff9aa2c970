//! Fuzzed requests of every command, with wrong types everywhere, never harm the server: it goes
//! on, its memory stays bounded, none of its tasks panics, and two well-behaved clients notice
//! nothing.
//!
//! The requests follow from a seed alone. `PEAL_FUZZ_SEED` and `PEAL_FUZZ_SECONDS` make a long run
//! (`cargo xtask soak`). A failed run prints its seed and the last payloads as hex. Add harmful
//! payloads to `tests/corpus/requests.hex`. Each attack has a process of its own, whose panics and
//! memory are counted.
#[allow(
    dead_code,
    unused_imports,
    reason = "the wire's own tests use the rest"
)]
#[path = "../../../../host/wire/tests/arbitrary/mod.rs"]
mod arbitrary;
mod mutate;
mod valid;

use peal_model::{CommandCode, Proc, Rank, Request, Value, code};
use peal_server::ServerSettings;
use peal_tests::{
    flooded_server::{ATTACKER, FLOOD, FloodedServer, NEWS},
    in_process::Node,
    isolation::isolated,
    raw_client::{Peer, RawClient, hello},
    rng::SplitMix64,
    root,
};
use peal_wire::{BufferType, Codec, DecodeLimits};
use proptest::{
    strategy::{BoxedStrategy, Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::{
    collections::{BTreeSet, HashMap},
    fs,
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Number of ranks. A rank that was lost does not come back.
const SIZE: u32 = 512;
/// Number of attackers at a time.
const ATTACKERS: u32 = 4;
/// Number of requests between two checks of the server.
const BATCH: usize = 32;
/// Number of batches for one server.
const BATCHES: usize = 20;
/// Number of servers that `cargo test` attacks.
const ROUNDS: u64 = 2;
/// Maximum growth of memory by an attack in bytes. It includes the attackers' own memory.
const MEMORY: usize = 256 << 20;

/// Number of panics in any task or thread.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            usual(panic);
        }));
    });
}

/// Returns settings with bounds that an attack soon reaches.
fn settings() -> ServerSettings {
    let core = peal_core::server::StateSettings {
        retention: peal_core::server::RetentionLimits {
            ring_bytes: 1 << 20,
            ..peal_core::server::RetentionLimits::default()
        },
        max_event_bytes: 256 << 10,
        max_put_bytes: 1 << 20,
        max_pending_gets: 64,
        max_registrations: 512,
        ..peal_core::server::StateSettings::default()
    };
    ServerSettings {
        core,
        max_open_requests: 512,
        ..FloodedServer::settings()
    }
}

/// Generator of requests.
struct Maker {
    seeded: SplitMix64,
    runner: TestRunner,
    any: HashMap<CommandCode, BoxedStrategy<Request>>,
    value: BoxedStrategy<Value>,
    /// Encoding of the requests. The server, not the codec, enforces the bounds.
    codec: Codec,
    valid: Vec<Request>,
}

impl Maker {
    fn new(seed: u64, codec: Codec, node: &Node, me: &Proc) -> Maker {
        let seeded = SplitMix64(seed);
        let seed: Vec<u8> = (0..4)
            .flat_map(|at: u64| (seed ^ at << 32).to_le_bytes())
            .collect();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let dialect = codec.dialect;
        let commands = CommandCode::ALL
            .iter()
            .filter(|command| dialect.has_command(**command));
        let any = commands
            .map(|command| (*command, arbitrary::request(dialect, *command)))
            .collect();
        let others: Vec<Proc> = (ATTACKER..ATTACKER + ATTACKERS)
            .map(|rank| node.proc(rank))
            .collect();
        let valid = valid::requests(me, &others);
        let valid = valid
            .into_iter()
            .filter(|request| dialect.has_command(request.command()))
            .collect();
        let unbounded = DecodeLimits {
            max_depth: 1000,
            ..DecodeLimits::default()
        };
        Maker {
            seeded,
            runner: TestRunner::new_with_rng(Config::default(), rng),
            any,
            value: arbitrary::value(dialect),
            codec: Codec {
                limits: unbounded,
                ..codec
            },
            valid,
        }
    }

    fn request(&mut self) -> Request {
        let mut request = self.seeded.one_of(&self.valid).clone();
        // These end an attack, or cost much and test little.
        if matches!(request, Request::Finalize | Request::JobData) && !self.seeded.once_in(8) {
            request = self.valid[1].clone();
        }
        if self.seeded.once_in(4) {
            let any = self.any[&request.command()]
                .new_tree(&mut self.runner)
                .unwrap();
            request = any.current();
        }
        if !self.seeded.once_in(8) {
            let Maker {
                seeded,
                runner,
                value,
                ..
            } = self;
            mutate::typed(&mut request, seeded, &mut || {
                value.new_tree(runner).unwrap().current()
            });
        }
        request
    }

    /// Returns an encoded request, complete or not.
    fn payload(&mut self) -> Vec<u8> {
        loop {
            let request = self.request();
            // A request that cannot be encoded, such as one with a type that the release lacks,
            // cannot be sent.
            let Ok(mut payload) = self.codec.encode_request(&request) else {
                continue;
            };
            if self.seeded.once_in(3) {
                mutate::bytes(&mut payload, &mut self.seeded);
            }
            // The well-behaved clients are registered for these codes.
            match self.codec.decode_request(&payload) {
                Ok(Request::Notify { code, .. }) if [NEWS, FLOOD].contains(&code) => continue,
                _ => return payload,
            }
        }
    }
}

/// Client that sends fuzzed requests.
struct Attacker {
    rank: u32,
    peer: Peer,
    maker: Maker,
    tag: u32,
    /// Requests that were sent and not yet answered.
    open: HashMap<u32, CommandCode>,
    last: Vec<Vec<u8>>,
}

impl Attacker {
    /// Connects with one of the dialects.
    async fn connect(node: &Node, rank: u32, seed: u64) -> Attacker {
        let mut hello = hello(node.proc(rank));
        if seed % 2 == 1 {
            (hello.release, hello.buffer_type) = ("4.2.2".parse().unwrap(), BufferType::Described);
        }
        let peer = RawClient::connect(node)
            .await
            .greet(&hello)
            .await
            .expect("a good handshake is welcome");
        let maker = Maker::new(seed, peer.codec, node, &node.proc(rank));
        Attacker {
            rank,
            peer,
            maker,
            tag: 100,
            open: HashMap::new(),
            last: Vec::new(),
        }
    }

    async fn send(&mut self, payload: Vec<u8>) {
        self.tag += 1;
        let command = self
            .peer
            .codec
            .command_of(&payload)
            .unwrap_or(CommandCode::Finalize);
        if command != CommandCode::DeregisterEvents {
            self.open.insert(self.tag, command);
        }
        self.peer.say(self.tag, payload).await;
    }

    /// Sends many requests, and one with a known answer. Returns true if the server still accepts
    /// requests.
    async fn attack(&mut self) -> bool {
        self.last = (0..BATCH).map(|_| self.maker.payload()).collect();
        for payload in self.last.clone() {
            self.send(payload).await;
        }
        self.is_served().await
    }

    /// Sends a valid request, and reads until it is answered. Returns true if it is.
    async fn is_served(&mut self) -> bool {
        let commit = self
            .peer
            .codec
            .encode_request(&Request::Commit(Vec::new()))
            .unwrap();
        self.send(commit).await;
        loop {
            // Only an invalid request for job data ends the connection.
            let Some(frame) = self.peer.next().await else {
                let garbled = self
                    .open
                    .values()
                    .any(|command| *command == CommandCode::JobData);
                assert!(
                    garbled,
                    "the server has closed the connection of rank {}",
                    self.rank
                );
                return false;
            };
            if frame.tag == peal_wire::Tag::NOTIFY {
                self.peer.codec.decode_event(&frame.payload).unwrap();
                continue;
            }
            let command = self
                .open
                .remove(&frame.tag.0)
                .expect("an answer to a request that is open");
            let reply = self
                .peer
                .codec
                .decode_reply(command, &frame.payload)
                .unwrap();
            if frame.tag.0 == self.tag {
                let left = reply.status() == code::PMIX_ERR_INIT;
                assert!(left || reply.status() == code::PMIX_SUCCESS, "{reply:?}");
                return !left;
            }
        }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for payload in &self.last {
                let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
                eprintln!("rank {} sent {hex}", self.rank);
            }
        }
    }
}

/// Returns the memory of this process in bytes.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    resident
        .trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .unwrap()
        << 10
}

/// Attacks one server.
async fn round(seed: u64) {
    println!("PEAL_FUZZ_SEED={seed}");
    let mut flooded = FloodedServer::of_size(settings(), SIZE).await;
    let mut seeded = SplitMix64(seed);
    let mut next_rank = ATTACKER;
    let mut attackers = Vec::new();
    for _ in 0..ATTACKERS {
        attackers.push(Attacker::connect(&flooded.node, next_rank, seeded.number()).await);
        next_rank += 1;
    }
    flooded.is_withstood().await;
    let before = memory();
    for _ in 0..BATCHES {
        let [first, second, third, fourth] = attackers.as_mut_slice() else {
            panic!("there are four")
        };
        let (served, ()) = tokio::join!(
            async {
                tokio::join!(
                    first.attack(),
                    second.attack(),
                    third.attack(),
                    fourth.attack()
                )
            },
            flooded.is_withstood(),
        );
        let served: [bool; ATTACKERS as usize] = served.into();
        for (attacker, served) in attackers.iter_mut().zip(served) {
            if !served || seeded.once_in(20) {
                // Another rank connects, after the old one was lost or finalized with requests
                // still open.
                *attacker = Attacker::connect(&flooded.node, next_rank, seeded.number()).await;
                next_rank += 1;
            }
        }
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < MEMORY, "{} MiB more are taken", grown >> 20);
    assert!(flooded.malformed() > 0);

    for attacker in &mut attackers {
        attacker.open.clear();
        attacker.tag += 1;
        let finalize = attacker
            .peer
            .codec
            .encode_request(&Request::Finalize)
            .unwrap();
        attacker.send(finalize).await;
        let end = attacker.tag;
        let status = loop {
            let frame = attacker
                .peer
                .next()
                .await
                .expect("the connection is still there");
            if frame.tag.0 == end {
                break attacker
                    .peer
                    .codec
                    .decode_reply(CommandCode::Finalize, &frame.payload)
                    .unwrap()
                    .status();
            }
        };
        assert_eq!(status, code::PMIX_SUCCESS);
    }
    let newcomer = flooded.node.client(next_rank).await;
    newcomer.fence(&[newcomer.me().clone()], &[]).await.unwrap();
    newcomer.finalize().await.unwrap();
    flooded.is_withstood().await;
    flooded.end().await;
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "a task has panicked");
}

/// Runs an attack to its end, with as many threads as there are cores.
fn run_in_runtime(attack: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(attack);
}

#[test]
fn fuzzed_requests_leave_server_and_clients_unharmed() {
    isolated(
        module_path!(),
        "fuzzed_requests_leave_server_and_clients_unharmed",
        || run_in_runtime(attack_by_seeds()),
    );
}

async fn attack_by_seeds() {
    count_panics();
    let variable = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect(name))
    };
    let first = variable("PEAL_FUZZ_SEED").unwrap_or(1);
    let start = Instant::now();
    let seconds = variable("PEAL_FUZZ_SECONDS").map(Duration::from_secs);
    let goes_on =
        |seed: &u64| seconds.map_or(*seed < first + ROUNDS, |seconds| start.elapsed() < seconds);
    for seed in (first..).take_while(goes_on) {
        round(seed).await;
    }
}

#[test]
fn corpus_of_harmful_requests_is_harmless() {
    isolated(
        module_path!(),
        "corpus_of_harmful_requests_is_harmless",
        || run_in_runtime(attack_by_corpus()),
    );
}

async fn attack_by_corpus() {
    count_panics();
    let corpus = fs::read_to_string(root().join("tests/corpus/requests.hex")).unwrap();
    let lines: Vec<&str> = corpus
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .collect();
    assert!(!lines.is_empty());
    let mut flooded = FloodedServer::of_size(settings(), SIZE).await;
    for (rank, line) in (ATTACKER..).zip(lines) {
        let payload: Vec<u8> = (0..line.len() / 2)
            .map(|at| u8::from_str_radix(&line[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        let mut attacker = Attacker::connect(&flooded.node, rank, 0).await;
        attacker.last.push(payload.clone());
        attacker.send(payload).await;
        attacker.is_served().await;
        flooded.is_withstood().await;
    }
    flooded.end().await;
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "a task has panicked");
}

#[test]
fn every_command_is_fuzzed() {
    let me = Proc::new(peal_model::Nspace::new("job").unwrap(), Rank(0));
    let fuzzed: BTreeSet<CommandCode> = valid::requests(&me, std::slice::from_ref(&me))
        .iter()
        .map(Request::command)
        .collect();
    assert_eq!(fuzzed, CommandCode::ALL.iter().copied().collect());
}
