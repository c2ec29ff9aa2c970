//! Latest entries of one kind, in a ring that is bounded in number and bytes. Each entry is visible to
//! administrators and to some users. A reader keeps a position, and is told how many entries it may see
//! have left the ring before it came.
use std::{
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

/// Maximum size of all entries, as text of a report, in bytes. A report has room for two full rings.
pub(crate) const MAX_RING_BYTES: usize = 4 << 20;
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

impl ActivityViewer {
    /// Returns the minimum time between two samples of the server for a reader, and between two reports to
    /// it. A sample delays all, so users get fewer.
    pub(crate) fn least_interval(self) -> Duration {
        match self {
            ActivityViewer::Admin => Duration::from_millis(100),
            ActivityViewer::User(_) => Duration::from_secs(1),
        }
    }

    /// Returns the user that the reader is limited to; none for an administrator.
    pub(crate) fn only_user(self) -> Option<u32> {
        match self {
            ActivityViewer::Admin => None,
            ActivityViewer::User(uid) => Some(uid),
        }
    }
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
    /// Number of visible entries since the last reading that have left the ring, or were left out.
    pub(crate) missed: u64,
}

/// Latest entries.
#[derive(Debug)]
pub(crate) struct RecentEntries<T> {
    capacity: usize,
    /// Entries by the user that caused them. Users without any are removed.
    users: BTreeMap<Option<u32>, UserEntries<T>>,
    /// Number and bytes of the entries in the ring.
    held: usize,
    bytes: usize,
    /// Number of all entries so far.
    total: u64,
    /// Number of entries so far that each user may see.
    by_user: BTreeMap<u32, u64>,
}

/// Entries that one user caused, or that no user did.
#[derive(Debug)]
struct UserEntries<T> {
    entries: VecDeque<RecentEntry<T>>,
    bytes: usize,
}

#[derive(Debug)]
struct RecentEntry<T> {
    number: u64,
    bytes: usize,
    viewers: Vec<u32>,
    value: Arc<T>,
}

impl<T> RecentEntries<T> {
    pub(crate) fn new(capacity: usize) -> RecentEntries<T> {
        RecentEntries {
            capacity,
            users: BTreeMap::new(),
            held: 0,
            bytes: 0,
            total: 0,
            by_user: BTreeMap::new(),
        }
    }

    /// Returns the maximum number of entries.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the maximum number of entries.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        self.evict_excess();
    }

    /// Adds an entry of this size that a user caused and that these users may see. Of a full ring the oldest
    /// entry of the user that has most leaves, so that no user can remove the entries of others.
    pub(crate) fn add(
        &mut self,
        (value, bytes): (T, usize),
        cause: Option<u32>,
        viewers: Vec<u32>,
    ) {
        let number = self.total;
        let viewers = self.count(viewers);
        self.held += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let user = self.users.entry(cause).or_default();
        user.bytes = user.bytes.saturating_add(bytes);
        user.entries.push_back(RecentEntry {
            number,
            bytes,
            viewers,
            value: Arc::new(value),
        });
        self.evict_excess();
    }

    /// Leaves an entry out that these users may see: it counts as missed.
    pub(crate) fn leave_out(&mut self, viewers: Vec<u32>) {
        self.count(viewers);
    }

    /// Counts an entry that these users may see. Returns them in order, each once.
    fn count(&mut self, mut viewers: Vec<u32>) -> Vec<u32> {
        viewers.sort_unstable();
        viewers.dedup();
        for uid in &viewers {
            if self.by_user.len() < MAX_COUNTED_USERS || self.by_user.contains_key(uid) {
                let count = self.by_user.entry(*uid).or_default();
                *count = count.saturating_add(1);
            }
        }
        self.total = self.total.saturating_add(1);
        viewers
    }

    fn evict_excess(&mut self) {
        while self.held > self.capacity {
            self.evict(|user| user.entries.len());
        }
        while self.bytes > MAX_RING_BYTES {
            self.evict(|user| user.bytes);
        }
    }

    /// Removes the oldest entry of the user that has most by this measure, and of users that have equally
    /// much the oldest one.
    fn evict(&mut self, measure: impl Fn(&UserEntries<T>) -> usize) {
        let most = self.users.iter_mut().max_by_key(|(_, user)| {
            let oldest = user.entries.front().map(|entry| entry.number);
            (measure(user), Reverse(oldest))
        });
        let Some((cause, user)) = most else { return };
        if let Some(entry) = user.entries.pop_front() {
            user.bytes = user.bytes.saturating_sub(entry.bytes);
            self.bytes = self.bytes.saturating_sub(entry.bytes);
            self.held = self.held.saturating_sub(1);
        }
        if user.entries.is_empty() {
            let cause = *cause;
            self.users.remove(&cause);
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.users.clear();
        (self.held, self.bytes) = (0, 0);
    }

    /// Returns the number of entries so far that a reader may see.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> u64 {
        match viewer {
            ActivityViewer::Admin => self.total,
            ActivityViewer::User(uid) => self.by_user.get(&uid).copied().unwrap_or_default(),
        }
    }

    /// Takes at most this number of entries after a position, and moves it. Of more entries the latest ones
    /// are taken, equally many of each user, and the others count as missed. Without a position no others do.
    pub(crate) fn take(
        &self,
        position: &mut Option<RecentPosition>,
        viewer: ActivityViewer,
        max: usize,
    ) -> TakenEntries<T> {
        let RecentPosition { next, visible } = position.unwrap_or_default();
        let users = || self.users.values();
        let counts = users().map(|user| user.unread(next, viewer).count());
        let share = equal_share(&counts.collect::<Vec<usize>>(), max);
        let mut entries: Vec<&RecentEntry<T>> = users()
            .flat_map(|user| user.unread(next, viewer).take(share))
            .collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        let taken = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let now_visible = self.visible(viewer);
        let missed = match position {
            Some(_) => now_visible.saturating_sub(visible).saturating_sub(taken),
            None => 0,
        };
        *position = Some(RecentPosition {
            next: self.total,
            visible: now_visible,
        });
        let entries = entries.into_iter().map(|entry| entry.value.clone());
        TakenEntries {
            entries: entries.collect(),
            missed,
        }
    }
}

