//! The links of this server with all others.
use crate::{
    FrameContents, LinkStream, SentMessages, ServerFrame, StreamLimits, WindowFull,
    link::{LinkEvent, PeerCounts, PeerLink},
    retry::Retry,
};
use peal_core::{MonotonicTime, group::ServerId};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use thiserror::Error;

/// Number of times that the last message to all is told to all. After that only those are told that have
/// not acknowledged it.
const TOLD_TO_ALL: u32 = 2;

/// Limits and times of links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSettings {
    /// Limits of the messages to one peer that it has not acknowledged.
    pub window: StreamLimits,
    /// Limits of the messages to all that are kept to be sent again.
    pub history: StreamLimits,
    /// Limits of the messages of one peer that came before earlier ones.
    pub early: StreamLimits,
    /// Time after which an unanswered question is repeated. It doubles up to the next one.
    pub repeat_after: Duration,
    /// Greatest time after which an unanswered question is repeated.
    pub max_repeat_after: Duration,
    /// Greatest time until a message is acknowledged.
    pub acknowledge_after: Duration,
    /// Number of messages that are acknowledged at once.
    pub acknowledge_each: u64,
}

impl Default for LinkSettings {
    fn default() -> LinkSettings {
        let limits = |max_messages, max_bytes| StreamLimits {
            max_messages,
            max_bytes,
        };
        LinkSettings {
            window: limits(65_536, 64 << 20),
            history: limits(65_536, 64 << 20),
            early: limits(4096, 16 << 20),
            repeat_after: Duration::from_millis(200),
            max_repeat_after: Duration::from_secs(5),
            acknowledge_after: Duration::from_millis(100),
            acknowledge_each: 64,
        }
    }
}

/// Recipient of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Recipient {
    /// All other servers.
    All,
    /// One server.
    One(ServerId),
}

/// Result of a call of [`Links`].
#[derive(Clone, PartialEq, Debug)]
pub enum LinkOutput {
    /// A frame for the network.
    Transmit {
        /// Its recipient.
        to: Recipient,
        /// The frame.
        frame: ServerFrame,
    },
    /// A message for this server. Those of one stream come in order, each once.
    Deliver {
        /// The sender.
        from: ServerId,
        /// Its stream.
        stream: LinkStream,
        /// The encoded message.
        body: Arc<[u8]>,
    },
    /// Messages that were lost, because the sender does not keep them any more.
    Lost {
        /// The sender.
        from: ServerId,
        /// The stream.
        stream: LinkStream,
        /// Their number.
        count: u64,
    },
}

/// Error for a frame of a server that has not joined, or has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("frame of server {}, which has not joined or has left", .0.0)]
pub struct UnknownServer(pub ServerId);

