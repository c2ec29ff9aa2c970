//! Times of something that is done again until it has succeeded.
use peal_core::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Least wait, so that time passes between two repetitions.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// Repetition with growing waits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Retry {
    /// The next time, while it goes on.
    at: Option<MonotonicTime>,
    /// The wait after that time.
    wait: Duration,
}

impl Retry {
    /// Begins at this time, with this wait after it. Does nothing if it goes on already.
    pub(crate) fn begin(&mut self, at: MonotonicTime, wait: Duration) {
        if self.at.is_none() {
            *self = Retry { at: Some(at), wait };
        }
    }

    /// Ends the repetition.
    pub(crate) fn end(&mut self) {
        self.at = None;
    }

    /// Returns the next time.
    pub(crate) fn at(&self) -> Option<MonotonicTime> {
        self.at
    }

    /// Returns true if it is time. The next time follows after the wait, which doubles up to a maximum.
    pub(crate) fn is_due(&mut self, now: MonotonicTime, max_wait: Duration) -> bool {
        let is_due = self.at.is_some_and(|at| at <= now);
        if is_due {
            self.at = Some(now + self.wait.max(MIN_WAIT));
            self.wait = self.wait.saturating_mul(2).min(max_wait);
        }
        is_due
    }
}
