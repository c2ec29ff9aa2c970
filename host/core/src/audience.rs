//! Recipients of an event, by its range, its targets, and the registrations of peers.
use crate::class::{Affects, Class, ClassFilter, EventSummary, Marking};
use peal_model::{Event, Infos, KeyName, Nspace, Proc, Range, Rank, Status, rank};
use std::collections::{BTreeMap, BTreeSet};

/// Key of an info that marks an event as raised by a server in the name of its source, which then
/// receives it as other procs do. Clients and modules cannot set it.
pub(crate) const BY_SERVER: KeyName = KeyName("peal.event.by_server");

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
        Range::Undef | Range::Rm | Range::Custom | Range::ProcLocal => false,
    }
}

/// The targets and affected procs of an event, as sets: events and filters may both name thousands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EventTargets {
    affected: ProcSet,
    targets: Option<ProcSet>,
    /// The namespaces that range `PMIX_RANGE_NAMESPACE` means.
    jobs: Vec<Nspace>,
    /// True if the source raised the event itself and need not receive it.
    by_source: bool,
}

impl EventTargets {
    /// Returns the targets of an event.
    pub(crate) fn of(event: &Event) -> EventTargets {
        let jobs = if event.range == Range::Namespace {
            jobs_of(event)
        } else {
            Vec::new()
        };
        let (affected, targets) = (
            ProcSet::of(event.affected()),
            event.custom_targets().map(ProcSet::of),
        );
        EventTargets {
            affected,
            targets,
            jobs,
            by_source: !event.infos.is_true(BY_SERVER),
        }
    }

    /// Returns true if the event is to be delivered to a proc. A source that raised the event
    /// itself never receives it from a server.
    pub(crate) fn is_meant_for(&self, event: &Event, proc: &Proc) -> bool {
        !(self.by_source && event.source.as_ref() == Some(proc)) && self.includes(event, proc)
    }

    /// Returns true if the event names affected procs.
    pub(crate) fn names_affected(&self) -> bool {
        !self.affected.0.is_empty()
    }

    /// Returns true if the event has a list of targets.
    pub(crate) fn names_targets(&self) -> bool {
        self.targets.is_some()
    }

    /// Returns true if the event's list of targets contains a proc.
    pub(crate) fn names(&self, proc: &Proc) -> bool {
        self.targets
            .as_ref()
            .is_some_and(|targets| targets.covers(proc))
    }

    fn includes(&self, event: &Event, proc: &Proc) -> bool {
        if let Some(targets) = &self.targets {
            return targets.covers(proc);
        }
        match event.range {
            Range::Local | Range::Session | Range::Global => true,
            Range::Namespace => self.jobs.contains(&proc.nspace),
            Range::ProcLocal => event.source.as_ref() == Some(proc),
            Range::Undef | Range::Rm | Range::Custom => false,
        }
    }

    /// Returns true if the event may be meant for procs of a namespace, so that each must be
    /// checked.
    pub(crate) fn may_include(&self, event: &Event, nspace: &Nspace) -> bool {
        match &self.targets {
            Some(targets) => targets.overlaps(&Proc::all(nspace.clone())),
            None => event.range != Range::Namespace || self.jobs.contains(nspace),
        }
    }

    /// Returns true if the event affects one of these procs. Also true if the event or the filter
    /// names no procs.
    pub(crate) fn affects(&self, wanted: &[Proc]) -> bool {
        self.affected.0.is_empty()
            || wanted.is_empty()
            || wanted.iter().any(|proc| self.affected.overlaps(proc))
    }
}

/// A set of procs and whole jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcSet(BTreeSet<Proc>);

impl ProcSet {
    /// Returns the set of these procs. The wildcard rank stands for all procs of its job.
    pub fn of(procs: Vec<Proc>) -> ProcSet {
        ProcSet(procs.into_iter().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the set contains a proc or its whole job.
    pub(crate) fn covers(&self, proc: &Proc) -> bool {
        // Two lookups instead of a comparison with each member: events and filters may name
        // thousands.
        self.0.contains(proc) || self.0.contains(&Proc::all(proc.nspace.clone()))
    }

    /// Returns true if some proc is in the set and covered by a pattern.
    fn overlaps(&self, pattern: &Proc) -> bool {
        if pattern.rank != rank::PMIX_RANK_WILDCARD {
            return self.covers(pattern);
        }
        // Procs are sorted by namespace, then by rank. So the first one from rank 0 on shows
        // whether the set has any proc of the job.
        let first = Proc::new(pattern.nspace.clone(), Rank(0));
        self.0
            .range(first..)
            .next()
            .is_some_and(|next| next.nspace == pattern.nspace)
    }

    /// Returns the procs that the set was made of.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.0.iter()
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

/// Returns the namespaces that range `PMIX_RANGE_NAMESPACE` means: the source's or, for an event of
/// the resource manager, those of the affected procs.
pub(crate) fn jobs_of(event: &Event) -> Vec<Nspace> {
    match &event.source {
        Some(source) => vec![source.nspace.clone()],
        None => {
            let mut jobs: Vec<Nspace> = event
                .affected()
                .into_iter()
                .map(|proc| proc.nspace)
                .collect();
            jobs.sort_unstable();
            jobs.dedup();
            jobs
        }
    }
}

/// The server's side of a client's registrations. Clients deregister by code, so only the codes and
/// their filters are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerRegistrations(BTreeMap<CodeFilter, CodeFilters>);

/// A filter for the events of a code.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
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

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct CodeFilters {
    /// Single codes.
    some: BTreeSet<Status>,
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
        known.some.extend(codes);
    }

    /// Returns true if an event is covered.
    pub fn want(&self, event: &Event) -> bool {
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
            |filter: &CodeFilter| head.affects == Affects::Anybody || filter.affected.is_empty();
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
            codes.some.contains(&head.code) || (codes.all && head.marking == Marking::Ordinary)
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
            |codes: &CodeFilters| codes.all || code.is_some_and(|code| codes.some.contains(&code));
        self.0
            .iter()
            .any(|(filter, codes)| filter.levels.include(class) && has(codes))
    }

    /// Returns true if environment events of exactly this code are registered;
    /// `Status::DEFAULT_HANDLER` means those of every code.
    pub(crate) fn asks_for_environment(&self, code: Status) -> bool {
        let has = |codes: &CodeFilters| {
            if code == Status::DEFAULT_HANDLER {
                codes.all
            } else {
                codes.some.contains(&code)
            }
        };
        self.0
            .iter()
            .any(|(filter, codes)| filter.levels.include(Class::Environment) && has(codes))
    }

    /// Returns true if events of exactly this code are registered, of any class.
    pub(crate) fn names_code(&self, code: Status) -> bool {
        self.0.values().any(|codes| codes.some.contains(&code))
    }

    /// Removes codes; `Status::DEFAULT_HANDLER` removes the default registration.
    pub fn forget(&mut self, codes: &BTreeSet<Status>) {
        self.0.retain(|_, known| {
            known.some.retain(|code| !codes.contains(code));
            known.all &= !codes.contains(&Status::DEFAULT_HANDLER);
            known.all || !known.some.is_empty()
        });
    }

    /// Returns the number of codes and filters.
    pub fn len(&self) -> usize {
        self.0
            .iter()
            // The 1 is the filter itself. Without it, default registrations would not count.
            .map(|(filter, codes)| filter.affected.len() + codes.some.len() + 1)
            .sum()
    }

    /// Returns true if there are no registrations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
