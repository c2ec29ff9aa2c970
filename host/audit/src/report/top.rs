//! The most frequent of any number of items, counted in bounded memory.
use std::collections::{BTreeMap, BTreeSet};

/// Number of items that stay when the set is trimmed. It is trimmed at twice this number.
const MAX_TRIMMED_ITEMS: usize = 2000;
/// Maximum number of jobs shown per item.
pub(super) const MAX_JOBS: usize = 3;

/// Count, last record and jobs of an item.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) seq: u64,
    pub(super) at: u64,
    /// The first jobs, one more than are shown if there are more.
    pub(super) jobs: BTreeSet<String>,
}

/// Counts of items. Rare items are dropped if there are many; the total includes them.
#[derive(Debug)]
pub(super) struct TopItems<T> {
    times: BTreeMap<T, Times>,
    total: u64,
}

impl<T> Default for TopItems<T> {
    fn default() -> TopItems<T> {
        TopItems {
            times: BTreeMap::new(),
            total: 0,
        }
    }
}

impl<T: Ord> TopItems<T> {
    /// Adds `count` occurrences of an item. `record` is the number and time of the latest.
    pub(super) fn add(&mut self, what: T, job: Option<String>, count: u64, record: (u64, u64)) {
        self.total += count;
        let times = self.times.entry(what).or_default();
        times.count += count;
        (times.seq, times.at) = record;
        if times.jobs.len() <= MAX_JOBS {
            times.jobs.extend(job);
        }
        // Half of them go at once, so that the sort is paid by many additions.
        if self.times.len() >= 2 * MAX_TRIMMED_ITEMS {
            let mut ranks: Vec<(u64, u64)> = self
                .times
                .values()
                .map(|times| (times.count, times.seq))
                .collect();
            ranks.sort_unstable_by(|one, other| other.cmp(one));
            if let Some(least) = ranks.get(MAX_TRIMMED_ITEMS) {
                self.times
                    .retain(|_, times| (times.count, times.seq) > *least);
            }
        }
    }

    /// Returns the count of all items.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the most frequent items, most frequent first.
    pub(super) fn most(&self, most: usize) -> Vec<(&T, &Times)> {
        let mut all: Vec<(&T, &Times)> = self.times.iter().collect();
        all.sort_by_key(|(_, times)| std::cmp::Reverse((times.count, times.seq)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_JOBS, MAX_TRIMMED_ITEMS, TopItems};

    #[test]
    fn frequent_entries_stay_in_list_of_bounded_size() {
        let mut top = TopItems::default();
        for number in 0..20 * MAX_TRIMMED_ITEMS as u64 {
            top.add(number, None, 1, (number, 0));
            let frequent = if number % 2 == 0 {
                u64::MAX
            } else {
                u64::MAX - 1
            };
            top.add(frequent, Some(format!("job-{number}")), 1, (number, 0));
            assert!(top.times.len() < 2 * MAX_TRIMMED_ITEMS);
        }
        let most = top.most(3);
        assert_eq!(
            (most[0].0, most[0].1.count),
            (&(u64::MAX - 1), 10 * MAX_TRIMMED_ITEMS as u64)
        );
        assert_eq!((most[1].0, most.len()), (&u64::MAX, 3));
        assert_eq!(top.total(), 40 * MAX_TRIMMED_ITEMS as u64);
        assert_eq!(most[0].1.jobs.len(), MAX_JOBS + 1, "jobs are bounded");
    }
}
