//! The hook of events: a client, or a handler of a tenant, raises an event.
use super::{BuiltInRule, Hook, HookSubject, replace};
use crate::{Amendment, Info, Infos, Range, Status, key};
use serde::{Deserialize, Serialize};

/// An event that is raised, as its policies see it. The targets of the request are those of the
/// range custom.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EventSubject {
    /// Event code.
    pub code: Status,
    /// Range of the event.
    pub range: Range,
    /// Infos of the event.
    pub infos: Vec<Info>,
}

impl HookSubject for EventSubject {
    fn hook(&self) -> Hook {
        Hook::Event
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::OwnSource {
            // With this key a proc names another source than itself.
            claimed: self.infos.value_of(key::PMIX_EVENT_PROXY),
        }
    }

    fn summary(&self, _targets: usize) -> String {
        format!("event {}, range {}", self.code, self.range)
    }

    fn infos(&self) -> &[Info] {
        &self.infos
    }

    fn granted(&self) -> &[Info] {
        // An event has no directives: its infos are what continues.
        &self.infos
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.infos, amendment.infos);
        // A policy must not let an event reach procs that its source does not address.
        if let Some(range) = amendment.range.filter(|range| range.is_within(self.range)) {
            self.range = range;
        }
    }

    fn range(&self) -> Option<Range> {
        Some(self.range)
    }
}
