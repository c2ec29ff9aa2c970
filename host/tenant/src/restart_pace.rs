//! Pace at which a process is started again after it has ended.
use std::time::{Duration, Instant};

/// Wait after the first end. Each further one within [`CALM`] doubles it.
const FIRST: Duration = Duration::from_millis(200);

/// Longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// Time without an end after which the count starts anew.
const CALM: Duration = Duration::from_secs(300);

/// Pace of the starts of one user's process. A component that ends the process at each call must not
/// have it started all the time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RestartPace {
    ends: u32,
    last: Option<Instant>,
}

impl RestartPace {
    /// Notes that the process has ended.
    pub(crate) fn ended(&mut self, now: Instant) {
        let is_calm = self.since_last(now).is_none_or(|past| past >= CALM);
        self.ends = if is_calm {
            1
        } else {
            self.ends.saturating_add(1)
        };
        self.last = Some(now);
    }

    /// Returns the number of ends that count.
    pub(crate) fn ends(&self) -> u32 {
        self.ends
    }

    /// Returns the time until the next start; none if it may be now.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let past = self.since_last(now)?;
        let doublings = self.ends.saturating_sub(1);
        let wait = FIRST
            .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
            .min(LONGEST);
        // One crash is forgiven at once: the next event finds a process.
        let wait = if self.ends <= 1 { Duration::ZERO } else { wait };
        wait.checked_sub(past).filter(|left| !left.is_zero())
    }

    fn since_last(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.last?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_end_is_forgiven_and_waits_double_up_to_a_bound() {
        let mut now = Instant::now();
        let mut pace = RestartPace::default();
        assert_eq!(pace.wait(now), None);
        pace.ended(now);
        assert_eq!(pace.wait(now), None);
        let mut waits = Vec::new();
        for _ in 0..40 {
            pace.ended(now);
            let wait = pace.wait(now).unwrap();
            waits.push(wait);
            now += wait;
            assert_eq!(pace.wait(now), None);
        }
        assert_eq!(waits[..3], [FIRST * 2, FIRST * 4, FIRST * 8]);
        assert_eq!(waits.last(), Some(&LONGEST));
        now += CALM;
        pace.ended(now);
        assert_eq!((pace.ends(), pace.wait(now)), (1, None), "starts anew");
    }
}
