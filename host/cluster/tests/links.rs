//! Links over a network that loses, repeats, delays and reorders frames, beside the plain lists of what
//! was sent.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may panic"
)]
mod numbers;

use numbers::Numbers;
use peal_cluster::{
    FrameContents, LinkOutput, LinkSettings, Links, MessagePart, MessageRange, MessageSeq,
    MisdirectedFrame, ServerFrame, StreamLimits,
};
use peal_core::{MonotonicTime, group::ServerId};
use peal_frames::FrameLimit;
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Maximum number of servers.
const SERVERS: u32 = 4;

/// Longest delay of a frame, in milliseconds.
const MAX_DELAY: u64 = 700;

/// Time after which everything has settled in a network that loses nothing any more, in milliseconds.
const SETTLED: u64 = 120_000;

/// A step of a case, after a pause in milliseconds.
#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Send(u32, u32, usize),
    /// A server has no room for the messages of another one, or has room again.
    Refuse(u32, u32),
    Accept(u32, u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Join),
        9 => (0..SERVERS, 0..SERVERS, 8..100_usize).prop_map(|(from, to, len)| Step::Send(from, to, len)),
        1 => (0..SERVERS, 0..SERVERS).prop_map(|(at, of)| Step::Refuse(at, of)),
        1 => (0..SERVERS, 0..SERVERS).prop_map(|(at, of)| Step::Accept(at, of)),
        3 => (0..2_000_u64).prop_map(Step::Pass),
    ]
}

type Way = (ServerId, ServerId);

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
    /// Numbers and lengths of messages.
    sent: BTreeMap<Way, Vec<(u64, usize)>>,
    delivered: BTreeMap<Way, Vec<(u64, usize)>>,
    /// Pairs of which the second has no room for messages of the first.
    refusing: BTreeSet<Way>,
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
            refusing: BTreeSet::new(),
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
            links.join(id);
            joined.join(*other);
        }
        self.servers.insert(id, joined);
        self.collect();
    }

    fn server(&self, number: u32) -> Option<ServerId> {
        let count = u32::try_from(self.servers.len()).unwrap();
        (count > 0).then(|| ServerId(number % count + 1))
    }

    /// Returns two different servers.
    fn way(&self, from: u32, to: u32) -> Option<Way> {
        let way = (self.server(from)?, self.server(to)?);
        (way.0 != way.1).then_some(way)
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Join => self.join(),
            Step::Send(from, to, len) => {
                if let Some(way) = self.way(from, to) {
                    self.send(way, len);
                }
            }
            Step::Refuse(at, of) => {
                if let Some((of, at)) = self.way(of, at) {
                    self.refusing.insert((of, at));
                    self.servers.get_mut(&at).unwrap().pause(of);
                }
            }
            Step::Accept(at, of) => {
                if let Some(way) = self.way(of, at) {
                    self.accept(way);
                }
            }
            Step::Pass(millis) => return self.pass(millis),
        }
        self.collect();
    }

    fn send(&mut self, way: Way, len: usize) {
        self.next += 1;
        let number = self.next;
        // The bytes after the number show parts of different messages that are joined.
        let bytes: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(len).collect();
        let (from, to) = way;
        let links = self.servers.get_mut(&from).unwrap();
        if links
            .send(to, Arc::from(bytes), MonotonicTime(self.now))
            .is_ok()
        {
            self.sent.entry(way).or_default().push((number, len));
        }
    }

    fn accept(&mut self, way: Way) {
        self.refusing.remove(&way);
        let (of, at) = way;
        self.servers
            .get_mut(&at)
            .unwrap()
            .resume(of, MonotonicTime(self.now));
    }

    /// Gives the outputs of all servers to the network.
    fn collect(&mut self) {
        let ids: Vec<ServerId> = self.servers.keys().copied().collect();
        for id in &ids {
            while let Some(output) = self.servers.get_mut(id).unwrap().next_output() {
                match output {
                    LinkOutput::Transmit(frame) => {
                        assert_eq!(frame.from, *id);
                        let bytes = frame.encode(FrameLimit::default()).unwrap();
                        self.carry(frame.to, &bytes);
                    }
                    LinkOutput::Deliver { from, body } => {
                        let way = (from, *id);
                        assert!(!self.refusing.contains(&way), "delivered without room");
                        let number = u64::from_le_bytes(body[..8].try_into().unwrap());
                        let expected = number.to_le_bytes().into_iter().cycle();
                        assert!(body.iter().copied().eq(expected.take(body.len())));
                        self.delivered
                            .entry(way)
                            .or_default()
                            .push((number, body.len()));
                    }
                    LinkOutput::TooLong { .. } => panic!("no message is too long"),
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
        for way in self.refusing.clone() {
            self.accept(way);
        }
        self.collect();
        self.pass(SETTLED);
        assert!(self.frames.is_empty(), "frames go on for ever");
        for (id, links) in &self.servers {
            assert_eq!(links.due_at(), None, "{id:?} waits for something for ever");
            assert!(links.are_settled());
        }
    }
}

fn settings() -> LinkSettings {
    LinkSettings {
        max_part_bytes: 24,
        early: limits(8, 1 << 20),
        max_transmitted_bytes: 100,
        acknowledge_each: 3,
        ..LinkSettings::default()
    }
}

fn limits(max_messages: usize, max_bytes: usize) -> StreamLimits {
    StreamLimits {
        max_messages,
        max_bytes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
    ))]

    /// Nothing is lost, whatever the network does.
    #[test]
    fn messages_arrive_once_and_in_order(
        seed: u64,
        faults in 0..45_u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut network = Network::new(seed, faults, settings());
        network.join();
        network.join();
        steps.into_iter().for_each(|step| network.run(step));
        network.settle();
        prop_assert_eq!(network.delivered, network.sent);
    }
}

