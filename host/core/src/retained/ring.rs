//! The ring of recent events of the environment, for those who register late: who was told, and what was ejected.
use super::{Seq, code_counts::CodeCounts};
use crate::{server::PeerId, user_scope::UserScope};
use std::collections::{BTreeMap, BTreeSet};

/// For how many codes ejected events are counted apart.
const MAX_CODES: usize = 1024;

/// Which events are in the ring (RFC 0002, "PMIx Server Registrations"). Their contents are with all other kept ones.
#[derive(Debug)]
pub(super) struct Ring {
    events: BTreeMap<Seq, RingEntry>,
    capacity: usize,
    max_bytes: usize,
    bytes: usize,
    pub(super) ejected: CodeCounts,
}

/// An event in the ring.
#[derive(Debug)]
pub(super) struct RingEntry {
    pub(super) reach: UserScope,
    pub(super) told: BTreeSet<PeerId>,
    pub(super) bytes: u32,
}

impl Ring {
    /// A ring of so many events that take so many bytes.
    pub(super) fn new(capacity: usize, max_bytes: usize) -> Ring {
        Ring {
            events: BTreeMap::new(),
            capacity,
            max_bytes,
            bytes: 0,
            ejected: CodeCounts::new(MAX_CODES),
        }
    }

    /// Whether it takes any events.
    pub(super) fn takes_any(&self) -> bool {
        self.capacity > 0
    }

    /// Takes an event; [`Ring::overflow`] then says which ones make room.
    pub(super) fn push(&mut self, at: Seq, event: RingEntry) {
        self.bytes += event.bytes as usize;
        self.events.insert(at, event);
    }

    /// Ejects the oldest event if there are more than there may be. Whoever asks counts it.
    pub(super) fn overflow(&mut self) -> Option<Seq> {
        if self.events.len() <= self.capacity && self.bytes <= self.max_bytes {
            return None;
        }
        let (at, oldest) = self.events.pop_first()?;
        self.bytes -= oldest.bytes as usize;
        Some(at)
    }

    /// The first event in it that is not before this one.
    pub(super) fn next_from(&self, at: Seq) -> Option<Seq> {
        self.events.range(at..).next().map(|(at, _)| *at)
    }

    pub(super) fn get(&self, at: Seq) -> Option<&RingEntry> {
        self.events.get(&at)
    }

    /// Notes that this peer has been told of an event, if it is here.
    pub(super) fn tell(&mut self, at: Seq, peer: PeerId) {
        if let Some(event) = self.events.get_mut(&at) {
            event.told.insert(peer);
        }
    }

    /// Forgets a peer that is gone.
    pub(super) fn forget(&mut self, peer: PeerId) {
        for event in self.events.values_mut() {
            event.told.remove(&peer);
        }
    }

    /// How many events are in it.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }
}
