//! Limit of the rate at which one user is refused. Beyond it, further input of the user is read
//! with a delay, so that refusals take little of the time that other users need.
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Time after which as many refusals as cause no delay are forgotten.
const WINDOW: Duration = Duration::from_secs(1);

/// Number of users beyond which entries of users without recent refusals are removed.
const MAX_USERS: usize = 256;

/// Refusal rates of all users.
#[derive(Debug)]
pub(crate) struct UserPaces {
    /// Number of refusals of one user in a window that cause no delay.
    free: u32,
    /// Time at which all refusals of a user are forgotten. Each one adds `WINDOW / free` to it.
    forgotten: BTreeMap<u32, Instant>,
}

impl UserPaces {
    /// Creates rates at which `free` refusals of a user in a second cause no delay.
    pub(crate) fn new(free: u32) -> UserPaces {
        UserPaces {
            free: free.max(1),
            forgotten: BTreeMap::new(),
        }
    }

    /// Notes refusals. The resulting delay is at most `longest`.
    pub(crate) fn note(&mut self, uid: u32, count: u32, now: Instant, longest: Duration) {
        if self.forgotten.len() >= MAX_USERS {
            self.forgotten.retain(|_, at| *at > now);
        }
        let at = self.forgotten.entry(uid).or_insert(now);
        // Each refusal is forgotten after its part of the window.
        let all = (WINDOW / self.free).saturating_mul(count);
        // Bound the summand first, so that the addition cannot overflow.
        *at = ((*at).max(now) + all.min(WINDOW + longest)).min(now + WINDOW + longest);
    }

    /// Returns the delay of a user's further input.
    pub(crate) fn delay(&self, uid: u32, now: Instant) -> Duration {
        let forgotten = self
            .forgotten
            .get(&uid)
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        forgotten.saturating_sub(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(1);
    const FREE: u32 = 32;

    #[test]
    fn refusals_above_rate_delay_later_ones() {
        let mut paces = UserPaces::new(FREE);
        let start = Instant::now();
        for _ in 0..FREE {
            paces.note(1000, 1, start, LONGEST);
            assert_eq!(paces.delay(1000, start), Duration::ZERO);
        }
        paces.note(1000, 1, start, LONGEST);
        assert_eq!(
            (paces.delay(1000, start), paces.delay(1001, start)),
            (WINDOW / FREE, Duration::ZERO)
        );
        assert_eq!(paces.delay(1000, start + WINDOW / FREE), Duration::ZERO);
        for count in [1000, u32::MAX] {
            paces.note(1000, count, start, LONGEST);
            assert_eq!(paces.delay(1000, start), LONGEST);
        }
    }

    #[test]
    fn users_without_recent_refusals_are_forgotten() {
        let mut paces = UserPaces::new(FREE);
        let start = Instant::now();
        (0..2000).for_each(|uid| paces.note(uid, 1, start + WINDOW * uid, LONGEST));
        assert!(paces.forgotten.len() <= MAX_USERS);
    }
}
