//! The links of this server with all others.
use crate::{
    ServerFrame, StreamLimits, WindowFull,
    link::{LinkEvent, PeerLink},
};
use peal_core::{MonotonicTime, group::ServerId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use thiserror::Error;

/// Limits and times of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkSettings {
    /// Maximum bytes of a message in one frame. Longer messages are cut into parts.
    pub max_part_bytes: usize,
    /// Maximum bytes of a message.
    pub max_message_bytes: usize,
    /// Limits of the parts for one peer that it has not acknowledged.
    pub window: StreamLimits,
    /// Maximum bytes of these parts that are on their way to the peer.
    pub max_transmitted_bytes: usize,
    /// Limits of the parts of one peer that came before earlier ones, or wait for room.
    pub early: StreamLimits,
    /// Time after which an unanswered question is repeated. It doubles up to the next one.
    pub repeat_after: Duration,
    /// Greatest time after which an unanswered question is repeated.
    pub max_repeat_after: Duration,
    /// Greatest time until a part is acknowledged.
    pub acknowledge_after: Duration,
    /// Number of parts that are acknowledged at once.
    pub acknowledge_each: u64,
    /// Bytes of parts that are acknowledged at once.
    pub acknowledge_each_bytes: usize,
}

impl Default for LinkSettings {
    fn default() -> LinkSettings {
        let limits = |max_messages, max_bytes| StreamLimits {
            max_messages,
            max_bytes,
        };
        LinkSettings {
            max_part_bytes: 512 << 10,
            max_message_bytes: 256 << 20,
            window: limits(65_536, 64 << 20),
            max_transmitted_bytes: 8 << 20,
            early: limits(4096, 16 << 20),
            repeat_after: Duration::from_millis(200),
            max_repeat_after: Duration::from_secs(5),
            acknowledge_after: Duration::from_millis(100),
            acknowledge_each: 64,
            acknowledge_each_bytes: 1 << 20,
        }
    }
}

/// Result of a call of [`Links`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum LinkOutput {
    /// A frame for the network.
    Transmit(ServerFrame),
    /// A message for this server. Those of one sender come in order, each once.
    Deliver {
        /// The sender.
        from: ServerId,
        /// The encoded message.
        body: Arc<[u8]>,
    },
    /// A message for this server was dropped, because it has more bytes than a message may have.
    TooLong {
        /// The sender.
        from: ServerId,
        /// Length of the message in bytes.
        bytes: usize,
    },
}

/// Error for a frame that is not for this server, or not of one that it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MisdirectedFrame {
    /// The sender has not joined, or has left.
    #[error("frame of server {}, which has not joined or has left", .0.0)]
    UnknownSender(ServerId),
    /// The frame is for another server, such as an earlier one of this node.
    #[error("frame for server {}, which this server is not", .0.0)]
    OtherReceiver(ServerId),
}

/// The links of one server with all others.
#[derive(Debug, Serialize, Deserialize)]
pub struct Links {
    me: ServerId,
    settings: LinkSettings,
    /// Links with all others: `None` until the first message. Most pairs of a large cluster have none.
    peers: BTreeMap<ServerId, Option<Box<PeerLink>>>,
    /// Times at which something is due, one for each peer that has any.
    due: BTreeSet<(MonotonicTime, ServerId)>,
    outputs: VecDeque<LinkOutput>,
}

