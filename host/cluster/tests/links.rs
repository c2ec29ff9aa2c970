//! Links over a network that loses, repeats, delays and reorders frames, beside the plain lists of what
//! was sent.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_cluster::{
    FrameContents, LinkOutput, LinkSettings, LinkStream, Links, MessageRange, MessageSeq,
    Recipient, ServerFrame, StreamLimits, UnknownServer,
};
use peal_core::{MonotonicTime, group::ServerId};
use peal_frames::FrameLimit;
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Maximum number of servers.
const SERVERS: u32 = 4;

/// Longest delay of a frame, in milliseconds.
const MAX_DELAY: u64 = 700;

/// Time after which everything has settled in a network that loses nothing any more, in milliseconds.
const SETTLED: u64 = 120_000;

/// Numbers that depend on a seed alone.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A step of a case, after a pause in milliseconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Send(u32, u32),
    SendToAll(u32),
    Pause(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Join),
        6 => (0..SERVERS, 0..SERVERS).prop_map(|(from, to)| Step::Send(from, to)),
        6 => (0..SERVERS).prop_map(Step::SendToAll),
        3 => (0..2_000_u64).prop_map(Step::Pause),
    ]
}

type Way = (ServerId, ServerId, LinkStream);

/// Servers, the frames between them, and what was sent and delivered.
struct Network {
    now: u64,
    servers: BTreeMap<ServerId, Links>,
    settings: LinkSettings,
    /// Encoded frames by the time of their arrival.
    frames: BTreeMap<(u64, u64), (ServerId, Vec<u8>)>,
    frame_count: u64,
    numbers: Numbers,
    /// Share of frames in percent that are lost, and as many that are repeated.
    faults: u64,
    sent: BTreeMap<Way, Vec<u64>>,
    delivered: BTreeMap<Way, Vec<u64>>,
    lost: BTreeMap<Way, u64>,
    next: u64,
}

impl Network {
    fn new(seed: u64, faults: u64, settings: LinkSettings) -> Network {
        Network {
            now: 0,
            servers: BTreeMap::new(),
            settings,
            frames: BTreeMap::new(),
            frame_count: 0,
            numbers: Numbers(seed),
            faults,
            sent: BTreeMap::new(),
            delivered: BTreeMap::new(),
            lost: BTreeMap::new(),
            next: 0,
        }
    }

    fn join(&mut self) {
        let id = ServerId(u32::try_from(self.servers.len()).unwrap() + 1);
        if id.0 > SERVERS {
            return;
        }
        let mut joined = Links::new(id, self.settings);
        for (other, links) in &mut self.servers {
            links.join(id, MonotonicTime(self.now));
            joined.join(*other, MonotonicTime(self.now));
        }
        self.servers.insert(id, joined);
        self.collect();
    }

    fn server(&self, number: u32) -> Option<ServerId> {
        let count = u32::try_from(self.servers.len()).unwrap();
        (count > 0).then(|| ServerId(number % count + 1))
    }

    fn message(&mut self) -> (u64, Arc<[u8]>) {
        self.next += 1;
        (self.next, Arc::from(self.next.to_le_bytes()))
    }

    fn run(&mut self, step: Step) {
        let now = MonotonicTime(self.now);
        match step {
            Step::Join => self.join(),
            Step::Send(from, to) => {
                let (Some(from), Some(to)) = (self.server(from), self.server(to)) else {
                    return;
                };
                let (number, body) = self.message();
                let sent = self.servers.get_mut(&from).unwrap().send(to, body, now);
                if from != to && sent.is_ok() {
                    let way = (from, to, LinkStream::Pair);
                    self.sent.entry(way).or_default().push(number);
                }
            }
            Step::SendToAll(from) => {
                let Some(from) = self.server(from) else {
                    return;
                };
                let (number, body) = self.message();
                self.servers.get_mut(&from).unwrap().send_to_all(body, now);
                for to in self.servers.keys().filter(|to| **to != from) {
                    let way = (from, *to, LinkStream::All);
                    self.sent.entry(way).or_default().push(number);
                }
            }
            Step::Pause(millis) => return self.pass(millis),
        }
        self.collect();
    }

