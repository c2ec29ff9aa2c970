//! The ring of recent events of the environment, for those who register late: who was told, and what was ejected.
use super::Seq;
use crate::{reach::Reach, server::PeerId};
use peal_model::Status;
use std::collections::{BTreeMap, BTreeSet};

/// For how many codes ejected events are counted apart.
const MAX_CODES: usize = 1024;

/// Which events are in the ring (RFC 0002, "PMIx Server Registrations"). Their contents are with all other kept ones.
#[derive(Debug)]
pub(super) struct Ring {
    events: BTreeMap<Seq, Ringed>,
    capacity: usize,
    max_bytes: usize,
    bytes: usize,
    pub(super) ejected: Ejected,
}

/// An event in the ring.
#[derive(Debug)]
pub(super) struct Ringed {
    pub(super) reach: Reach,
    pub(super) told: BTreeSet<PeerId>,
    pub(super) bytes: u32,
}

impl Ring {
    /// A ring of so many events that take so many bytes.
    pub(super) fn new(capacity: usize, max_bytes: usize) -> Ring {
        Ring { events: BTreeMap::new(), capacity, max_bytes, bytes: 0, ejected: Ejected::default() }
    }

    /// Whether it takes any events.
    pub(super) fn takes_any(&self) -> bool {
        self.capacity > 0
    }

    /// Takes an event; [`Ring::overflow`] then says which ones make room.
    pub(super) fn push(&mut self, at: Seq, event: Ringed) {
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

    pub(super) fn get(&self, at: Seq) -> Option<&Ringed> {
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

/// How many events the ring ejected, in all and by code.
#[derive(Debug, Default)]
pub(super) struct Ejected {
    pub(super) total: u64,
    by_code: BTreeMap<Status, u64>,
    others: u64,
}

impl Ejected {
    /// Counts one of this code.
    pub(super) fn count(&mut self, code: Status) {
        self.total += 1;
        if self.by_code.len() < MAX_CODES {
            *self.by_code.entry(code).or_default() += 1;
        } else {
            *self.by_code.get_mut(&code).unwrap_or(&mut self.others) += 1;
        }
    }

    /// How many of these codes (none: all) at most were ejected, without those that whoever asks heard already: `hears` says
    /// so of a code, or of all. What was not counted by code may have been of any that has no count of its own.
    pub(super) fn missed(&self, codes: &[Status], hears: impl Fn(Option<Status>) -> bool) -> u64 {
        let asked: BTreeSet<Status> = codes.iter().copied().filter(|code| !hears(Some(*code))).collect();
        let (counted, others) = if codes.is_empty() {
            let counted = self.by_code.iter().filter(|(code, _)| !hears(Some(**code))).map(|(_, count)| count).sum();
            (counted, !hears(None))
        } else {
            let counted = asked.iter().filter_map(|code| self.by_code.get(code)).sum::<u64>();
            (counted, asked.iter().any(|code| !self.by_code.contains_key(code)))
        };
        if others { counted + self.others } else { counted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ejected_is_counted_by_code_as_far_as_there_is_room() {
        let mut ejected = Ejected::default();
        for code in 0..1200 {
            ejected.count(Status(-code));
            ejected.count(Status(0));
        }
        let never = |_: Option<Status>| false;
        assert_eq!((ejected.total, ejected.by_code.len(), ejected.others), (2400, MAX_CODES, 176));
        assert_eq!(ejected.missed(&[Status(0), Status(0), Status(-1)], never), 1202);
        assert_eq!(ejected.missed(&[Status(-1), Status(-1199)], never), 177, "as many as it may be");
        assert_eq!(ejected.missed(&[], never), 2400);
        assert_eq!(ejected.missed(&[], |code| code == Some(Status(0))), 1199);
        assert_eq!(ejected.missed(&[], |_| true), 0);
    }
}
