//! Whom an event reaches: its range, its own list of targets, and what a registration asks for.
use peal_model::{Event, Nspace, Proc, Range, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Whether an event is to be delivered to this proc: its source never hears it again from a server.
pub fn is_meant_for(event: &Event, proc: &Proc) -> bool {
    event.source.as_ref() != Some(proc) && includes(event, proc)
}

/// Whether this proc is among those that an event is meant for, by range and targets alone.
pub fn includes(event: &Event, proc: &Proc) -> bool {
    if let Some(targets) = event.custom_targets() {
        return targets.iter().any(|target| target.covers(proc));
    }
    match event.range {
        Range::Local | Range::Session | Range::Global => true,
        Range::Namespace => job_of(event).is_some_and(|nspace| nspace == proc.nspace),
        Range::ProcLocal => event.source.as_ref() == Some(proc),
        Range::Undef | Range::Rm | Range::Custom => false,
    }
}

/// Whether an event concerns the procs of this namespace, so that the namespace's own hosted handlers see it.
/// Unlike the source itself, its namespace's handlers do see what it raised.
pub fn concerns(event: &Event, nspace: &Nspace) -> bool {
    if let Some(targets) = event.custom_targets() {
        return targets.iter().any(|target| target.nspace == *nspace);
    }
    match event.range {
        Range::Local | Range::Session | Range::Global => true,
        Range::Namespace => job_of(event).is_some_and(|job| job == *nspace),
        Range::Undef | Range::Rm | Range::Custom | Range::ProcLocal => false,
    }
}

/// Whether an event affects one of these procs. Naming none means all, and so does an event that does not say whom it affects.
pub fn affects(event: &Event, wanted: &[Proc]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let named = event.affected();
    named.is_empty() || named.iter().any(|proc| wanted.iter().any(|wanted| wanted.overlaps(proc)))
}

/// Whether other servers must hear of it.
pub fn leaves_node(event: &Event) -> bool {
    matches!(event.range, Range::Namespace | Range::Session | Range::Global | Range::Custom)
}

/// The namespace that a namespace range means: the source's, or for an event of the resource manager that of the procs
/// it says are affected.
fn job_of(event: &Event) -> Option<Nspace> {
    match &event.source {
        Some(source) => Some(source.nspace.clone()),
        None => event.affected().into_iter().next().map(|proc| proc.nspace),
    }
}

/// What a client asked to hear: the server's side of its registrations. Clients name codes when they want them no more, so
/// that is all there is to remember: which codes, and under which filters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interests(BTreeMap<Filter, Codes>);

/// If any procs are named, only events that affect one of them.
type Filter = Vec<Proc>;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Codes {
    /// These codes ...
    some: BTreeSet<Status>,
    /// ... and perhaps all: a default registration.
    all: bool,
}

impl Interests {
    /// Adds an interest in these codes (none: all), perhaps only where these procs are affected (none: wherever).
    pub fn add(&mut self, codes: &[Status], mut affected: Vec<Proc>) {
        affected.sort_unstable();
        affected.dedup();
        let known = self.0.entry(affected).or_default();
        known.all |= codes.is_empty();
        known.some.extend(codes);
    }

    /// Whether an event is of interest. A default registration passes by events marked non-default.
    pub fn cover(&self, event: &Event) -> bool {
        let has = |codes: &Codes| codes.some.contains(&event.code) || (codes.all && !event.is_non_default());
        self.0.iter().any(|(filter, codes)| has(codes) && affects(event, filter))
    }

    /// Drops these codes; `Status::DEFAULT_HANDLER` drops the default registration.
    pub fn forget(&mut self, codes: &[Status]) {
        self.0.retain(|_, known| {
            known.some.retain(|code| !codes.contains(code));
            known.all &= !codes.contains(&Status::DEFAULT_HANDLER);
            known.all || !known.some.is_empty()
        });
    }

    /// How many codes and filters are remembered.
    pub fn len(&self) -> usize {
        self.0.iter().map(|(filter, codes)| filter.len() + codes.some.len() + 1).sum()
    }

    /// Whether nothing is of interest.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
