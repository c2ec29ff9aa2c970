//! Bound on the refusals that are reported to other participants.
use crate::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Number of refused calls of one user that are reported to other participants within the retention
/// time. Beyond it, only the caller gets the refusal.
const MAX_REPORTED: usize = 128;

/// Times of recent refusals of each user's procs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RecentRefusals(BTreeMap<u32, VecDeque<MonotonicTime>>);

impl RecentRefusals {
    /// Counts a refusal. Returns false if the limit is reached.
    pub(super) fn one_more(&mut self, uid: u32, now: MonotonicTime) -> bool {
        let times = self.0.entry(uid).or_default();
        let has_room = times.len() < MAX_REPORTED;
        if has_room {
            times.push_back(now);
        }
        has_room
    }

    /// Forgets refusals that are older than the retention time.
    pub(super) fn forget(&mut self, memory: Duration, now: MonotonicTime) {
        self.0.retain(|_, times| {
            times.retain(|at| *at + memory > now);
            !times.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