/// The links of one server with all others.
#[derive(Debug)]
pub struct Links {
    me: ServerId,
    settings: LinkSettings,
    /// Messages of this server to all.
    all: SentMessages,
    telling_last: Retry,
    told_to_all: u32,
    peers: BTreeMap<ServerId, PeerLink>,
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
            all: SentMessages::new(settings.history),
            telling_last: Retry::default(),
            told_to_all: 0,
            peers: BTreeMap::new(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Adds a server that has joined.
    pub fn join(&mut self, id: ServerId, now: MonotonicTime) {
        if id == self.me || self.peers.contains_key(&id) {
            return;
        }
        let link = PeerLink::new(self.all.last(), now, &self.settings);
        self.due.extend(link.due_at().map(|at| (at, id)));
        self.peers.insert(id, link);
        self.elapse(now);
    }

    /// Removes a server that has left. Messages for it are dropped.
    pub fn leave(&mut self, id: ServerId) {
        if let Some(link) = self.peers.remove(&id) {
            self.due
                .retain(|(at, peer)| *peer != id || Some(*at) != link.due_at());
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
        let settings = self.settings;
        self.with_peer(to, |link, _, events| {
            link.send(body, now, &settings, events)
        })
        .unwrap_or(Ok(()))
    }

    /// Sends a message to all others.
    pub fn send_to_all(&mut self, body: Arc<[u8]>, now: MonotonicTime) {
        // A server that joins later takes only what follows.
        if self.peers.is_empty() {
            return;
        }
        let seq = self.all.add_in_place_of_oldest(body.clone());
        self.told_to_all = 0;
        self.telling_last.end();
        self.telling_last
            .begin(now + self.settings.repeat_after, self.settings.repeat_after);
        let stream = LinkStream::All;
        self.transmit(Recipient::All, FrameContents::Message { stream, seq, body });
    }

    /// Processes a frame.
    ///
    /// # Errors
    ///
    /// Fails if its sender is not known; it may be known later, and sends again what is asked for.
    pub fn receive(&mut self, frame: ServerFrame, now: MonotonicTime) -> Result<(), UnknownServer> {
        let settings = self.settings;
        self.with_peer(frame.from, |link, all, events| {
            link.receive(frame.contents, all, now, &settings, events);
        })
        .ok_or(UnknownServer(frame.from))
    }

    /// Does what is due at this time.
    pub fn elapse(&mut self, now: MonotonicTime) {
        let settings = self.settings;
        while let Some((at, id)) = self.due.first().copied()
            && at <= now
        {
            self.with_peer(id, |link, _, events| link.elapse(now, &settings, events));
        }
        if self.telling_last.is_due(now, settings.max_repeat_after) {
            self.tell_last();
        }
    }

    /// Tells the last message to all to those that have not acknowledged it.
    fn tell_last(&mut self) {
        let behind: Vec<ServerId> = self
            .peers
            .iter()
            .filter(|(_, link)| link.is_behind(&self.all))
            .map(|(id, _)| *id)
            .collect();
        let (stream, seq) = (LinkStream::All, self.all.last());
        let last = FrameContents::Last { stream, seq };
        if behind.is_empty() {
            self.telling_last.end();
        } else if self.told_to_all < TOLD_TO_ALL {
            self.told_to_all = self.told_to_all.saturating_add(1);
            self.transmit(Recipient::All, last);
        } else {
            for id in behind {
                self.transmit(Recipient::One(id), last.clone());
            }
        }
    }

    /// Returns the time of the next [`Links::elapse`].
    pub fn due_at(&self) -> Option<MonotonicTime> {
        let first = self.due.first().map(|(at, _)| *at);
        first.into_iter().chain(self.telling_last.at()).min()
    }

    /// Returns the next result of the calls so far.
    pub fn next_output(&mut self) -> Option<LinkOutput> {
        self.outputs.pop_front()
    }

    /// Returns the counts of each peer's messages.
    pub fn counts(&self) -> impl Iterator<Item = (ServerId, PeerCounts)> {
        self.peers.iter().map(|(id, link)| (*id, link.counts()))
    }

    /// Calls a function for the link with a peer, and takes over its results and its time.
    fn with_peer<T>(
        &mut self,
        id: ServerId,
        call: impl FnOnce(&mut PeerLink, &SentMessages, &mut Vec<LinkEvent>) -> T,
    ) -> Option<T> {
        let link = self.peers.get_mut(&id)?;
        let before = link.due_at();
        let mut events = Vec::new();
        let result = call(link, &self.all, &mut events);
        let after = link.due_at();
        if before != after {
            before.map(|at| self.due.remove(&(at, id)));
            self.due.extend(after.map(|at| (at, id)));
        }
        for event in events {
            match event {
                LinkEvent::Transmit(contents) => self.transmit(Recipient::One(id), contents),
                LinkEvent::Deliver(stream, body) => self.outputs.push_back(LinkOutput::Deliver {
                    from: id,
                    stream,
                    body,
                }),
                LinkEvent::Lost(stream, count) => self.outputs.push_back(LinkOutput::Lost {
                    from: id,
                    stream,
                    count,
                }),
            }
        }
        Some(result)
    }

    fn transmit(&mut self, to: Recipient, contents: FrameContents) {
        let from = self.me;
        self.outputs.push_back(LinkOutput::Transmit {
            to,
            frame: ServerFrame { from, contents },
        });
    }
}
