//! Which jobs there are, on which servers, and who of them has ended.
use super::{JobSummary, ServerId};
use peal_model::{NamedProcs, Nspace, Proc, Rank, UserIdentity, rank};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::RangeInclusive,
};

/// How many jobs that are gone are told from those that nobody has heard of.
const GONE: usize = 1024;

/// A job.
#[derive(Debug)]
struct KnownJob {
    at: ServerId,
    facts: JobSummary,
    /// Of its own jobs a server knows who has ended, and the coordinator of all.
    ended: BTreeSet<Rank>,
}

/// All jobs.
#[derive(Debug, Default)]
pub(super) struct JobDirectory {
    jobs: BTreeMap<Nspace, KnownJob>,
    /// Where they are.
    at: BTreeMap<ServerId, BTreeSet<Nspace>>,
    /// The last that are gone: their procs need not be waited for.
    gone: VecDeque<Nspace>,
}

/// What is known of a proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProcLocation {
    /// It is there.
    Lives,
    /// It was.
    Ended,
    /// Nothing, yet.
    Unknown,
}

/// Whether a rank stands for all of its job.
pub(super) fn is_wildcard(rank: Rank) -> bool {
    rank == rank::PMIX_RANK_WILDCARD
}

impl JobDirectory {
    pub(super) fn add(&mut self, nspace: Nspace, at: ServerId, facts: JobSummary) {
        self.gone.retain(|gone| *gone != nspace);
        self.at.entry(at).or_default().insert(nspace.clone());
        self.jobs.insert(
            nspace,
            KnownJob {
                at,
                facts,
                ended: BTreeSet::new(),
            },
        );
    }

    /// A job is gone: who was in it.
    pub(super) fn remove(&mut self, nspace: &Nspace) -> Vec<Proc> {
        let Some(job) = self.jobs.remove(nspace) else {
            return Vec::new();
        };
        if let Some(jobs) = self.at.get_mut(&job.at) {
            jobs.remove(nspace);
        }
        if self.gone.len() >= GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(nspace.clone());
        (0..job.facts.size)
            .map(|rank| Proc::new(nspace.clone(), Rank(rank)))
            .collect()
    }

    /// A server is gone, and all that was there.
    pub(super) fn server_left(&mut self, server: ServerId) -> Vec<Proc> {
        let theirs: Vec<Nspace> = self.of(server).map(|(nspace, _)| nspace).collect();
        let procs = theirs
            .iter()
            .flat_map(|nspace| self.remove(nspace))
            .collect();
        self.at.remove(&server);
        procs
    }

    /// The jobs of a server.
    pub(super) fn of(
        &self,
        server: ServerId,
    ) -> impl Iterator<Item = (Nspace, JobSummary)> + use<> {
        let theirs = self.at.get(&server).into_iter().flatten();
        let known =
            theirs.filter_map(|nspace| Some((nspace.clone(), self.jobs.get(nspace)?.facts)));
        known.collect::<Vec<_>>().into_iter()
    }

    /// Who of a job has ended.
    pub(super) fn ended_of(&self, nspace: &Nspace) -> BTreeSet<Rank> {
        self.jobs
            .get(nspace)
            .map(|job| job.ended.clone())
            .unwrap_or_default()
    }

    /// A proc has ended; whether that is new.
    pub(super) fn end(&mut self, proc: &Proc) -> bool {
        self.jobs
            .get_mut(&proc.nspace)
            .is_some_and(|job| proc.rank.0 < job.facts.size && job.ended.insert(proc.rank))
    }

    /// It is there again; whether that is new.
    pub(super) fn mark_running(&mut self, proc: &Proc) -> bool {
        self.jobs
            .get_mut(&proc.nspace)
            .is_some_and(|job| job.ended.remove(&proc.rank))
    }

    /// Where a job is.
    pub(super) fn home(&self, nspace: &Nspace) -> Option<ServerId> {
        self.jobs.get(nspace).map(|job| job.at)
    }

    /// As whom a job runs.
    pub(super) fn owner(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.jobs.get(nspace).map(|job| job.facts.owner)
    }

    pub(super) fn is_at(&self, nspace: &Nspace, server: ServerId) -> bool {
        self.home(nspace) == Some(server)
    }

    pub(super) fn whereabouts(&self, proc: &Proc) -> ProcLocation {
        match self.jobs.get(&proc.nspace) {
            None if self.gone.contains(&proc.nspace) => ProcLocation::Ended,
            None => ProcLocation::Unknown,
            Some(job) if job.ended.contains(&proc.rank) => ProcLocation::Ended,
            Some(_) => ProcLocation::Lives,
        }
    }

    /// Whether its job is known and has no such rank.
    pub(super) fn is_no_rank(&self, proc: &Proc) -> bool {
        let job = self.jobs.get(&proc.nspace);
        job.is_some_and(|job| !is_wildcard(proc.rank) && proc.rank.0 >= job.facts.size)
    }

    /// The procs that one stands for, if that is known.
    pub(super) fn procs<'a>(&self, named: &'a Proc) -> Option<ProcSelection<'a>> {
        match self.jobs.get(&named.nspace) {
            Some(job) if is_wildcard(named.rank) => {
                Some(ProcSelection::all_of(&named.nspace, job.facts.size))
            }
            None if is_wildcard(named.rank) && !self.gone.contains(&named.nspace) => None,
            _ => Some(ProcSelection::just(named)),
        }
    }

    /// Who of a server's procs is named and there.
    pub(super) fn living_at(&self, server: ServerId, named: &NamedProcs) -> NamedProcs {
        if named
            .of_each_job()
            .all(|procs| self.all_live_at(server, procs))
        {
            return named.clone();
        }
        let here = named.iter().filter(|proc| self.is_at(&proc.nspace, server));
        let procs = here.filter_map(|named| self.procs(named)).flatten();
        procs
            .filter(|proc| self.whereabouts(proc) == ProcLocation::Lives)
            .collect()
    }

    /// Whether these procs of one job are each named and at a server.
    fn all_live_at(&self, server: ServerId, procs: &[Proc]) -> bool {
        let job = procs
            .first()
            .and_then(|proc| self.jobs.get(&proc.nspace))
            .filter(|job| job.at == server);
        let lives = |job: &KnownJob, proc: &Proc| {
            !is_wildcard(proc.rank) && !job.ended.contains(&proc.rank)
        };
        job.is_some_and(|job| procs.iter().all(|proc| lives(job, proc)))
    }

    /// Where procs are.
    pub(super) fn homes<'a>(&self, procs: impl Iterator<Item = &'a Proc>) -> BTreeSet<ServerId> {
        let mut last = None;
        let jobs = procs
            .map(|proc| &proc.nspace)
            .filter(|nspace| last.replace(*nspace) != Some(*nspace));
        jobs.filter_map(|nspace| self.home(nspace)).collect()
    }
}

/// The procs for which one stands: itself, or all of its job.
#[derive(Clone, Debug)]
pub(super) struct ProcSelection<'a> {
    nspace: &'a Nspace,
    ranks: RangeInclusive<u32>,
}

impl<'a> ProcSelection<'a> {
    /// The one that is named, or is not known to stand for any other.
    pub(super) fn just(named: &'a Proc) -> ProcSelection<'a> {
        ProcSelection {
            nspace: &named.nspace,
            ranks: named.rank.0..=named.rank.0,
        }
    }

    fn all_of(nspace: &'a Nspace, size: u32) -> ProcSelection<'a> {
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
