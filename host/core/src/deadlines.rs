//! The times at which things that wait are over, the next one first, without looking through what waits.
use crate::MonotonicTime;
use std::collections::BTreeMap;

/// How many things are over at which time.
#[derive(Debug, Default)]
pub(crate) struct Deadlines(BTreeMap<MonotonicTime, usize>);

impl Deadlines {
    /// One more thing is over then.
    pub(crate) fn add(&mut self, at: MonotonicTime) {
        *self.0.entry(at).or_default() += 1;
    }

    /// One thing that would have been over then is gone.
    pub(crate) fn remove(&mut self, at: MonotonicTime) {
        if let Some(count) = self.0.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&at);
            }
        }
    }

    /// When the next thing is over.
    pub(crate) fn next(&self) -> Option<MonotonicTime> {
        self.0.first_key_value().map(|(at, _)| *at)
    }
}
