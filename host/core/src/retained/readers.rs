//! Connections that are catching up: where each is, what it waits for, and what is held for it.
use super::{Retained, RetainedEvent, Seq, Set};
use crate::{class::EventSummary, server::PeerId, user_scope::UserScope};
use peal_model::{Event, Proc};
use std::{mem, sync::Arc};

/// A connection that is catching up.
#[derive(Debug)]
pub(super) struct LaggingPeer {
    /// What comes before was looked at.
    cursor: Seq,
    waits: Waits,
    /// What was spread since it is catching up, is not in its past and was asked for.
    pub(super) held: Set,
    /// How many events of the environment it may have missed, until it is told so.
    missed: u64,
}

/// What a connection waits for that is catching up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// That what it was sent has been written.
    ForRoom,
    /// The contents of these.
    ForContents(Vec<Seq>),
}

/// What [`Retained::next_for`] found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextRetained {
    pub(crate) at: Seq,
    pub(crate) head: EventSummary,
    pub(crate) bytes: u32,
    pub(crate) claim: DeliveryReason,
}

/// Why an event may be for somebody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeliveryReason {
    /// It is owed to the proc or held for the connection.
    Entitled,
    /// It is in the ring, reaches these, and this connection was not told of it.
    Ring(UserScope),
    /// It is in the ring, and this connection was told of it.
    Told,
}

impl Retained {
    /// A connection has registered: it looks at everything that is kept, from the oldest on. Whether it was not catching up
    /// until now.
    pub(crate) fn begin(&mut self, peer: PeerId, uid: u32, missed: u64) -> bool {
        let is_new = self.fall_behind(peer, uid);
        if let Some(reader) = self.readers.get_mut(&peer) {
            reader.cursor = Seq::FIRST;
            reader.missed += missed;
        }
        is_new
    }

    /// From now on this connection is catching up with what comes. Whether it was not until now.
    pub(crate) fn fall_behind(&mut self, peer: PeerId, uid: u32) -> bool {
        if self.is_behind(peer) {
            return false;
        }
        let reader = LaggingPeer {
            cursor: self.next,
            waits: Waits::ForRoom,
            held: Set::of(uid),
            missed: 0,
        };
        self.readers.insert(peer, reader);
        true
    }

    /// A connection has caught up: it hears what comes at once.
    pub(crate) fn arrive(&mut self, peer: PeerId) {
        if let Some(reader) = self.readers.remove(&peer) {
            self.let_go(&reader.held);
        }
    }

    /// Whether a connection is catching up.
    pub(crate) fn is_behind(&self, peer: PeerId) -> bool {
        self.readers.contains_key(&peer)
    }

    /// Where a connection is that is catching up.
    pub(crate) fn cursor(&self, peer: PeerId) -> Option<Seq> {
        self.readers.get(&peer).map(|reader| reader.cursor)
    }

    /// From here a connection goes on when it has what it waits for.
    pub(crate) fn wait(&mut self, peer: PeerId, cursor: Seq, waits: Waits) {
        if let Some(reader) = self.readers.get_mut(&peer) {
            (reader.cursor, reader.waits) = (cursor, waits);
        }
    }

    /// What a connection that is catching up waits for; from now on it waits for room.
    pub(crate) fn take_waits(&mut self, peer: PeerId) -> Option<Waits> {
        self.readers
            .get_mut(&peer)
            .map(|reader| mem::replace(&mut reader.waits, Waits::ForRoom))
    }

    /// The first event from here on that may be for this connection of this proc.
    pub(crate) fn next_for(&self, peer: PeerId, proc: &Proc, from: Seq) -> Option<NextRetained> {
        let owed = self
            .owed
            .get(proc)
            .and_then(|owed| owed.members.next_from(from));
        let held = self
            .readers
            .get(&peer)
            .and_then(|reader| reader.held.members.next_from(from));
        let entitled = owed.into_iter().chain(held).min();
        let at = entitled
            .into_iter()
            .chain(self.ring.next_from(from))
            .min()?;
        let RetainedEvent { head, bytes, .. } = self.kept.get(&at)?;
        let claim = match self.ring.get(at) {
            _ if entitled == Some(at) => DeliveryReason::Entitled,
            Some(ringed) if !ringed.told.contains(&peer) => DeliveryReason::Ring(ringed.reach),
            _ => DeliveryReason::Told,
        };
        Some(NextRetained {
            at,
            head: *head,
            bytes: *bytes,
            claim,
        })
    }

    /// The contents of an event, unless they are spilled.
    pub(crate) fn content(&self, at: Seq) -> Option<Arc<Event>> {
        self.kept.get(&at)?.content.clone()
    }

    /// How many events of the environment a connection may have missed that it was not told of; it is told once.
    pub(crate) fn take_missed(&mut self, peer: PeerId) -> u64 {
        self.readers
            .get_mut(&peer)
            .map_or(0, |reader| mem::take(&mut reader.missed))
    }
}
