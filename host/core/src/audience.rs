//! Whom an event reaches: its range, its own list of targets, and what a registration asks for.
use peal_model::{Event, Nspace, Proc, Range, Status};
use std::collections::BTreeSet;

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

/// What a client asked to hear: the server's side of its registrations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interest {
    /// These codes, or none for a default registration.
    codes: Option<BTreeSet<Status>>,
    /// If any are named, only events that affect one of them.
    affected: Vec<Proc>,
}

impl Interest {
    /// An interest in these codes (none: all), perhaps only where these procs are affected (none: wherever).
    pub fn new(codes: &[Status], affected: Vec<Proc>) -> Interest {
        let codes = (!codes.is_empty()).then(|| codes.iter().copied().collect());
        Interest { codes, affected }
    }

    /// Whether an event is of this interest. A default registration passes by events marked non-default, and the filter by
    /// affected procs holds only where the event names some.
    pub fn covers(&self, event: &Event) -> bool {
        let code = match &self.codes {
            Some(codes) => codes.contains(&event.code),
            None => !event.is_non_default(),
        };
        if !code || self.affected.is_empty() {
            return code;
        }
        let named = event.affected();
        named.is_empty() || named.iter().any(|proc| self.affected.iter().any(|wanted| wanted.overlaps(proc)))
    }

    /// Drops these codes; `Status::DEFAULT_HANDLER` drops a default registration. Returns whether anything is left.
    pub fn forget(&mut self, codes: &[Status]) -> bool {
        match &mut self.codes {
            Some(known) => {
                known.retain(|code| !codes.contains(code));
                !known.is_empty()
            }
            None => !codes.contains(&Status::DEFAULT_HANDLER),
        }
    }
}