    /// Gives the outputs of all servers to the network.
    fn collect(&mut self) {
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in &ids {
            while let Some(output) = self.servers.get_mut(id).unwrap().next_output() {
                match output {
                    LinkOutput::Transmit { to, frame } => {
                        let bytes = frame.encode(FrameLimit::default()).unwrap();
                        for other in ids.iter().filter(|other| *other != id) {
                            if to == Recipient::All || to == Recipient::One(*other) {
                                self.carry(*other, &bytes);
                            }
                        }
                    }
                    LinkOutput::Deliver { from, stream, body } => {
                        let number = u64::from_le_bytes((*body).try_into().unwrap());
                        let way = (from, *id, stream);
                        self.delivered.entry(way).or_default().push(number);
                    }
                    LinkOutput::Lost {
                        from,
                        stream,
                        count,
                    } => {
                        *self.lost.entry((from, *id, stream)).or_default() += count;
                    }
                }
            }
        }
    }

    fn carry(&mut self, to: ServerId, bytes: &[u8]) {
        let fate = self.numbers.below(100);
        let copies = match fate {
            fate if fate < self.faults => 0,
            fate if fate < 2 * self.faults => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let at = self.now + 1 + self.numbers.below(MAX_DELAY);
            self.frame_count += 1;
            self.frames
                .insert((at, self.frame_count), (to, bytes.to_vec()));
        }
    }

    /// Lets time pass.
    fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        loop {
            let frame = self.frames.first_key_value().map(|((at, _), _)| *at);
            let due = self.servers.values().filter_map(Links::due_at).min();
            let next = frame.into_iter().chain(due.map(|at| at.0)).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            let now = MonotonicTime(self.now);
            while let Some(first) = self.frames.first_entry()
                && first.key().0 <= self.now
            {
                let (to, bytes) = first.remove();
                let frame = ServerFrame::decode(&bytes, FrameLimit::default()).unwrap();
                self.servers
                    .get_mut(&to)
                    .unwrap()
                    .receive(frame, now)
                    .unwrap();
            }
            self.servers
                .values_mut()
                .for_each(|links| links.elapse(now));
            self.collect();
        }
        self.now = end;
    }

    /// Lets everything arrive.
    fn settle(&mut self) {
        self.faults = 0;
        self.pass(SETTLED);
        assert!(self.frames.is_empty(), "frames go on for ever");
        for (id, links) in &self.servers {
            assert_eq!(links.due_at(), None, "{id:?} waits for something for ever");
        }
    }
}

fn settings(history: usize) -> LinkSettings {
    let mut settings = LinkSettings::default();
    settings.history.max_messages = history;
    settings.early.max_messages = 8;
    settings.acknowledge_each = 3;
    settings
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
    ))]

    /// With room for all messages nothing is lost, whatever the network does.
    #[test]
    fn messages_arrive_once_and_in_order(
        seed: u64,
        faults in 0..45_u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut network = Network::new(seed, faults, settings(1000));
        network.join();
        network.join();
        steps.into_iter().for_each(|step| network.run(step));
        network.settle();
        prop_assert_eq!(network.delivered, network.sent);
        prop_assert_eq!(network.lost, BTreeMap::new());
    }

    /// A sender that keeps little loses messages to all. They are counted, and the others keep their
    /// order.
    #[test]
    fn messages_that_are_not_kept_are_counted(
        seed: u64,
        history in 1..6_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut network = Network::new(seed, 40, settings(history));
        network.join();
        network.join();
        steps.into_iter().for_each(|step| network.run(step));
        network.settle();
        for (way, sent) in &network.sent {
            let empty = Vec::new();
            let delivered = network.delivered.get(way).unwrap_or(&empty);
            let lost = network.lost.get(way).copied().unwrap_or_default();
            prop_assert!(delivered.is_sorted_by(|one, next| one < next), "{:?}", delivered);
            prop_assert!(delivered.iter().all(|number| sent.contains(number)));
            prop_assert_eq!(delivered.len() as u64 + lost, sent.len() as u64, "{:?}", way);
            if way.2 == LinkStream::Pair {
                prop_assert_eq!(delivered, sent);
            }
        }
    }
}

const ONE: ServerId = ServerId(1);
const TWO: ServerId = ServerId(2);

