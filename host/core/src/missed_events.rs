//! Numbers of events that found no room on their way from one server to another.
use crate::{
    class::{Class, EventSummary},
    event_targets::EventTargets,
    user_scope::UserScope,
};
use peal_model::{Event, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest number of scopes and codes that are counted by themselves.
const MAX_COUNTS: usize = 64;

/// Numbers of events about jobs that one server could not send to another, by user scope and code.
/// The receiver tells its procs, so that no event about a job is lost uncounted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MissedEvents {
    counts: BTreeMap<(UserScope, Status), u64>,
    /// Events of scopes and codes without a count of their own.
    others: u64,
    /// Environment events. The Standard lets a server forget these.
    environment: u64,
}

impl MissedEvents {
    /// Counts an event for the users of a scope.
    pub fn count(&mut self, event: &Event, reach: UserScope) {
        let class = EventSummary::of(event, &EventTargets::of(event)).class;
        if class == Class::Environment {
            self.environment = self.environment.saturating_add(1);
            return;
        }
        let is_full = self.counts.len() >= MAX_COUNTS;
        let key = (reach, event.code);
        let count = match self.counts.get_mut(&key) {
            Some(count) => count,
            None if is_full => &mut self.others,
            None => self.counts.entry(key).or_default(),
        };
        *count = count.saturating_add(1);
    }

    /// Returns true if none was counted.
    pub fn is_empty(&self) -> bool {
        *self == MissedEvents::default()
    }

    /// Returns the number of all events.
    pub fn total(&self) -> u64 {
        let counts = self.counts.values().copied();
        let unnamed = [self.others, self.environment];
        counts.chain(unnamed).fold(0, u64::saturating_add)
    }

    /// Returns the numbers of events about jobs, by scope and code. Those without a count of their own
    /// may be for anybody and of any code. A sender that counts more scopes and codes than it may is
    /// believed about the first ones.
    pub(crate) fn about_jobs(&self) -> impl Iterator<Item = (UserScope, Option<Status>, u64)> {
        let counts = self.counts.iter().take(MAX_COUNTS);
        let counts = counts.map(|((reach, code), number)| (*reach, Some(*code), *number));
        let others = (self.others > 0).then_some((UserScope::Everybody, None, self.others));
        counts.chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Info, Proc, Range, Rank, Value, key};

    #[test]
    fn events_beyond_the_counts_are_counted_together() {
        let job = peal_model::Nspace::new("job").unwrap();
        let affected = Value::Proc(Proc::new(job, Rank(0)));
        let event = |code| Event {
            code: Status(code),
            source: None,
            range: Range::Global,
            infos: vec![Info::new(key::PMIX_EVENT_AFFECTED_PROC, affected.clone())],
        };
        let mut missed = MissedEvents::default();
        assert!(missed.is_empty());
        for code in 0..100 {
            missed.count(&event(-code), UserScope::User(7));
            missed.count(&event(-1), UserScope::Everybody);
        }
        let counts: Vec<_> = missed.about_jobs().collect();
        assert_eq!(counts.len(), MAX_COUNTS + 1);
        assert!(counts.contains(&(UserScope::Everybody, Some(Status(-1)), 100)));
        assert_eq!(counts.last().map(|(_, code, _)| *code), Some(None));
        assert_eq!(counts.iter().map(|(.., number)| number).sum::<u64>(), 200);
        assert_eq!(missed.total(), 200);
    }
}
