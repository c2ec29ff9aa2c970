//! Directory of jobs: their servers, owners, and ended procs.
use super::{JobSummary, ServerId};
use peal_model::{NamedProcs, Nspace, Proc, Rank, UserIdentity, rank};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::RangeInclusive,
};

/// Number of removed jobs that are remembered, to distinguish them from unknown ones.
const GONE: usize = 1024;

/// A job.
#[derive(Debug)]
struct KnownJob {
    at: ServerId,
    facts: JobSummary,
    /// Ended procs. A server knows those of its own jobs, the coordinator those of all.
    ended: BTreeSet<Rank>,
    /// Ranks on the node of the job's server, if some are on others.
    local: Option<BTreeSet<Rank>>,
}

impl KnownJob {
    fn is_on_node(&self, rank: Rank) -> bool {
        self.local
            .as_ref()
            .is_none_or(|local| local.contains(&rank))
    }
}

/// All known jobs.
#[derive(Debug, Default)]
pub(super) struct JobDirectory {
    jobs: BTreeMap<Nspace, KnownJob>,
    /// The jobs of each server.
    at: BTreeMap<ServerId, BTreeSet<Nspace>>,
    /// The jobs removed last. Collectives need not wait for their procs.
    removed_jobs: VecDeque<Nspace>,
}

/// The known state of a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProcLocation {
    /// The proc exists.
    Lives,
    /// The proc has ended.
    Ended,
    /// The proc's job is not known yet.
    Unknown,
}

/// Returns true if a rank stands for all procs of its job.
pub(super) fn is_wildcard(rank: Rank) -> bool {
    rank == rank::PMIX_RANK_WILDCARD
}

impl JobDirectory {
    pub(super) fn add(&mut self, nspace: Nspace, at: ServerId, facts: JobSummary) {
        // A later job may have the name of a removed one.
        self.removed_jobs.retain(|gone| *gone != nspace);
        self.at.entry(at).or_default().insert(nspace.clone());
        self.jobs.insert(
            nspace,
            KnownJob {
                at,
                facts,
                ended: BTreeSet::new(),
                local: None,
            },
        );
    }

    /// Records the ranks of a job that are on the node of its server. Returns those that were on other
    /// nodes.
    pub(super) fn place(&mut self, nspace: &Nspace, local: BTreeSet<Rank>) -> Vec<Rank> {
        let Some(job) = self.jobs.get_mut(nspace) else {
            return Vec::new();
        };
        let arrived = local.iter().filter(|rank| !job.is_on_node(**rank));
        let arrived = arrived.copied().collect();
        let are_all = u32::try_from(local.len()).is_ok_and(|count| count >= job.facts.size);
        job.local = (!are_all).then_some(local);
        arrived
    }

    /// Returns the named procs that are on other nodes than their job's server.
    pub(super) fn on_other_nodes(&self, named: &NamedProcs) -> Vec<Proc> {
        let is_placed = |procs: &&[Proc]| {
            let first = procs.first();
            first.is_some_and(|proc| self.is_placed(&proc.nspace))
        };
        let placed = named.of_each_job().filter(is_placed).flatten();
        let procs = placed.filter_map(|named| self.procs(named)).flatten();
        procs.filter(|proc| !self.is_on_node(proc)).collect()
    }

    /// Returns true if any of the named procs has ended, as far as this server knows.
    pub(super) fn has_ended(&self, named: &NamedProcs) -> bool {
        let procs = named.iter().filter_map(|named| self.procs(named)).flatten();
        let mut procs = procs.map(|proc| self.whereabouts(&proc));
        procs.any(|location| location == ProcLocation::Ended)
    }

    /// Returns true if some procs of a job are on other nodes than its server.
    pub(super) fn is_placed(&self, nspace: &Nspace) -> bool {
        let job = self.jobs.get(nspace);
        job.is_some_and(|job| job.local.is_some())
    }

    fn is_on_node(&self, proc: &Proc) -> bool {
        let job = self.jobs.get(&proc.nspace);
        job.is_none_or(|job| job.is_on_node(proc.rank))
    }

    /// Removes a job and returns its procs.
    pub(super) fn remove(&mut self, nspace: &Nspace) -> Vec<Proc> {
        let Some(job) = self.jobs.remove(nspace) else {
            return Vec::new();
        };
        if let Some(jobs) = self.at.get_mut(&job.at) {
            jobs.remove(nspace);
        }
        // The list would otherwise grow with each job that ends.
        if self.removed_jobs.len() >= GONE {
            self.removed_jobs.pop_front();
        }
        self.removed_jobs.push_back(nspace.clone());
        (0..job.facts.size)
            .map(|rank| Proc::new(nspace.clone(), Rank(rank)))
            .collect()
    }

    /// Removes a server with its jobs and returns their procs.
    pub(super) fn server_left(&mut self, server: ServerId) -> Vec<Proc> {
        let theirs: Vec<Nspace> = self.of(server).map(|(nspace, _)| nspace).collect();
        let procs = theirs
            .iter()
            .flat_map(|nspace| self.remove(nspace))
            .collect();
        self.at.remove(&server);
        procs
    }

    /// Returns the jobs of a server.
    pub(super) fn of(
        &self,
        server: ServerId,
    ) -> impl Iterator<Item = (Nspace, JobSummary)> + use<> {
        let theirs = self.at.get(&server).into_iter().flatten();
        let known =
            theirs.filter_map(|nspace| Some((nspace.clone(), self.jobs.get(nspace)?.facts)));
        // Collected, so that callers may change the directory while they iterate.
        known.collect::<Vec<_>>().into_iter()
    }

