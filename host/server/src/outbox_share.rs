//! Share of each user in the memory of messages that wait to be written to clients.
use peal_core::quota::unreserved;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Limits of the messages that wait for clients, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutboxLimits {
    /// Messages for one client.
    pub client: usize,
    /// Messages for the clients of one user. Root and the server's user are exempt.
    pub user: usize,
    /// Messages for all clients. An eighth is reserved for those of root and the server's user.
    pub total: usize,
}

impl Default for OutboxLimits {
    fn default() -> Self {
        OutboxLimits {
            client: 256 << 20,
            user: 512 << 20,
            total: 2 << 30,
        }
    }
}

/// Messages that wait for all clients of one user.
#[derive(Debug)]
pub(crate) struct OutboxShare {
    /// Limits of this user: of its own messages, and of those of all users.
    own_limit: usize,
    total_limit: usize,
    own: AtomicUsize,
    total: Arc<AtomicUsize>,
}

/// Limit that a message exceeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutboxShareLimit {
    User,
    Total,
}

impl OutboxShare {
    /// Creates the share of a user that has limits.
    pub(crate) fn bounded(limits: OutboxLimits, total: &Arc<AtomicUsize>) -> OutboxShare {
        OutboxShare {
            own_limit: limits.user,
            total_limit: unreserved(limits.total),
            own: AtomicUsize::new(0),
            total: total.clone(),
        }
    }

    /// Creates the share of root or the server's user.
    pub(crate) fn exempt(limits: OutboxLimits, total: &Arc<AtomicUsize>) -> OutboxShare {
        OutboxShare {
            own_limit: usize::MAX,
            total_limit: limits.total,
            own: AtomicUsize::new(0),
            total: total.clone(),
        }
    }

    /// Adds the bytes of a message.
    pub(crate) fn add(&self, bytes: usize) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts the bytes of messages that were written or dropped.
    pub(crate) fn subtract(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that wait for the user's clients.
    pub(crate) fn held(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }

    /// Returns the limit that is exceeded, if any.
    pub(crate) fn exceeded(&self) -> Option<OutboxShareLimit> {
        if self.held() > self.own_limit {
            Some(OutboxShareLimit::User)
        } else if self.total.load(Ordering::Relaxed) > self.total_limit {
            Some(OutboxShareLimit::Total)
        } else {
            None
        }
    }

    /// Returns true if half of a limit is used, with this many bytes more.
    pub(crate) fn is_half_used_with(&self, bytes: usize) -> bool {
        let is_over = |held: &AtomicUsize, limit: usize| {
            held.load(Ordering::Relaxed).saturating_add(bytes) > limit / 2
        };
        is_over(&self.own, self.own_limit) || is_over(&self.total, self.total_limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: OutboxLimits = OutboxLimits {
        client: 100,
        user: 100,
        total: 240,
    };

    proptest! {
        /// Messages of four users, the first of which is exempt: sums and limits agree with lists.
        #[test]
        fn share_agrees_with_lists_of_messages(
            steps in proptest::collection::vec((0..4_usize, 0..60_usize, any::<bool>()), 1..200)
        ) {
            let total = Arc::default();
            let share = |user| match user {
                0 => OutboxShare::exempt(LIMITS, &total),
                _ => OutboxShare::bounded(LIMITS, &total),
            };
            let shares: Vec<OutboxShare> = (0..4).map(share).collect();
            let mut lists: Vec<Vec<usize>> = vec![Vec::new(); 4];
            for (user, bytes, adds) in steps {
                if adds {
                    lists[user].push(bytes);
                    shares[user].add(bytes);
                } else if let Some(bytes) = lists[user].pop() {
                    shares[user].subtract(bytes);
                }
                let sums: Vec<usize> = lists.iter().map(|list| list.iter().sum()).collect();
                let all: usize = sums.iter().sum();
                for (user, share) in shares.iter().enumerate() {
                    let (own_limit, total_limit) = if user == 0 { (usize::MAX, 240) } else { (100, 210) };
                    let wanted = match () {
                        () if sums[user] > own_limit => Some(OutboxShareLimit::User),
                        () if all > total_limit => Some(OutboxShareLimit::Total),
                        () => None,
                    };
                    prop_assert_eq!(share.held(), sums[user]);
                    prop_assert_eq!(share.exceeded(), wanted);
                    let is_half_used = sums[user] + 10 > own_limit / 2 || all + 10 > total_limit / 2;
                    prop_assert_eq!(share.is_half_used_with(10), is_half_used);
                }
            }
        }
    }
}
