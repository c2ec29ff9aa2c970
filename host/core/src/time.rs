//! Time of the state machines, which is an argument of their functions.
use serde::{Deserialize, Serialize};
use std::{fmt, ops::Add, time::Duration};

/// A point in time, in milliseconds since a start that the caller chooses. Never decreases.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct MonotonicTime(pub u64);

impl Add<Duration> for MonotonicTime {
    type Output = MonotonicTime;
    fn add(self, after: Duration) -> MonotonicTime {
        MonotonicTime(
            self.0
                // A duration beyond the range of the clock never ends.
                .saturating_add(u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        )
    }
}

impl fmt::Debug for MonotonicTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}
