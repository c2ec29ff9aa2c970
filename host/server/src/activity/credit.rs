//! Number of entries that are recorded of a user, and that a watcher may get. To measure each event of a flood,
//! and to make text of it, would delay all.
use std::{collections::BTreeMap, time::Duration};

/// Maximum number of users with a credit of their own. All others share one.
const MAX_USERS: usize = 4096;

/// Time in which a credit that was used up is full again.
const RECOVERY: Duration = Duration::from_secs(8);

/// Credit for entries of one kind: as many at once as are kept, and in a flood an eighth of that in a second.
#[derive(Debug)]
pub(crate) struct EntryCredit {
    /// Thousandths of entries.
    left: u64,
    at: Duration,
}

impl EntryCredit {
    /// Returns all of the credit.
    pub(crate) fn full() -> EntryCredit {
        EntryCredit {
            left: u64::MAX,
            at: Duration::ZERO,
        }
    }

    /// Returns the credit at a time of which no later one was given, while this number of entries is kept.
    pub(crate) fn at(&mut self, now: Duration, capacity: usize) -> usize {
        let full = u64::try_from(capacity)
            .unwrap_or(u64::MAX)
            .saturating_mul(1000);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let gained = full.saturating_mul(millis(now.saturating_sub(self.at))) / millis(RECOVERY);
        self.at = now;
        self.left = self.left.saturating_add(gained).min(full);
        usize::try_from(self.left / 1000).unwrap_or(usize::MAX)
    }

    /// Takes the credit of this number of entries away.
    pub(crate) fn spend(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.left = self.left.saturating_sub(count.saturating_mul(1000));
    }
}

/// Credits of the users that cause entries, so that the flood of one leaves the entries of others.
#[derive(Debug)]
pub(crate) struct UserCredits {
    /// Number of entries that are kept.
    capacity: usize,
    users: BTreeMap<Option<u32>, EntryCredit>,
    others: EntryCredit,
}

impl UserCredits {
    /// Returns full credits, while this number of entries is kept.
    pub(crate) fn full(capacity: usize) -> UserCredits {
        UserCredits {
            capacity,
            users: BTreeMap::new(),
            others: EntryCredit::full(),
        }
    }

    /// Sets the number of entries that are kept.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Makes all credits full.
    pub(crate) fn refill(&mut self) {
        *self = UserCredits::full(self.capacity);
    }

    /// Takes the credit of one entry of a user, or of the site. Returns false if there is none left.
    pub(crate) fn take(&mut self, uid: Option<u32>, now: Duration) -> bool {
        let is_own = self.users.len() < MAX_USERS || self.users.contains_key(&uid);
        let credit = if is_own {
            self.users.entry(uid).or_insert_with(EntryCredit::full)
        } else {
            &mut self.others
        };
        let is_left = credit.at(now, self.capacity) > 0;
        if is_left {
            credit.spend(1);
        }
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_spent_and_comes_back_up_to_what_is_kept() {
        let mut credit = EntryCredit::full();
        let second = Duration::from_secs(1);
        assert_eq!(credit.at(100 * second, 512), 512);
        credit.spend(512);
        assert_eq!(credit.at(100 * second, 512), 0);
        assert_eq!(credit.at(101 * second, 512), 64);
        // Parts of an entry are not lost.
        let gained: usize = (1..=1000)
            .map(|number| {
                let left = credit.at(101 * second + number * second / 1000, 512);
                credit.spend(left);
                left
            })
            .sum();
        assert_eq!(gained, 64 + 64, "those of before and those of a second");
        assert_eq!(credit.at(200 * second, 512), 512);
        assert_eq!(credit.at(200 * second, 16), 16, "fewer are kept");
        assert_eq!(credit.at(100 * second, 512), 16, "an earlier time");
    }

    #[test]
    fn flood_of_a_user_takes_no_credit_of_another() {
        let mut credits = UserCredits::full(16);
        let taken = |credits: &mut UserCredits, uid, count: usize| {
            let each = (0..count).filter(|_| credits.take(uid, Duration::ZERO));
            each.count()
        };
        assert_eq!(taken(&mut credits, Some(7), 1000), 16);
        assert_eq!(taken(&mut credits, Some(8), 10), 10);
        assert_eq!(taken(&mut credits, None, 10), 10);
        let others = (10_000..20_000).map(|uid| taken(&mut credits, Some(uid), 1));
        // All that came too late share one credit.
        assert_eq!(others.sum::<usize>(), MAX_USERS - 3 + 16);
    }
}
