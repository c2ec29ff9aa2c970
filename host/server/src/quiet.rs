//! Keeps the log readable, and the disk free, whatever strangers do: of what they can make happen as often as they like,
//! not every time is worth a line. Counters count all.
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Allows one line per interval.
#[derive(Debug)]
pub(crate) struct Quiet {
    interval: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Option<Instant>,
    left_out: u64,
}

impl Quiet {
    /// Allows the first line, and later ones when so much time has passed since the last that was allowed.
    pub(crate) const fn new(interval: Duration) -> Quiet {
        Quiet { interval, state: Mutex::new(State { last: None, left_out: 0 }) }
    }

    /// Whether a line may be written now: if so, how many were left out since the last one.
    pub(crate) fn allow(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            state.left_out += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

/// Allows one line ever.
#[derive(Debug, Default)]
pub(crate) struct Once(AtomicBool);

impl Once {
    /// Whether this is the first time.
    pub(crate) fn allow(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Writes a line: a warning the first time, for those who debug later on.
macro_rules! warn_once {
    ($once:expr, $($line:tt)+) => {
        if $once.allow() { tracing::warn!($($line)+) } else { tracing::debug!($($line)+) }
    };
}
pub(crate) use warn_once;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_interval_and_it_says_how_many_were_left_out() {
        let quiet = Quiet::new(Duration::from_secs(1));
        let start = Instant::now();
        let after = |millis| quiet.allow(start + Duration::from_millis(millis));
        assert_eq!([0, 0, 500, 999].map(after), [Some(0), None, None, None]);
        assert_eq!([1000, 1001, 1999].map(after), [Some(3), None, None]);
        assert_eq!([60_000, 60_000].map(after), [Some(2), None]);
        // Two threads may look at the clock in one order and come here in the other.
        assert_eq!([59_999, 61_000].map(after), [None, Some(2)]);
    }

    #[test]
    fn once_is_once() {
        let once = Once::default();
        assert_eq!([once.allow(), once.allow(), once.allow()], [true, false, false]);
    }
}
