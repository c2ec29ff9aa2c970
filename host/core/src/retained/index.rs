//! Who needs which events: sets of them, and what each user's sets come to, so that one who leaves them lying takes no room
//! from others.
use super::{Intervals, RefCounts, Seq};
use std::collections::BTreeMap;

/// What is owed to a proc, or held for a connection.
#[derive(Debug)]
pub(super) struct Set {
    /// Whose procs or connections these are.
    pub(super) uid: u32,
    pub(super) members: Intervals,
}

impl Set {
    pub(super) fn of(uid: u32) -> Set {
        Set {
            uid,
            members: Intervals::default(),
        }
    }
}

/// What one user's sets come to.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// How many of the sets each event is in.
    pub(super) tally: RefCounts,
    /// How many events are in any of them.
    pub(super) events: usize,
    /// How many intervals they take.
    pub(super) pieces: usize,
}

/// What the users' sets come to.
#[derive(Debug, Default)]
pub(super) struct UserIndexes(pub(super) BTreeMap<u32, Needs>);

impl UserIndexes {
    /// Adds an event to a set; [`UserIndexes::count`] must follow.
    pub(super) fn add(&mut self, set: &mut Set, at: Seq) {
        let before = set.members.pieces();
        set.members.insert(at);
        let needs = self.0.entry(set.uid).or_default();
        needs.pieces = (needs.pieces + set.members.pieces()).saturating_sub(before);
    }

    /// So many of a user's sets have got this event, which is new.
    pub(super) fn count(&mut self, uid: u32, at: Seq, sets: u32) {
        let needs = self.0.entry(uid).or_default();
        needs.tally.add(at, sets);
        needs.events += 1;
    }

    /// Takes an event out of a set; whether it was there.
    pub(super) fn remove(&mut self, set: &mut Set, at: Seq) -> bool {
        let before = set.members.pieces();
        let removed = set.members.remove(at);
        if removed && let Some(needs) = self.0.get_mut(&set.uid) {
            needs.pieces = (needs.pieces + set.members.pieces()).saturating_sub(before);
            self.release(set.uid, at, at);
        }
        removed
    }

    /// A set is gone.
    pub(super) fn drop_set(&mut self, set: &Set) {
        let Some(needs) = self.0.get_mut(&set.uid) else {
            return;
        };
        needs.pieces = needs.pieces.saturating_sub(set.members.pieces());
        set.members
            .iter()
            .for_each(|(first, last)| self.release(set.uid, first, last));
    }

    fn release(&mut self, uid: u32, first: Seq, last: Seq) {
        let Some(needs) = self.0.get_mut(&uid) else {
            return;
        };
        for (first, last) in needs.tally.subtract(first, last) {
            let gone = usize::try_from(last.0 - first.0)
                .unwrap_or(usize::MAX)
                .saturating_add(1);
            needs.events = needs.events.saturating_sub(gone);
        }
        if needs.events == 0 {
            self.0.remove(&uid);
        }
    }

    /// The memory that it takes to know what a user needs, in bytes, with a record of so many bytes for each event.
    pub(super) fn bytes_of(&self, uid: u32, record: usize) -> usize {
        self.0
            .get(&uid)
            .map_or(0, |needs| needs.events * record + needs.index_bytes())
    }

    /// The memory that it takes to know what all users need, in bytes, without records of the events.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(Needs::index_bytes).sum()
    }
}

impl Needs {
    fn index_bytes(&self) -> usize {
        in_tree::<(Seq, Seq)>(self.pieces) + in_tree::<(Seq, u32)>(self.tally.pieces())
    }
}

/// What so many of these take in a B-tree, nearly: as numbers ascend, its nodes are half full.
pub(super) const fn in_tree<T>(count: usize) -> usize {
    size_of::<T>().saturating_mul(count).saturating_mul(2)
}
