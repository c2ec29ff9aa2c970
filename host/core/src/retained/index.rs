//! Index of the recipients of retained events, with totals for each user, so that one user's
//! backlog takes no memory from others.
use super::{Intervals, RefCounts, Seq};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The events that are retained for a proc or held for a connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Set {
    /// The user of the proc or connection.
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

/// The totals of one user's sets.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Needs {
    /// Number of sets that contain each event.
    pub(super) tally: RefCounts,
    /// Number of events in any of the sets.
    pub(super) events: usize,
    /// Number of intervals in the sets.
    pub(super) intervals: usize,
}

/// The totals of all users.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct UserIndexes(pub(super) BTreeMap<u32, Needs>);

impl UserIndexes {
    /// Adds an event to a set; [`UserIndexes::count`] must follow.
    pub(super) fn add(&mut self, set: &mut Set, at: Seq) {
        let before = set.members.pieces();
        set.members.insert(at);
        let needs = self.0.entry(set.uid).or_default();
        // The number may join two intervals, so the set may have fewer of them than before. The sum
        // therefore precedes the subtraction.
        needs.intervals = (needs.intervals + set.members.pieces()).saturating_sub(before);
    }

    /// Records that this number of a user's sets has a new event.
    pub(super) fn count(&mut self, uid: u32, at: Seq, sets: u32) {
        let needs = self.0.entry(uid).or_default();
        needs.tally.add(at, sets);
        needs.events += 1;
    }

    /// Removes an event from a set. Returns true if it was there.
    pub(super) fn remove(&mut self, set: &mut Set, at: Seq) -> bool {
        let before = set.members.pieces();
        let removed = set.members.remove(at);
        if removed && let Some(needs) = self.0.get_mut(&set.uid) {
            needs.intervals = (needs.intervals + set.members.pieces()).saturating_sub(before);
            self.release(set.uid, at, at);
        }
        removed
    }

    /// Removes a set.
    pub(super) fn drop_set(&mut self, set: &Set) {
        let Some(needs) = self.0.get_mut(&set.uid) else {
            return;
        };
        needs.intervals = needs.intervals.saturating_sub(set.members.pieces());
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
        // A user whose events are all settled takes no memory.
        if needs.events == 0 {
            self.0.remove(&uid);
        }
    }

    /// Returns the memory of a user's index, in bytes, with a record of this size for each event.
    pub(super) fn bytes_of(&self, uid: u32, record: usize) -> usize {
        self.0
            .get(&uid)
            .map_or(0, |needs| needs.events * record + needs.index_bytes())
    }

    /// Returns the memory of each user's index, as [`UserIndexes::bytes_of`] does.
    pub(super) fn by_user(&self, record: usize) -> impl Iterator<Item = (u32, usize)> {
        let users = self.0.keys();
        users.map(move |uid| (*uid, self.bytes_of(*uid, record)))
    }

    /// Returns the memory of all users' indexes, in bytes, without records of the events.
    pub(super) fn bytes(&self) -> usize {
        self.0.values().map(Needs::index_bytes).sum()
    }
}

impl Needs {
    fn index_bytes(&self) -> usize {
        in_tree::<(Seq, Seq)>(self.intervals) + in_tree::<(Seq, u32)>(self.tally.pieces())
    }
}

/// Estimates the memory of this number of entries in a B-tree. Keys ascend, so the nodes are half
/// full.
pub(super) const fn in_tree<T>(count: usize) -> usize {
    size_of::<T>().saturating_mul(count).saturating_mul(2)
}
