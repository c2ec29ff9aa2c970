//! Events kept for those who register late: a ring, and who has been told of what.
use crate::server::PeerId;
use peal_model::Event;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

#[derive(Debug)]
struct Kept {
    event: Arc<Event>,
    told: BTreeSet<PeerId>,
}

/// The ring of recent events (RFC 0002, "PMIx Server Registrations"). What it ejects is counted.
#[derive(Debug)]
pub(crate) struct EventCache {
    kept: VecDeque<Kept>,
    capacity: usize,
    ejected: u64,
}

impl EventCache {
    pub(crate) fn new(capacity: usize) -> EventCache {
        EventCache { kept: VecDeque::new(), capacity, ejected: 0 }
    }

    /// Keeps an event that these peers have been told of; the oldest one makes room.
    pub(crate) fn keep(&mut self, event: Arc<Event>, told: BTreeSet<PeerId>) {
        if self.capacity == 0 || event.is_do_not_cache() {
            return;
        }
        if self.kept.len() >= self.capacity {
            self.kept.pop_front();
            self.ejected += 1;
        }
        self.kept.push_back(Kept { event, told });
    }

    /// The events that this peer has not been told of and that pass the test, oldest first. They count as told now.
    pub(crate) fn tell(&mut self, peer: PeerId, wanted: impl Fn(&Event) -> bool) -> Vec<Arc<Event>> {
        let mut events = Vec::new();
        for kept in self.kept.iter_mut().filter(|kept| wanted(&kept.event)) {
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
