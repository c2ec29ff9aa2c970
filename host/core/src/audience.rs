//! Whom an event reaches: its range, its own list of targets, and what a registration asks for.
use crate::class::{Affects, Class, ClassFilter, EventSummary, Marking};
use peal_model::{Event, Infos, KeyName, Nspace, Proc, Range, Rank, Status, rank};
use std::collections::{BTreeMap, BTreeSet};

/// Under this key an event says that a server raised it in the name of its source, which therefore hears it like others. Clients and
/// modules cannot say so.
pub(crate) const BY_SERVER: KeyName = KeyName("peal.event.by_server");

/// Whether this proc is among those that an event is meant for, by range and targets alone.
pub fn includes(event: &Event, proc: &Proc) -> bool {
    EventTargets::of(event).includes(event, proc)
}

/// Whether an event concerns the procs of this namespace, so that the namespace's own hosted handlers see it.
/// Unlike the source itself, its namespace's handlers do see what it raised.
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

/// Whom an event names, in a form that is asked quickly: events and filters may both name thousands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EventTargets {
    affected: ProcSet,
    targets: Option<ProcSet>,
    /// The namespaces that a namespace range means.
    jobs: Vec<Nspace>,
    /// Whether its source has raised it itself, and need not hear it.
    by_source: bool,
}

impl EventTargets {
    /// That of this event.
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

    /// Whether its event is to be delivered to this proc: a source that raised it itself never hears it again from a server.
    pub(crate) fn is_meant_for(&self, event: &Event, proc: &Proc) -> bool {
        !(self.by_source && event.source.as_ref() == Some(proc)) && self.includes(event, proc)
    }

    /// Whether it says whom its event affects.
    pub(crate) fn names_affected(&self) -> bool {
        !self.affected.0.is_empty()
    }

    /// Whether it has a list of targets.
    pub(crate) fn names_targets(&self) -> bool {
        self.targets.is_some()
    }

    /// Whether it has a list of targets, and this proc is one.
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

    /// Whether it may include procs of this namespace, so that they need be asked about one by one.
    pub(crate) fn may_include(&self, event: &Event, nspace: &Nspace) -> bool {
        match &self.targets {
            Some(targets) => targets.overlaps(&Proc::all(nspace.clone())),
            None => event.range != Range::Namespace || self.jobs.contains(nspace),
        }
    }

    /// Whether its event affects one of these procs, or anybody: nobody is named on one side or the other.
    pub(crate) fn affects(&self, wanted: &[Proc]) -> bool {
        self.affected.0.is_empty()
            || wanted.is_empty()
            || wanted.iter().any(|proc| self.affected.overlaps(proc))
    }
}

/// Procs, and all procs of some jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcSet(BTreeSet<Proc>);

impl ProcSet {
    /// Of these; the wildcard rank means all procs of its job.
    pub fn of(procs: Vec<Proc>) -> ProcSet {
        ProcSet(procs.into_iter().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it holds this proc, or all of its job.
    pub(crate) fn covers(&self, proc: &Proc) -> bool {
        self.0.contains(proc) || self.0.contains(&Proc::all(proc.nspace.clone()))
    }

    /// Whether some proc is in it and covered by this pattern.
    fn overlaps(&self, pattern: &Proc) -> bool {
        if pattern.rank != rank::PMIX_RANK_WILDCARD {
            return self.covers(pattern);
        }
        let first = Proc::new(pattern.nspace.clone(), Rank(0));
        self.0
            .range(first..)
            .next()
            .is_some_and(|next| next.nspace == pattern.nspace)
    }

    /// Those that it was made of.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.0.iter()
    }
}

/// Whether other servers must hear of it.
pub fn leaves_node(event: &Event) -> bool {
    let is_wide = matches!(
        event.range,
        Range::Namespace | Range::Session | Range::Global | Range::Custom
    );
    is_wide && !event.stays_local()
}

/// The namespaces that a namespace range means: the source's, or for an event of the resource manager those of the procs
/// that it affects.
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

/// What a client asked to hear: the server's side of its registrations. Clients name codes when they want them no more, so
/// that is all there is to remember: which codes, and under which filters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeerRegistrations(BTreeMap<CodeFilter, CodeFilters>);

/// Which events of a code are wanted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct CodeFilter {
    /// Only those of these classes.
    levels: ClassFilter,
    /// If any procs are named, only events that affect one of them.
    affected: Vec<Proc>,
}

/// Whether an event is of interest, as far as its head tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coverage {
    /// It is not.
    Uncovered,
    /// It is if it affects the right procs: the event must be looked at.
    IfAffected,
    /// It is.
    Covered,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct CodeFilters {
    /// These codes ...
    some: BTreeSet<Status>,
    /// ... and perhaps all: a default registration.
    all: bool,
}

impl PeerRegistrations {
    /// Adds an interest in these codes (none: all), of these classes, perhaps only where these procs are affected (none:
    /// wherever). Asking for neither class adds nothing.
    pub fn add(&mut self, codes: &[Status], levels: ClassFilter, mut affected: Vec<Proc>) {
        if levels == ClassFilter::Neither {
            return;
        }
        affected.sort_unstable();
        affected.dedup();
        let known = self.0.entry(CodeFilter { levels, affected }).or_default();
        known.all |= codes.is_empty();
        known.some.extend(codes);
    }

    /// Whether an event is of interest.
    pub fn want(&self, event: &Event) -> bool {
        let aim = EventTargets::of(event);
        self.cover(&EventSummary::of(event, &aim), &aim)
    }

    /// Whether an event of this head and aim is of interest. A default registration passes by events marked non-default.
    pub(crate) fn cover(&self, head: &EventSummary, aim: &EventTargets) -> bool {
        self.filters(head)
            .any(|filter| aim.affects(&filter.affected))
    }

    /// Whether an event of this head is of interest, as far as that tells.
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

    /// The filters under which events of such a head are wanted.
    fn filters(&self, head: &EventSummary) -> impl Iterator<Item = &CodeFilter> {
        let has = |codes: &CodeFilters| {
            codes.some.contains(&head.code) || (codes.all && head.marking == Marking::Ordinary)
        };
        self.0
            .iter()
            .filter(move |(filter, codes)| filter.levels.include(head.class) && has(codes))
            .map(|(of, _)| of)
    }

    /// Whether events of this class and code are of interest; without a code, those of all codes.
    pub(crate) fn hears(&self, class: Class, code: Option<Status>) -> bool {
        let has =
            |codes: &CodeFilters| codes.all || code.is_some_and(|code| codes.some.contains(&code));
        self.0
            .iter()
            .any(|(filter, codes)| filter.levels.include(class) && has(codes))
    }

    /// Whether events of the environment of this very code were asked for; `Status::DEFAULT_HANDLER` means those of all codes.
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

    /// Whether events of this very code were asked for, whatever their class.
    pub(crate) fn names_code(&self, code: Status) -> bool {
        self.0.values().any(|codes| codes.some.contains(&code))
    }

    /// Drops these codes; `Status::DEFAULT_HANDLER` drops the default registration.
    pub fn forget(&mut self, codes: &BTreeSet<Status>) {
        self.0.retain(|_, known| {
            known.some.retain(|code| !codes.contains(code));
            known.all &= !codes.contains(&Status::DEFAULT_HANDLER);
            known.all || !known.some.is_empty()
        });
    }

    /// How many codes and filters are remembered.
    pub fn len(&self) -> usize {
        self.0
            .iter()
            .map(|(filter, codes)| filter.affected.len() + codes.some.len() + 1)
            .sum()
    }

    /// Whether nothing is of interest.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