fn body(len: usize) -> Arc<[u8]> {
    Arc::from(vec![0; len])
}

fn frame(contents: FrameContents) -> ServerFrame {
    ServerFrame {
        from: TWO,
        contents,
    }
}

fn outputs(links: &mut Links) -> Vec<LinkOutput> {
    std::iter::from_fn(|| links.next_output()).collect()
}

#[test]
fn window_of_unacknowledged_messages_is_bounded() {
    let settings = LinkSettings {
        window: StreamLimits {
            max_messages: 3,
            max_bytes: 100,
        },
        ..LinkSettings::default()
    };
    let mut links = Links::new(ONE, settings);
    let now = MonotonicTime(0);
    links.join(TWO, now);
    links.send(TWO, body(60), now).unwrap();
    let full = links.send(TWO, body(60), now).unwrap_err();
    assert_eq!((full.messages, full.bytes), (1, 60));
    links.send(TWO, body(1), now).unwrap();
    links.send(TWO, body(1), now).unwrap();
    links.send(TWO, body(1), now).unwrap_err();
    let through = MessageSeq(2);
    links
        .receive(
            frame(FrameContents::Acknowledge {
                stream: LinkStream::Pair,
                through,
            }),
            now,
        )
        .unwrap();
    links.send(TWO, body(60), now).unwrap();
    // An acknowledgement of messages that were never sent changes nothing.
    let through = MessageSeq(u64::MAX);
    links
        .receive(
            frame(FrameContents::Acknowledge {
                stream: LinkStream::Pair,
                through,
            }),
            now,
        )
        .unwrap();
    links.send(TWO, body(60), now).unwrap_err();
}

#[test]
fn early_messages_take_bounded_room() {
    let settings = LinkSettings {
        early: StreamLimits {
            max_messages: 5,
            max_bytes: 1000,
        },
        ..LinkSettings::default()
    };
    let mut links = Links::new(ONE, settings);
    let now = MonotonicTime(0);
    links.join(TWO, now);
    let message = |seq| FrameContents::Message {
        stream: LinkStream::Pair,
        seq: MessageSeq(seq),
        body: body(10),
    };
    (2..100).for_each(|seq| links.receive(frame(message(seq)), now).unwrap());
    links.receive(frame(message(u64::MAX)), now).unwrap();
    links.receive(frame(message(1)), now).unwrap();
    let is_delivery = |output: &LinkOutput| matches!(output, LinkOutput::Deliver { .. });
    assert_eq!(
        outputs(&mut links)
            .iter()
            .filter(|output| is_delivery(output))
            .count(),
        6
    );
}

#[test]
fn peer_that_asks_again_and_again_gets_bounded_answers() {
    let mut links = Links::new(ONE, LinkSettings::default());
    let now = MonotonicTime(0);
    links.join(TWO, now);
    (0..1000).for_each(|_| links.send(TWO, body(1), now).unwrap());
    outputs(&mut links);
    let ask = FrameContents::Resend {
        stream: LinkStream::Pair,
        range: MessageRange {
            first: MessageSeq(0),
            last: MessageSeq(u64::MAX),
        },
    };
    (0..100).for_each(|_| links.receive(frame(ask.clone()), now).unwrap());
    assert_eq!(outputs(&mut links).len(), 8 * 256);
    // Later it is answered again.
    links
        .receive(frame(ask), now + Duration::from_secs(1))
        .unwrap();
    assert_eq!(outputs(&mut links).len(), 256);
}

#[test]
fn frames_of_unknown_servers_are_refused() {
    let mut links = Links::new(ONE, LinkSettings::default());
    let now = MonotonicTime(0);
    let refused = links.receive(frame(FrameContents::AskStart), now);
    assert_eq!(refused, Err(UnknownServer(TWO)));
    links.join(TWO, now);
    links.receive(frame(FrameContents::AskStart), now).unwrap();
    links.leave(TWO);
    links
        .receive(frame(FrameContents::AskStart), now)
        .unwrap_err();
    // Nothing is due for a server that has left, and messages for it are dropped.
    links.send(TWO, body(1), now).unwrap();
    assert_eq!(links.due_at(), None);
}
