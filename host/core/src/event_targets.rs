//! The procs that an event names: its targets and the procs that it affects.
use peal_model::{Event, Infos, KeyName, Nspace, Proc, Range, Rank, rank};
use std::collections::BTreeSet;

/// Key of an info that marks an event as raised by a server in the name of its source, which then
/// receives it as other procs do. Clients and modules cannot set it.
pub(crate) const BY_SERVER: KeyName = KeyName("peal.event.by_server");

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
        // Other ranges do not look at the jobs, so the list need not be sorted for them.
        let jobs = if event.range == Range::Namespace {
            jobs_of(event)
        } else {
            Vec::new()
        };
        let affected = ProcSet::of(event.affected());
        let targets = event.custom_targets().map(ProcSet::of);
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

    /// Returns the ranks of a job that the event's list of targets names one by one. Without such a list, or
    /// with the whole job in it, the event may be meant for any rank.
    pub(crate) fn named_ranks(&self, nspace: &Nspace) -> Option<impl Iterator<Item = Rank>> {
        let targets = self.targets.as_ref()?;
        let is_whole = targets.0.contains(&Proc::all(nspace.clone()));
        (!is_whole).then(|| targets.ranks_of(nspace))
    }

    pub(crate) fn includes(&self, event: &Event, proc: &Proc) -> bool {
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
        if procs.is_empty() {
            return ProcSet(BTreeSet::new());
        }
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
        self.ranks_of(&pattern.nspace).next().is_some()
    }

    /// Returns the ranks of a job that are in the set.
    fn ranks_of(&self, nspace: &Nspace) -> impl Iterator<Item = Rank> {
        // Procs are sorted by namespace, then by rank.
        let first = Proc::new(nspace.clone(), Rank(0));
        self.0
            .range(first..)
            .take_while(move |proc| proc.nspace == *nspace)
            .map(|proc| proc.rank)
    }

    /// Returns the procs that the set was made of.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.0.iter()
    }
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
            // Several affected procs may be of one job.
            jobs.sort_unstable();
            jobs.dedup();
            jobs
        }
    }
}
