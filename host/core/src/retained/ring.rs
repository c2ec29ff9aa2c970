//! The event ring: recent environment events for late registrations, with the connections that
//! received them and the number of ejected events.
use super::{Seq, code_counts::CodeCounts};
use crate::{request_id::PeerId, user_scope::UserScope};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Number of codes for which ejected events are counted separately.
const MAX_CODES: usize = 1024;

/// The events in the ring (RFC 0002, "PMIx Server Registrations"). Their contents are with those of
/// the other retained events.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ring {
    events: BTreeMap<Seq, RingEntry>,
    #[serde(skip)]
    capacity: usize,
    #[serde(skip)]
    max_bytes: usize,
    bytes: usize,
    pub(super) ejected: CodeCounts,
}

/// An event in the ring.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RingEntry {
    pub(super) reach: UserScope,
    pub(super) direct_recipients: BTreeSet<PeerId>,
    pub(super) bytes: u32,
}

impl Ring {
    /// Creates a ring for this number of events and bytes.
    pub(super) fn new(capacity: usize, max_bytes: usize) -> Ring {
        Ring {
            events: BTreeMap::new(),
            capacity,
            max_bytes,
            bytes: 0,
            ejected: CodeCounts::new(MAX_CODES),
        }
    }

    pub(super) fn set_limits(&mut self, capacity: usize, max_bytes: usize) {
        self.capacity = capacity;
        self.max_bytes = max_bytes;
    }

    /// Returns true if the ring can hold events.
    pub(super) fn takes_any(&self) -> bool {
        self.capacity > 0
    }

    /// Adds an event; the caller then ejects events by [`Ring::overflow`].
    pub(super) fn push(&mut self, at: Seq, event: RingEntry) {
        self.bytes += event.bytes as usize;
        self.events.insert(at, event);
    }

    /// Ejects the oldest event if a limit is exceeded. The caller counts it.
    pub(super) fn overflow(&mut self) -> Option<Seq> {
        if self.events.len() <= self.capacity && self.bytes <= self.max_bytes {
            return None;
        }
        let (at, oldest) = self.events.pop_first()?;
        self.bytes -= oldest.bytes as usize;
        Some(at)
    }

    /// Returns the first event that is not before this one.
    pub(super) fn next_from(&self, at: Seq) -> Option<Seq> {
        self.events.range(at..).next().map(|(at, _)| *at)
    }

    pub(super) fn get(&self, at: Seq) -> Option<&RingEntry> {
        self.events.get(&at)
    }

    /// Records that a peer has received an event, if it is in the ring.
    pub(super) fn mark_delivered(&mut self, at: Seq, peer: PeerId) {
        if let Some(event) = self.events.get_mut(&at) {
            event.direct_recipients.insert(peer);
        }
    }

    /// Removes a peer.
    pub(super) fn forget(&mut self, peer: PeerId) {
        for event in self.events.values_mut() {
            event.direct_recipients.remove(&peer);
        }
    }

    /// Returns the number of events.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }
}
