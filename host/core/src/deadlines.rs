//! Deadlines of pending items, sorted, so that the next one is found in logarithmic time.
use crate::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of items for each deadline.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Deadlines(BTreeMap<MonotonicTime, usize>);

impl Deadlines {
    /// Adds the deadline of an item.
    pub(crate) fn add(&mut self, at: MonotonicTime) {
        *self.0.entry(at).or_default() += 1;
    }

    /// Removes the deadline of an item.
    pub(crate) fn remove(&mut self, at: MonotonicTime) {
        if let Some(count) = self.0.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&at);
            }
        }
    }

    /// Returns the next deadline.
    pub(crate) fn next(&self) -> Option<MonotonicTime> {
        self.0.first_key_value().map(|(at, _)| *at)
    }
}
