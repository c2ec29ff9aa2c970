//! Rate limit for log lines about repeated occurrences, so that the log stays readable and leaves
//! space on the disk. Counters count every occurrence.
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Limit of one log line per interval.
#[derive(Debug)]
pub struct TraceRateLimit {
    interval: Duration,
    state: Mutex<LimitState>,
}

#[derive(Debug)]
struct LimitState {
    last: Option<Instant>,
    left_out: u64,
}

impl TraceRateLimit {
    /// Allows the first line, and each later one after `interval` since the last one allowed.
    pub const fn new(interval: Duration) -> TraceRateLimit {
        TraceRateLimit {
            interval,
            state: Mutex::new(LimitState {
                last: None,
                left_out: 0,
            }),
        }
    }

    /// Returns the number of lines left out since the last one, if a line may be written now.
    pub fn allow(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < self.interval)
        {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_interval_counts_those_left_out() {
        let quiet = TraceRateLimit::new(Duration::from_secs(1));
        let start = Instant::now();
        let after = |millis| quiet.allow(start + Duration::from_millis(millis));
        assert_eq!([0, 0, 500, 999].map(after), [Some(0), None, None, None]);
        assert_eq!([1000, 1001, 1999].map(after), [Some(3), None, None]);
        assert_eq!([60_000, 60_000].map(after), [Some(2), None]);
        // Two threads may look at the clock in one order and come here in the other.
        assert_eq!([59_999, 61_000].map(after), [None, Some(2)]);
    }
}
