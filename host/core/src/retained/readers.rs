//! Lagging connections: their cursors, what they wait for, and the events held for them.
use super::{Retained, RetainedEvent, Seq, Set};
use crate::{class::EventSummary, request_id::PeerId, user_scope::UserScope};
use peal_model::{Event, Proc};
use serde::{Deserialize, Serialize};
use std::{mem, sync::Arc};

/// A lagging connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaggingPeer {
    /// All earlier events have been examined.
    cursor: Seq,
    waits: Waits,
    /// Events distributed since the connection lags that it is registered for and has still to
    /// receive.
    pub(super) pending: Set,
    /// Upper bound of missed environment events that were not reported yet.
    missed: u64,
}

/// The condition that a lagging connection waits for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Waits {
    /// The last batch has been written.
    ForRoom,
    /// The contents of these events have been recalled.
    ForContents(Vec<Seq>),
}

/// A candidate event of [`Retained::next_for`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextRetained {
    pub(crate) at: Seq,
    pub(crate) head: EventSummary,
    pub(crate) bytes: u32,
    pub(crate) claim: DeliveryReason,
}

/// The reason why an event may be for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeliveryReason {
    /// The event is owed to the proc or held for the connection.
    Entitled,
    /// The event is in the ring with this user scope, and the connection has not received it.
    Ring(UserScope),
    /// The event is in the ring, and the connection has received it.
    Told,
}

impl Retained {
    /// Starts a connection at the oldest retained event, because it has registered. Returns true if
    /// it was not lagging before.
    pub(crate) fn begin(&mut self, peer: PeerId, uid: u32, missed: u64) -> bool {
        let is_new = self.mark_lagging(peer, uid);
        if let Some(reader) = self.readers.get_mut(&peer) {
            // Older events may match the new registration. Those that the connection has received
            // are passed over ([`DeliveryReason::Told`]).
            reader.cursor = Seq::FIRST;
            reader.missed += missed;
        }
        is_new
    }

    /// Marks a connection as lagging from the next event on. Returns true if it was not lagging
    /// before.
    pub(crate) fn mark_lagging(&mut self, peer: PeerId, uid: u32) -> bool {
        if self.is_lagging(peer) {
            return false;
        }
        let reader = LaggingPeer {
            cursor: self.next,
            waits: Waits::ForRoom,
            pending: Set::of(uid),
            missed: 0,
        };
        self.readers.insert(peer, reader);
        true
    }

    /// Ends the lagging of a connection that has received everything.
    pub(crate) fn end_lagging(&mut self, peer: PeerId) {
        if let Some(reader) = self.readers.remove(&peer) {
            self.let_go(&reader.pending);
        }
    }

    /// Returns true if a connection is lagging.
    pub(crate) fn is_lagging(&self, peer: PeerId) -> bool {
        self.readers.contains_key(&peer)
    }

    /// Returns the cursor of a lagging connection.
    pub(crate) fn cursor(&self, peer: PeerId) -> Option<Seq> {
        self.readers.get(&peer).map(|reader| reader.cursor)
    }

    /// Sets the cursor of a lagging connection, and the condition that it waits for.
    pub(crate) fn wait(&mut self, peer: PeerId, cursor: Seq, waits: Waits) {
        if let Some(reader) = self.readers.get_mut(&peer) {
            (reader.cursor, reader.waits) = (cursor, waits);
        }
    }

    /// Takes the condition that a lagging connection waits for. It waits for its batch from now on.
    pub(crate) fn take_waits(&mut self, peer: PeerId) -> Option<Waits> {
        self.readers
            .get_mut(&peer)
            .map(|reader| mem::replace(&mut reader.waits, Waits::ForRoom))
    }

    /// Returns the first event from a cursor on that may be for this connection of this proc.
    pub(crate) fn next_for(&self, peer: PeerId, proc: &Proc, from: Seq) -> Option<NextRetained> {
        let owed = self
            .owed
            .get(proc)
            .and_then(|owed| owed.members.next_from(from));
        let held = self
            .readers
            .get(&peer)
            .and_then(|reader| reader.pending.members.next_from(from));
        let entitled = owed.into_iter().chain(held).min();
        let at = entitled
            .into_iter()
            .chain(self.ring.next_from(from))
            .min()?;
        let RetainedEvent { head, bytes, .. } = self.events.get(&at)?;
        let claim = match self.ring.get(at) {
            // An event of the ring may also be held for the connection. Its user scope was checked
            // when it was distributed.
            _ if entitled == Some(at) => DeliveryReason::Entitled,
            Some(ringed) if !ringed.direct_recipients.contains(&peer) => {
                DeliveryReason::Ring(ringed.reach)
            }
            _ => DeliveryReason::Told,
        };
        Some(NextRetained {
            at,
            head: *head,
            bytes: *bytes,
            claim,
        })
    }

    /// Returns the contents of an event, unless they are spilled.
    pub(crate) fn content(&self, at: Seq) -> Option<Arc<Event>> {
        self.events.get(&at)?.content.clone()
    }

    /// Takes the upper bound of environment events that a connection missed, which is reported
    /// once.
    pub(crate) fn take_missed(&mut self, peer: PeerId) -> u64 {
        self.readers
            .get_mut(&peer)
            .map_or(0, |reader| mem::take(&mut reader.missed))
    }
}