/// Returns the greatest number of entries that each user may have so that all have at most `max`.
fn equal_share(counts: &[usize], max: usize) -> usize {
    let all = |share: usize| -> usize { counts.iter().map(|count| *count.min(&share)).sum() };
    let most = counts.iter().copied().max().unwrap_or_default();
    let (mut fits, mut beyond) = (0, most.saturating_add(1));
    while beyond - fits > 1 {
        let share = fits.midpoint(beyond);
        if all(share) <= max {
            fits = share;
        } else {
            beyond = share;
        }
    }
    fits
}

impl<T> UserEntries<T> {
    /// Returns the entries from a number on that a reader may see, the latest first.
    fn unread(&self, next: u64, viewer: ActivityViewer) -> impl Iterator<Item = &RecentEntry<T>> {
        let latest = self.entries.iter().rev();
        let unread = latest.take_while(move |entry| entry.number >= next);
        unread.filter(move |entry| match viewer {
            ActivityViewer::Admin => true,
            ActivityViewer::User(uid) => entry.viewers.binary_search(&uid).is_ok(),
        })
    }
}

impl<T> Default for UserEntries<T> {
    fn default() -> Self {
        UserEntries {
            entries: VecDeque::new(),
            bytes: 0,
        }
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
        let taken = ring.take(position, viewer, usize::MAX);
        (
            taken.entries.iter().map(|entry| **entry).collect(),
            taken.missed,
        )
    }

    #[test]
    fn slow_reader_is_told_how_many_of_its_entries_it_missed() {
        let mut ring = RecentEntries::new(3);
        let [mut admin, mut user, mut other] = [None; 3];
        ring.add((0, 1), None, vec![7]);
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
            let viewers = if number % 2 == 0 { vec![7, 7] } else { vec![9] };
            ring.add((number, 1), None, viewers);
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
        (0..5).for_each(|number| ring.add((number, 1), None, vec![]));
        let mut late = None;
        assert_eq!(
            read(&ring, &mut late, ActivityViewer::Admin),
            (vec![3, 4], 0)
        );
        ring.set_capacity(1);
        ring.add((5, 1), None, vec![]);
        ring.add((6, 1), None, vec![]);
        assert_eq!(read(&ring, &mut late, ActivityViewer::Admin), (vec![6], 1));
    }

    #[test]
    fn flood_of_one_user_removes_no_entry_of_another() {
        let mut ring = RecentEntries::new(8);
        (0..3).for_each(|number| ring.add((number, 1), Some(8), vec![8]));
        (3..100).for_each(|number| ring.add((number, 1), Some(7), vec![7]));
        let of = |uid| read(&ring, &mut None, ActivityViewer::User(uid)).0;
        assert_eq!(of(8), [0, 1, 2]);
        assert_eq!(of(7), [95, 96, 97, 98, 99]);
    }

    #[test]
    fn limited_reader_gets_the_latest_of_each_user() {
        let mut ring = RecentEntries::new(20);
        (0..3).for_each(|number| ring.add((number, 1), Some(8), vec![8]));
        (3..20).for_each(|number| ring.add((number, 1), Some(7), vec![7]));
        let take = |max| {
            let mut position = Some(RecentPosition::default());
            let taken = ring.take(&mut position, ActivityViewer::Admin, max);
            let numbers = taken.entries.iter().map(|entry| **entry);
            (numbers.collect::<Vec<u32>>(), taken.missed, position)
        };
        let end = Some(RecentPosition {
            next: 20,
            visible: 20,
        });
        assert_eq!(take(8), (vec![0, 1, 2, 15, 16, 17, 18, 19], 12, end));
        assert_eq!(take(5), (vec![1, 2, 18, 19], 16, end), "no user has more");
        assert_eq!(take(1), (vec![], 20, end));
        assert_eq!(take(20).1, 0);
        let taken = ring.take(&mut None, ActivityViewer::User(7), 2);
        assert_eq!((*taken.entries[0], taken.missed), (18, 0));
    }

    #[test]
    fn large_entries_leave_room_for_small_ones_within_bytes() {
        let mut ring = RecentEntries::new(100);
        ring.add((0, 100), Some(8), vec![8]);
        (1..10).for_each(|number| ring.add((number, MAX_RING_BYTES / 2), Some(7), vec![7]));
        assert_eq!(
            read(&ring, &mut None, ActivityViewer::Admin).0,
            [0, 9],
            "two large ones do not fit beside the small one"
        );
        ring.add((10, MAX_RING_BYTES + 1), Some(9), vec![]);
        assert_eq!(read(&ring, &mut None, ActivityViewer::Admin).0, [0, 9]);
        ring.clear();
        assert_eq!((ring.held, ring.bytes), (0, 0));
    }
}
