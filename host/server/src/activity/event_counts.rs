//! Number of events by the user of their source and their code. Readers compute rates from two readings.
use super::recent::ActivityViewer;
use peal_model::Status;
use std::collections::BTreeMap;

/// Maximum number of users whose events are counted by code.
const MAX_USERS: usize = 256;
/// Maximum number of codes that are counted of one user. A user may raise events with any number.
const MAX_CODES_OF_USER: usize = 64;

/// Number of events since the first of the present watchers came.
#[derive(Debug, Default)]
pub(crate) struct EventCounts {
    users: BTreeMap<Option<u32>, UserEventCounts>,
    /// Events of users beyond the limit.
    further: u64,
}

#[derive(Debug, Default)]
struct UserEventCounts {
    codes: BTreeMap<i32, u64>,
    /// Events with codes beyond the limit.
    further: u64,
}

/// Number of events as one reader sees them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct VisibleEventCounts {
    /// Number of events by code.
    pub(crate) codes: BTreeMap<i32, u64>,
    /// Number of events whose codes are not counted apart.
    pub(crate) further: u64,
    /// True if the events of too many users are counted for those of the reader to be counted, too.
    pub(crate) is_beyond: bool,
}

impl EventCounts {
    /// Counts an event of a user, or of the site.
    pub(crate) fn add(&mut self, uid: Option<u32>, code: Status) {
        if self.is_beyond(uid) {
            self.further = self.further.saturating_add(1);
            return;
        }
        let user = self.users.entry(uid).or_default();
        let is_counted = user.codes.len() < MAX_CODES_OF_USER || user.codes.contains_key(&code.0);
        let count = if is_counted {
            user.codes.entry(code.0).or_default()
        } else {
            &mut user.further
        };
        *count = count.saturating_add(1);
    }

    /// Returns true if there is no room to count the events of a user.
    fn is_beyond(&self, uid: Option<u32>) -> bool {
        self.users.len() >= MAX_USERS && !self.users.contains_key(&uid)
    }

    /// Returns the numbers that a reader may see: of all events, or of those of its procs and modules.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> VisibleEventCounts {
        let mut visible = VisibleEventCounts {
            is_beyond: viewer
                .only_user()
                .is_some_and(|uid| self.is_beyond(Some(uid))),
            ..VisibleEventCounts::default()
        };
        let users: Vec<&UserEventCounts> = match viewer {
            ActivityViewer::Admin => {
                visible.further = self.further;
                self.users.values().collect()
            }
            ActivityViewer::User(uid) => self.users.get(&Some(uid)).into_iter().collect(),
        };
        for user in users {
            for (code, count) in &user.codes {
                let sum = visible.codes.entry(*code).or_default();
                *sum = sum.saturating_add(*count);
            }
            visible.further = visible.further.saturating_add(user.further);
        }
        visible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_with_many_codes_takes_no_counter_of_others() {
        let mut counts = EventCounts::default();
        for code in 0..1000 {
            counts.add(Some(7), Status(-code));
        }
        counts.add(Some(8), Status(-3001));
        counts.add(None, Status(-3001));
        let own = counts.visible(ActivityViewer::User(7));
        assert_eq!(own.codes.len(), MAX_CODES_OF_USER);
        assert_eq!(own.further, 1000 - MAX_CODES_OF_USER as u64);
        let other = counts.visible(ActivityViewer::User(8));
        assert_eq!((other.codes, other.further), ([(-3001, 1)].into(), 0));
        let all = counts.visible(ActivityViewer::Admin);
        assert_eq!(all.codes.get(&-3001), Some(&2));
    }

    #[test]
    fn events_of_further_users_are_counted_together() {
        let mut counts = EventCounts::default();
        let users = u32::try_from(MAX_USERS).unwrap() + 10;
        (0..users).for_each(|uid| counts.add(Some(uid), Status(-1)));
        let all = counts.visible(ActivityViewer::Admin);
        assert_eq!(
            (all.codes.get(&-1).copied(), all.further),
            (Some(MAX_USERS as u64), 10)
        );
        let is_beyond = |uid| counts.visible(ActivityViewer::User(uid)).is_beyond;
        assert_eq!([0, users - 1].map(is_beyond), [false, true]);
    }
}
