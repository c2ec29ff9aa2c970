//! Events kept for those who register late: a ring, and who has been told of what.
use crate::{audience::Aim, reach::Reach, server::PeerId};
use peal_model::{Event, Size};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

#[derive(Debug)]
struct Kept {
    event: Arc<Event>,
    aim: Aim,
    reach: Reach,
    bytes: usize,
    told: BTreeSet<PeerId>,
}

/// The ring of recent events (RFC 0002, "PMIx Server Registrations"). What it ejects is counted.
#[derive(Debug)]
pub(crate) struct EventCache {
    kept: VecDeque<Kept>,
    capacity: usize,
    max_bytes: usize,
    bytes: usize,
    ejected: u64,
}

impl EventCache {
    /// A ring of so many events that take so many bytes.
    pub(crate) fn new(capacity: usize, max_bytes: usize) -> EventCache {
        EventCache { kept: VecDeque::new(), capacity, max_bytes, bytes: 0, ejected: 0 }
    }

    /// Keeps an event that these peers have been told of; the oldest ones make room.
    pub(crate) fn keep(&mut self, event: Arc<Event>, aim: Aim, reach: Reach, told: BTreeSet<PeerId>) {
        if self.capacity == 0 || event.is_do_not_cache() {
            return;
        }
        let bytes = Size::of_event(&event).bytes.saturating_add(aim.bytes());
        self.bytes += bytes;
        self.kept.push_back(Kept { event, aim, reach, bytes, told });
        while self.kept.len() > self.capacity || self.bytes > self.max_bytes {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes -= oldest.bytes;
            self.ejected += 1;
        }
    }

    /// The events that this peer has not been told of and that pass the test, oldest first. They count as told now.
    pub(crate) fn tell(&mut self, peer: PeerId, wanted: impl Fn(&Event, &Aim, Reach) -> bool) -> Vec<Arc<Event>> {
        let mut events = Vec::new();
        for kept in self.kept.iter_mut().filter(|kept| wanted(&kept.event, &kept.aim, kept.reach)) {
            if kept.told.insert(peer) {
                events.push(kept.event.clone());
            }
        }
        events
    }

    /// Forgets a peer that is gone.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        for kept in &mut self.kept {
            kept.told.remove(&peer);
        }
    }

    /// How many events made room before everybody could register.
    pub(crate) fn ejected(&self) -> u64 {
        self.ejected
    }
}
