//! Bytes that decisions about each user may take. When the trail is full of lasting records, a user
//! with more than their share is denied, so that the requests of other users can be recorded.
use crate::{
    DecisionEntry,
    retention::{FreeSpace, TrailRetention},
};
use peal_store::{RowClass, UsedBytes};
use std::collections::BTreeMap;

/// The bytes of the decisions about each user.
#[derive(Debug)]
pub(crate) struct DecisionBudget {
    share: u64,
    used: BTreeMap<u32, u64>,
    supply: FreeSpace,
}

impl DecisionBudget {
    pub(crate) fn new(retention: TrailRetention, most: u64) -> DecisionBudget {
        let share = TrailRetention::share(retention.user_percent, most);
        DecisionBudget {
            share,
            used: BTreeMap::new(),
            supply: FreeSpace::Ample,
        }
    }

    /// Returns true if a decision may be recorded. Decisions about root and the server's own user
    /// are limited by the trail only.
    pub(crate) fn admits(&self, decision: &DecisionEntry) -> bool {
        let Some(uid) = decision.request.identity.map(|identity| identity.uid) else {
            return true;
        };
        // Otherwise administrators with many recorded decisions could not act while the trail is
        // full.
        let is_site = uid == 0 || uid == decision.request.server.uid;
        self.supply == FreeSpace::Ample
            || is_site
            || self.used.get(&uid).is_none_or(|bytes| *bytes < self.share)
    }

    /// Counts a lasting record about this user.
    pub(crate) fn add(&mut self, uid: Option<u32>, bytes: u64) {
        if let Some(uid) = uid {
            *self.used.entry(uid).or_default() += bytes;
        }
    }

    /// Replaces the counts with those of the database.
    pub(crate) fn set(&mut self, used: &[UsedBytes], supply: FreeSpace) {
        let lasting = used.iter().filter(|used| used.class == RowClass::Lasting);
        self.used = lasting
            .filter_map(|used| Some((used.uid?, used.bytes)))
            .collect();
        self.supply = supply;
    }
}