    /// Returns the ended procs of a job.
    pub(super) fn ended_of(&self, nspace: &Nspace) -> BTreeSet<Rank> {
        self.jobs
            .get(nspace)
            .map(|job| job.ended.clone())
            .unwrap_or_default()
    }

    /// Marks a proc as ended. Returns true if it was not.
    pub(super) fn end(&mut self, proc: &Proc) -> bool {
        self.jobs
            .get_mut(&proc.nspace)
            .is_some_and(|job| proc.rank.0 < job.facts.size && job.ended.insert(proc.rank))
    }

    /// Marks an ended proc as running. Returns true if it had ended.
    pub(super) fn mark_running(&mut self, proc: &Proc) -> bool {
        self.jobs
            .get_mut(&proc.nspace)
            .is_some_and(|job| job.ended.remove(&proc.rank))
    }

    /// Returns the server of a job.
    pub(super) fn home(&self, nspace: &Nspace) -> Option<ServerId> {
        self.jobs.get(nspace).map(|job| job.at)
    }

    /// Returns the user that a job runs as.
    pub(super) fn owner(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.jobs.get(nspace).map(|job| job.facts.owner)
    }

    pub(super) fn is_at(&self, nspace: &Nspace, server: ServerId) -> bool {
        self.home(nspace) == Some(server)
    }

    pub(super) fn whereabouts(&self, proc: &Proc) -> ProcLocation {
        match self.jobs.get(&proc.nspace) {
            None if self.removed_jobs.contains(&proc.nspace) => ProcLocation::Ended,
            None => ProcLocation::Unknown,
            Some(job) if job.ended.contains(&proc.rank) => ProcLocation::Ended,
            Some(_) => ProcLocation::Lives,
        }
    }

    /// Returns true if the proc's job is known and has no such rank.
    pub(super) fn is_no_rank(&self, proc: &Proc) -> bool {
        let job = self.jobs.get(&proc.nspace);
        job.is_some_and(|job| !is_wildcard(proc.rank) && proc.rank.0 >= job.facts.size)
    }

    /// Returns the procs that a named proc stands for, if its job is known.
    pub(super) fn procs<'a>(&self, named: &'a Proc) -> Option<ProcSelection<'a>> {
        match self.jobs.get(&named.nspace) {
            Some(job) if is_wildcard(named.rank) => {
                Some(ProcSelection::all_of(&named.nspace, job.facts.size))
            }
            // Only the job's size tells which procs a wildcard stands for. That of a removed job
            // stands for itself, and `whereabouts` returns that it has ended.
            None if is_wildcard(named.rank) && !self.removed_jobs.contains(&named.nspace) => None,
            _ => Some(ProcSelection::just(named)),
        }
    }

    /// Returns the named procs that are on a server and have not ended.
    pub(super) fn living_at(&self, server: ServerId, named: &NamedProcs) -> NamedProcs {
        if named
            // In the usual case all named procs live here. Then the list is shared and not copied.
            .of_each_job()
            .all(|procs| self.all_live_at(server, procs))
        {
            return named.clone();
        }
        let here = named.iter().filter(|proc| self.is_at(&proc.nspace, server));
        let procs = here.filter_map(|named| self.procs(named)).flatten();
        procs
            .filter(|proc| self.whereabouts(proc) == ProcLocation::Lives && self.is_on_node(proc))
            .collect()
    }

    /// Returns true if these procs of one job are named one by one, live, and are on the server.
    fn all_live_at(&self, server: ServerId, procs: &[Proc]) -> bool {
        let job = procs
            .first()
            .and_then(|proc| self.jobs.get(&proc.nspace))
            .filter(|job| job.at == server);
        let lives = |job: &KnownJob, proc: &Proc| {
            !is_wildcard(proc.rank) && !job.ended.contains(&proc.rank) && job.is_on_node(proc.rank)
        };
        job.is_some_and(|job| procs.iter().all(|proc| lives(job, proc)))
    }

    /// Returns the servers of procs.
    pub(super) fn homes<'a>(&self, procs: impl Iterator<Item = &'a Proc>) -> BTreeSet<ServerId> {
        // Procs of a job follow each other, so each run of them costs one lookup.
        let mut last = None;
        let jobs = procs
            .map(|proc| &proc.nspace)
            .filter(|nspace| last.replace(*nspace) != Some(*nspace));
        jobs.filter_map(|nspace| self.home(nspace)).collect()
    }
}

/// The procs that a named proc stands for: itself, or all of its job.
#[derive(Clone, Debug)]
pub(super) struct ProcSelection<'a> {
    nspace: &'a Nspace,
    ranks: RangeInclusive<u32>,
}

impl<'a> ProcSelection<'a> {
    /// Selects the named proc only.
    pub(super) fn just(named: &'a Proc) -> ProcSelection<'a> {
        ProcSelection {
            nspace: &named.nspace,
            ranks: named.rank.0..=named.rank.0,
        }
    }

    fn all_of(nspace: &'a Nspace, size: u32) -> ProcSelection<'a> {
        // No inclusive range from 0 on is empty, as that of a job without procs must be.
        let none = RangeInclusive::new(1, 0);
        ProcSelection {
            nspace,
            ranks: size.checked_sub(1).map_or(none, |last| 0..=last),
        }
    }
}

impl Iterator for ProcSelection<'_> {
    type Item = Proc;

    fn next(&mut self) -> Option<Proc> {
        self.ranks
            .next()
            .map(|rank| Proc::new(self.nspace.clone(), Rank(rank)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}
