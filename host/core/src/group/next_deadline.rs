//! The next deadline of many, kept in constant time.
use crate::MonotonicTime;
use serde::{Deserialize, Serialize};

/// The earliest of many times, or an earlier one: a deadline that was cancelled remains until it
/// has passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Earliest(Option<MonotonicTime>);

impl Earliest {
    /// Adds a time.
    pub(super) fn lower(&mut self, at: MonotonicTime) {
        self.0 = self.0.into_iter().chain([at]).min();
    }

    /// Returns the time of the next check, if any.
    pub(super) fn at(self) -> Option<MonotonicTime> {
        self.0
    }
}

impl FromIterator<MonotonicTime> for Earliest {
    fn from_iter<I: IntoIterator<Item = MonotonicTime>>(times: I) -> Earliest {
        Earliest(times.into_iter().min())
    }
}