const ONE: ServerId = ServerId(1);
const TWO: ServerId = ServerId(2);
const NOW: MonotonicTime = MonotonicTime(0);

fn body(len: usize) -> Arc<[u8]> {
    Arc::from(vec![0; len])
}

fn frame(contents: FrameContents) -> ServerFrame {
    ServerFrame {
        from: TWO,
        to: ONE,
        contents,
    }
}

fn part(seq: u64, part: MessagePart, len: usize) -> ServerFrame {
    frame(FrameContents::Message {
        seq: MessageSeq(seq),
        part,
        body: body(len),
    })
}

fn acknowledge(through: u64) -> ServerFrame {
    let through = MessageSeq(through);
    frame(FrameContents::Acknowledge { through })
}

/// Links of the first server with the second.
fn linked(settings: LinkSettings) -> Links {
    let mut links = Links::new(ONE, settings);
    links.join(TWO);
    links
}

fn outputs(links: &mut Links) -> Vec<LinkOutput> {
    std::iter::from_fn(|| links.next_output()).collect()
}

/// Takes the outputs, and returns the lengths of the messages for this server.
fn delivered(links: &mut Links) -> Vec<usize> {
    let body = |output: LinkOutput| match output {
        LinkOutput::Deliver { body, .. } => Some(body.len()),
        _ => None,
    };
    outputs(links).into_iter().filter_map(body).collect()
}

#[test]
fn window_of_unacknowledged_messages_is_bounded() {
    let mut links = linked(LinkSettings {
        window: limits(3, 100),
        ..LinkSettings::default()
    });
    links.send(TWO, body(60), NOW).unwrap();
    let full = links.send(TWO, body(60), NOW).unwrap_err();
    assert_eq!((full.messages, full.bytes), (1, 60));
    links.send(TWO, body(1), NOW).unwrap();
    links.send(TWO, body(1), NOW).unwrap();
    links.send(TWO, body(1), NOW).unwrap_err();
    links.receive(acknowledge(2), NOW).unwrap();
    links.send(TWO, body(60), NOW).unwrap();
    // An acknowledgement of messages that were never sent changes nothing.
    links.receive(acknowledge(u64::MAX), NOW).unwrap();
    links.send(TWO, body(60), NOW).unwrap_err();
    // A message beyond all limits is taken if it is alone.
    links.receive(acknowledge(4), NOW).unwrap();
    assert!(links.are_settled());
    links.send(TWO, body(1000), NOW).unwrap();
}

#[test]
fn bytes_on_their_way_are_bounded() {
    let mut links = linked(LinkSettings {
        max_part_bytes: 10,
        max_transmitted_bytes: 35,
        ..LinkSettings::default()
    });
    links.send(TWO, body(100), NOW).unwrap();
    assert_eq!(outputs(&mut links).len(), 3);
    // Parts that were not transmitted can be neither acknowledged nor asked for.
    links.receive(acknowledge(4), NOW).unwrap();
    let range = MessageRange {
        first: MessageSeq(4),
        last: MessageSeq(10),
    };
    links
        .receive(frame(FrameContents::Resend { range }), NOW)
        .unwrap();
    assert_eq!(outputs(&mut links), []);
    links.receive(acknowledge(2), NOW).unwrap();
    assert_eq!(outputs(&mut links).len(), 2);
}

#[test]
fn early_messages_take_bounded_room() {
    let mut links = linked(LinkSettings {
        early: limits(5, 1000),
        ..LinkSettings::default()
    });
    for seq in (2..100).chain([u64::MAX, 1]) {
        links
            .receive(part(seq, MessagePart::Final, 10), NOW)
            .unwrap();
    }
    assert_eq!(delivered(&mut links).len(), 6);
}

