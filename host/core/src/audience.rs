//! Recipients of an event, by its range, its targets, and the registrations of peers.
pub use crate::event_targets::ProcSet;
use crate::{
    class::{AffectedProcs, Class, ClassFilter, DefaultDelivery, EventSummary},
    event_targets::{EventTargets, jobs_of},
};
use peal_model::{Event, Nspace, Proc, Range, Status};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Returns true if an event is meant for a proc, by range and targets alone.
pub fn includes(event: &Event, proc: &Proc) -> bool {
    EventTargets::of(event).includes(event, proc)
}

/// Returns true if an event concerns the procs of a namespace, so that the namespace's hosted
/// handlers see it. Handlers also see events that their own namespace raised.
pub fn concerns(event: &Event, nspace: &Nspace) -> bool {
    if let Some(targets) = event.custom_targets() {
        return targets.iter().any(|target| target.nspace == *nspace);
    }
    match event.range {
        Range::Local | Range::Session | Range::Global => true,
        Range::Namespace => jobs_of(event).contains(nspace),
        // A custom range without targets names no proc. Range RM is for the host environment alone.
        Range::Undef | Range::Rm | Range::Custom | Range::ProcLocal => false,
    }
}

/// Returns true if other servers must receive the event.
pub fn leaves_node(event: &Event) -> bool {
    let is_wide = matches!(
        event.range,
        Range::Namespace | Range::Session | Range::Global | Range::Custom
    );
    is_wide && !event.stays_local()
}

/// The server's side of a client's registrations. Clients deregister by code, so only the codes and
/// their filters are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeerRegistrations(BTreeMap<CodeFilter, CodeFilters>);

/// A filter for the events of a code.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
struct CodeFilter {
    /// The event classes.
    levels: ClassFilter,
    /// If not empty, only events that affect one of these procs pass.
    affected: Vec<Proc>,
}

/// The degree to which registrations cover an event, as far as its summary shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coverage {
    /// The event is not covered.
    Uncovered,
    /// The event is covered if it affects the right procs, which takes the event itself.
    IfAffected,
    /// The event is covered.
    Covered,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct CodeFilters {
    /// Single codes.
    codes: BTreeSet<Status>,
    /// True for every code: a default registration.
    all: bool,
}

impl PeerRegistrations {
    /// Adds a registration for codes (none: every code), event classes and affected procs (none:
    /// any). The class filter `Neither` adds nothing.
    pub fn add(&mut self, codes: &[Status], levels: ClassFilter, mut affected: Vec<Proc>) {
        if levels == ClassFilter::Neither {
            return;
        }
        // The filter is the key of an entry: registrations for the same procs must compare as
        // equal.
        affected.sort_unstable();
        affected.dedup();
        let known = self.0.entry(CodeFilter { levels, affected }).or_default();
        known.all |= codes.is_empty();
        known.codes.extend(codes);
    }

    /// Returns true if an event is covered.
    pub fn covers_event(&self, event: &Event) -> bool {
        let aim = EventTargets::of(event);
        self.cover(&EventSummary::of(event, &aim), &aim)
    }

    /// Returns true if an event with this summary and these targets is covered. Default
    /// registrations do not cover events marked `PMIX_EVENT_NON_DEFAULT`.
    pub(crate) fn cover(&self, head: &EventSummary, aim: &EventTargets) -> bool {
        self.filters(head)
            .any(|filter| aim.affects(&filter.affected))
    }

    /// Returns the degree of coverage of an event with this summary.
    pub(crate) fn coverage(&self, head: &EventSummary) -> Coverage {
        let always =
            |filter: &CodeFilter| head.affects == AffectedProcs::Any || filter.affected.is_empty();
        self.filters(head)
            .fold(Coverage::Uncovered, |found, filter| match found {
                Coverage::Covered => found,
                _ if always(filter) => Coverage::Covered,
                _ => Coverage::IfAffected,
            })
    }

    /// Returns the filters under which events with this summary are registered.
    fn filters(&self, head: &EventSummary) -> impl Iterator<Item = &CodeFilter> {
        let has = |codes: &CodeFilters| {
            codes.codes.contains(&head.code)
                || (codes.all && head.marking == DefaultDelivery::Ordinary)
        };
        self.0
            .iter()
            .filter(move |(filter, codes)| filter.levels.include(head.class) && has(codes))
            .map(|(of, _)| of)
    }

    /// Returns true if events of this class and code are covered; without a code, those of every
    /// code.
    pub(crate) fn covers_code(&self, class: Class, code: Option<Status>) -> bool {
        let has =
            |codes: &CodeFilters| codes.all || code.is_some_and(|code| codes.codes.contains(&code));
        self.0
            .iter()
            .any(|(filter, codes)| filter.levels.include(class) && has(codes))
    }

    /// Returns true if environment events of exactly this code are registered;
    /// `Status::DEFAULT_HANDLER` means those of every code.
    pub(crate) fn has_environment_code(&self, code: Status) -> bool {
        let has = |codes: &CodeFilters| {
            if code == Status::DEFAULT_HANDLER {
                codes.all
            } else {
                codes.codes.contains(&code)
            }
        };
        self.0
            .iter()
            .any(|(filter, codes)| filter.levels.include(Class::Environment) && has(codes))
    }

    /// Returns true if events of exactly this code are registered, of any class.
    pub(crate) fn names_code(&self, code: Status) -> bool {
        self.0.values().any(|codes| codes.codes.contains(&code))
    }

    /// Removes codes; `Status::DEFAULT_HANDLER` removes the default registration.
    pub fn forget(&mut self, codes: &BTreeSet<Status>) {
        self.0.retain(|_, known| {
            known.codes.retain(|code| !codes.contains(code));
            known.all &= !codes.contains(&Status::DEFAULT_HANDLER);
            known.all || !known.codes.is_empty()
        });
    }

    /// Returns the number of codes and filters.
    pub fn len(&self) -> usize {
        self.0
            .iter()
            // The 1 is the filter itself. Without it, default registrations would not count.
            .map(|(filter, codes)| filter.affected.len() + codes.codes.len() + 1)
            .sum()
    }

    /// Returns true if there are no registrations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
