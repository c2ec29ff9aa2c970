//! Latest entries of one kind, in a ring. Each entry is visible to administrators and to some users.
//! A reader keeps a position, and is told how many entries it may see have left the ring before it came.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Maximum number of users whose entries are counted. A further user that reads too slowly is told of no
/// missed entries.
const MAX_COUNTED_USERS: usize = 4096;

/// Reader of the activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActivityViewer {
    /// Administrator, who sees everything.
    Admin,
    /// User who sees its own.
    User(u32),
}

/// Position of a reader in the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecentPosition {
    /// Number of the next entry.
    next: u64,
    /// Number of entries visible to the reader that were added before it.
    visible: u64,
}

/// Entries that a reader takes.
#[derive(Debug)]
pub(crate) struct TakenEntries<T> {
    /// Entries, the oldest first.
    pub(crate) entries: Vec<Arc<T>>,
    /// Number of visible entries that have left the ring since the last reading.
    pub(crate) missed: u64,
}

/// Latest entries.
#[derive(Debug)]
pub(crate) struct RecentEntries<T> {
    capacity: usize,
    entries: VecDeque<RecentEntry<T>>,
    /// Number of all entries so far.
    total: u64,
    /// Number of entries so far that each user may see.
    by_user: BTreeMap<u32, u64>,
}

#[derive(Debug)]
struct RecentEntry<T> {
    number: u64,
    viewers: Vec<u32>,
    value: Arc<T>,
}

impl<T> RecentEntries<T> {
    pub(crate) fn new(capacity: usize) -> RecentEntries<T> {
        RecentEntries {
            capacity,
            entries: VecDeque::new(),
            total: 0,
            by_user: BTreeMap::new(),
        }
    }

    /// Sets the maximum number of entries.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        let excess = self.entries.len().saturating_sub(capacity);
        self.entries.drain(..excess);
    }

    /// Adds an entry that these users may see. The oldest one leaves a full ring.
    pub(crate) fn add(&mut self, value: T, mut viewers: Vec<u32>) {
        viewers.sort_unstable();
        viewers.dedup();
        for uid in &viewers {
            if self.by_user.len() < MAX_COUNTED_USERS || self.by_user.contains_key(uid) {
                let count = self.by_user.entry(*uid).or_default();
                *count = count.saturating_add(1);
            }
        }
        let number = self.total;
        self.total = self.total.saturating_add(1);
        self.entries.push_back(RecentEntry {
            number,
            viewers,
            value: Arc::new(value),
        });
        while self.entries.len() > self.capacity {
            self.entries.pop_front();
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the number of entries so far that a reader may see.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> u64 {
        match viewer {
            ActivityViewer::Admin => self.total,
            ActivityViewer::User(uid) => self.by_user.get(&uid).copied().unwrap_or_default(),
        }
    }

    /// Takes the entries after a position, and moves it. Without a position the entries in the ring are
    /// taken, and none counts as missed.
    pub(crate) fn take(
        &self,
        position: &mut Option<RecentPosition>,
        viewer: ActivityViewer,
    ) -> TakenEntries<T> {
        let RecentPosition { next, visible } = position.unwrap_or_default();
        let is_visible = |entry: &&RecentEntry<T>| match viewer {
            ActivityViewer::Admin => true,
            ActivityViewer::User(uid) => entry.viewers.binary_search(&uid).is_ok(),
        };
        let entries: Vec<Arc<T>> = self
            .entries
            .iter()
            .filter(|entry| entry.number >= next)
            .filter(is_visible)
            .map(|entry| entry.value.clone())
            .collect();
        let now_visible = self.visible(viewer);
        let taken = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let missed = match position {
            Some(_) => now_visible.saturating_sub(visible).saturating_sub(taken),
            None => 0,
        };
        *position = Some(RecentPosition {
            next: self.total,
            visible: now_visible,
        });
        TakenEntries { entries, missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        ring: &RecentEntries<u32>,
        position: &mut Option<RecentPosition>,
        viewer: ActivityViewer,
    ) -> (Vec<u32>, u64) {
        let taken = ring.take(position, viewer);
        (
            taken.entries.iter().map(|entry| **entry).collect(),
            taken.missed,
        )
    }

    #[test]
    fn slow_reader_is_told_how_many_of_its_entries_it_missed() {
        let mut ring = RecentEntries::new(3);
        let [mut admin, mut user, mut other] = [None; 3];
        ring.add(0, vec![7]);
        assert_eq!(read(&ring, &mut admin, ActivityViewer::Admin), (vec![0], 0));
        assert_eq!(
            read(&ring, &mut user, ActivityViewer::User(7)),
            (vec![0], 0)
        );
        assert_eq!(
            read(&ring, &mut other, ActivityViewer::User(8)),
            (vec![], 0)
        );
        // Every second entry is of user 7, and the last three are in the ring.
        for number in 1..=10 {
            ring.add(number, if number % 2 == 0 { vec![7, 7] } else { vec![9] });
        }
        assert_eq!(
            read(&ring, &mut admin, ActivityViewer::Admin),
            (vec![8, 9, 10], 7)
        );
        assert_eq!(
            read(&ring, &mut user, ActivityViewer::User(7)),
            (vec![8, 10], 3)
        );
        assert_eq!(
            read(&ring, &mut other, ActivityViewer::User(8)),
            (vec![], 0)
        );
        assert_eq!(read(&ring, &mut admin, ActivityViewer::Admin), (vec![], 0));
    }

    #[test]
    fn late_reader_gets_what_is_there_and_misses_nothing() {
        let mut ring = RecentEntries::new(2);
        (0..5).for_each(|number| ring.add(number, vec![]));
        let mut late = None;
        assert_eq!(
            read(&ring, &mut late, ActivityViewer::Admin),
            (vec![3, 4], 0)
        );
        ring.set_capacity(1);
        ring.add(5, vec![]);
        ring.add(6, vec![]);
        assert_eq!(read(&ring, &mut late, ActivityViewer::Admin), (vec![6], 1));
    }
}