impl Links {
    /// Returns the links of a server without peers.
    pub fn new(me: ServerId, settings: LinkSettings) -> Links {
        Links {
            me,
            settings,
            peers: BTreeMap::new(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Adds a server that has joined.
    pub fn join(&mut self, id: ServerId) {
        if id != self.me {
            self.peers.entry(id).or_default();
        }
    }

    /// Makes the link with a peer, if there is none yet.
    fn begin(&mut self, id: ServerId) {
        if let Some(link) = self.peers.get_mut(&id) {
            link.get_or_insert_with(|| Box::new(PeerLink::new(&self.settings)));
        }
    }

    /// Removes a server that has left. Messages for it are dropped.
    pub fn leave(&mut self, id: ServerId) {
        if let Some(link) = self.peers.remove(&id).flatten() {
            link.due_at().map(|at| self.due.remove(&(at, id)));
        }
    }

    /// Sends a message to a server. A message to one that has left is dropped.
    ///
    /// # Errors
    ///
    /// Fails if too much is not acknowledged.
    pub fn send(
        &mut self,
        to: ServerId,
        body: Arc<[u8]>,
        now: MonotonicTime,
    ) -> Result<(), WindowFull> {
        self.begin(to);
        let settings = self.settings;
        self.with_peer(to, |link, events| link.send(body, now, &settings, events))
            .unwrap_or(Ok(()))
    }

    /// Processes a frame.
    ///
    /// # Errors
    ///
    /// Fails if it is not for this server, or if its sender is not known; that one may be known later,
    /// and sends again what is asked for.
    pub fn receive(
        &mut self,
        frame: ServerFrame,
        now: MonotonicTime,
    ) -> Result<(), MisdirectedFrame> {
        if frame.to != self.me {
            return Err(MisdirectedFrame::OtherReceiver(frame.to));
        }
        self.begin(frame.from);
        let settings = self.settings;
        self.with_peer(frame.from, |link, events| {
            link.receive(frame.contents, now, &settings, events);
        })
        .ok_or(MisdirectedFrame::UnknownSender(frame.from))
    }

    /// Stops the delivery of a server's messages, for which there is no room. They are kept within
    /// their limits, and the sender keeps what is not acknowledged.
    pub fn pause(&mut self, of: ServerId) {
        self.begin(of);
        self.with_peer(of, |link, _| link.pause());
    }

    /// Delivers a server's messages again.
    pub fn resume(&mut self, of: ServerId, now: MonotonicTime) {
        let settings = self.settings;
        self.with_peer(of, |link, events| link.resume(now, &settings, events));
    }

    /// Does what is due at this time.
    pub fn elapse(&mut self, now: MonotonicTime) {
        let settings = self.settings;
        while let Some((at, id)) = self.due.first().copied()
            && at <= now
        {
            self.with_peer(id, |link, events| link.elapse(now, &settings, events));
        }
    }

    /// Returns the time of the next [`Links::elapse`].
    pub fn due_at(&self) -> Option<MonotonicTime> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns the next result of the calls so far.
    pub fn next_output(&mut self) -> Option<LinkOutput> {
        self.outputs.pop_front()
    }

    /// Notes a sign of life of a server beside its frames.
    pub fn hear(&mut self, of: ServerId, now: MonotonicTime) {
        self.with_peer(of, |link, _| link.hear(now));
    }

    /// Returns the servers of which nothing came for this time, although they have to acknowledge
    /// something.
    pub fn unanswered_for(
        &self,
        time: Duration,
        now: MonotonicTime,
    ) -> impl Iterator<Item = ServerId> {
        self.peers.iter().filter_map(move |(id, link)| {
            let since = link.as_ref()?.unanswered_since()?;
            (since + time <= now).then_some(*id)
        })
    }

    /// Returns true if all servers have acknowledged everything.
    pub fn are_settled(&self) -> bool {
        let mut links = self.peers.values().flatten();
        links.all(|link| link.is_settled())
    }

    /// Calls a function for the link with a peer, and takes over its results and its time.
    fn with_peer<T>(
        &mut self,
        id: ServerId,
        call: impl FnOnce(&mut PeerLink, &mut Vec<LinkEvent>) -> T,
    ) -> Option<T> {
        let link = self.peers.get_mut(&id)?.as_mut()?;
        let before = link.due_at();
        let mut events = Vec::new();
        let result = call(link, &mut events);
        let after = link.due_at();
        if before != after {
            before.map(|at| self.due.remove(&(at, id)));
            self.due.extend(after.map(|at| (at, id)));
        }
        let me = self.me;
        self.outputs
            .extend(events.into_iter().map(|event| match event {
                LinkEvent::Transmit(contents) => LinkOutput::Transmit(ServerFrame {
                    from: me,
                    to: id,
                    contents,
                }),
                LinkEvent::Deliver(body) => LinkOutput::Deliver { from: id, body },
                LinkEvent::TooLong(bytes) => LinkOutput::TooLong { from: id, bytes },
            }));
        Some(result)
    }
}