#[test]
fn messages_without_room_are_neither_delivered_nor_acknowledged() {
    let mut links = linked(LinkSettings {
        acknowledge_each: 1,
        ..LinkSettings::default()
    });
    links.pause(TWO);
    links.receive(part(1, MessagePart::Final, 10), NOW).unwrap();
    links.receive(part(2, MessagePart::Final, 20), NOW).unwrap();
    assert_eq!(outputs(&mut links), []);
    links.resume(TWO, NOW);
    let through = MessageSeq(2);
    let outputs = outputs(&mut links);
    assert!(
        matches!(outputs.as_slice(), [LinkOutput::Deliver { .. }, LinkOutput::Deliver { .. },
            LinkOutput::Transmit(ServerFrame { contents: FrameContents::Acknowledge { through: last }, .. })]
            if *last == through),
        "{outputs:?}"
    );
}

#[test]
fn message_that_is_too_long_is_dropped_alone() {
    let mut links = linked(LinkSettings {
        max_message_bytes: 25,
        ..LinkSettings::default()
    });
    let parts = [
        (MessagePart::Continued, 10),
        (MessagePart::Continued, 10),
        (MessagePart::Final, 6),
        (MessagePart::Final, 26),
        (MessagePart::Continued, 15),
        (MessagePart::Final, 10),
    ];
    for (seq, (place, len)) in (1..).zip(parts) {
        links.receive(part(seq, place, len), NOW).unwrap();
    }
    let results: Vec<(bool, usize)> = outputs(&mut links)
        .iter()
        .filter_map(|output| match output {
            LinkOutput::Deliver { body, .. } => Some((true, body.len())),
            LinkOutput::TooLong { bytes, .. } => Some((false, *bytes)),
            LinkOutput::Transmit(_) => None,
        })
        .collect();
    assert_eq!(results, [(false, 26), (false, 26), (true, 25)]);
}

#[test]
fn peer_that_asks_again_and_again_gets_bounded_answers() {
    let mut links = linked(LinkSettings::default());
    (0..1000).for_each(|_| links.send(TWO, body(1), NOW).unwrap());
    outputs(&mut links);
    let ask = frame(FrameContents::Resend {
        range: MessageRange {
            first: MessageSeq(0),
            last: MessageSeq(u64::MAX),
        },
    });
    (0..100).for_each(|_| links.receive(ask.clone(), NOW).unwrap());
    assert_eq!(outputs(&mut links).len(), 8 * 256);
    // Later it is answered again.
    links.receive(ask, NOW + Duration::from_secs(1)).unwrap();
    assert_eq!(outputs(&mut links).len(), 256);
}

#[test]
fn frames_of_and_for_unknown_servers_are_refused() {
    let mut links = Links::new(ONE, LinkSettings::default());
    let last = || frame(FrameContents::Last { seq: MessageSeq(1) });
    let unknown = Err(MisdirectedFrame::UnknownSender(TWO));
    assert_eq!(links.receive(last(), NOW), unknown);
    links.join(TWO);
    links.receive(last(), NOW).unwrap();
    // This node's server before had another number.
    let earlier = ServerFrame {
        to: ServerId(7),
        ..last()
    };
    let refused = links.receive(earlier, NOW);
    assert_eq!(refused, Err(MisdirectedFrame::OtherReceiver(ServerId(7))));
    links.leave(TWO);
    assert_eq!(links.receive(last(), NOW), unknown);
    // Nothing is due for a server that has left, and messages for it are dropped.
    links.send(TWO, body(1), NOW).unwrap();
    assert_eq!(links.due_at(), None);
}

#[test]
fn peer_that_answers_nothing_is_named() {
    let mut links = linked(LinkSettings::default());
    let later = NOW + Duration::from_secs(20);
    let silent = |links: &Links, now| -> Vec<ServerId> {
        links.unanswered_for(Duration::from_secs(15), now).collect()
    };
    assert_eq!(silent(&links, later), []);
    links.send(TWO, body(1), NOW).unwrap();
    links.send(TWO, body(1), NOW).unwrap();
    assert_eq!(silent(&links, NOW + Duration::from_secs(14)), []);
    assert_eq!(silent(&links, later), [TWO]);
    links.receive(acknowledge(1), later).unwrap();
    assert_eq!(silent(&links, later + Duration::from_secs(14)), []);
    links.hear(TWO, later + Duration::from_secs(14));
    assert_eq!(silent(&links, later + Duration::from_secs(20)), []);
    links.receive(acknowledge(2), later).unwrap();
    assert_eq!(silent(&links, later + Duration::from_secs(99)), []);
}
