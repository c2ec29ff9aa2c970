//! Directory of jobs: the servers of their procs, their owners, and ended procs.
use super::{JobSummary, ServerId, job_homes::JobHomes, proc_selection::ProcSelection};
use crate::{
    fence::Completeness,
    rank_ranges::RankRanges,
    server_fences::{SetKnowledge, SetServers},
};
use peal_model::{NamedProcs, Nspace, Proc, Rank, UserIdentity, rank};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of removed jobs that are remembered, to distinguish them from unknown ones.
const GONE: usize = 1024;

/// A job.
#[derive(Debug, Serialize, Deserialize)]
struct KnownJob {
    facts: JobSummary,
    /// Ended procs. A server knows those of its own jobs, the coordinator those of all.
    ended: BTreeSet<Rank>,
    /// The servers of its procs.
    homes: JobHomes,
    /// The server whose host environment reaches the ranks that no server has.
    by_host: Option<ServerId>,
}

impl KnownJob {
    fn home(&self, rank: Rank) -> Option<ServerId> {
        self.homes.of(rank).or(self.by_host)
    }

    /// Returns the ranks that no server has.
    fn without_server(&self) -> impl Iterator<Item = Rank> {
        let ranks = (0..self.facts.size).map(Rank);
        ranks.filter(|rank| self.homes.of(*rank).is_none())
    }

    /// Returns true if some procs are on nodes that only the host environment of a server reaches.
    fn is_placed(&self) -> bool {
        self.by_host.is_some() && self.homes.count() < u64::from(self.facts.size)
    }
}

/// The reason why a server's claim to procs of a job is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClaimRefusal {
    /// Another server has announced a job of this name with another size or owner.
    OtherJob,
    /// Another server has the rank.
    TakenRank(Rank),
    /// The job has no such rank.
    NoRank(Rank),
}

/// All known jobs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct JobDirectory {
    jobs: BTreeMap<Nspace, KnownJob>,
    /// The jobs removed last. Collectives need not wait for their procs.
    removed_jobs: VecDeque<Nspace>,
    /// Number of changes of all this.
    changes: u64,
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
    /// Records the ranks of a job that a server has, in place of those that it had before. Returns
    /// the ranks that it had not.
    ///
    /// # Errors
    ///
    /// Fails if another server has announced another job of this name or has one of the ranks;
    /// then nothing changes.
    pub(super) fn claim(
        &mut self,
        nspace: &Nspace,
        at: ServerId,
        facts: JobSummary,
        ranks: &RankRanges,
    ) -> Result<Vec<Rank>, ClaimRefusal> {
        if let Some(last) = ranks.runs().last().filter(|run| *run.end() >= facts.size) {
            return Err(ClaimRefusal::NoRank(Rank(*last.end())));
        }
        if let Some(job) = self.jobs.get(nspace) {
            if job.facts != facts {
                return Err(ClaimRefusal::OtherJob);
            }
            if let Some(rank) = job.homes.first_taken(at, ranks) {
                return Err(ClaimRefusal::TakenRank(rank));
            }
        }
        self.changes += 1;
        // A later job may have the name of a removed one.
        self.removed_jobs.retain(|gone| gone != nspace);
        let job = self.jobs.entry(nspace.clone()).or_insert_with(|| KnownJob {
            facts,
            ended: BTreeSet::new(),
            homes: JobHomes::default(),
            by_host: None,
        });
        let arrived = job.homes.replace(at, ranks);
        Ok(arrived)
    }

    /// Records a job of this server, which knows its own procs best: claims of others that differ
    /// are removed.
    pub(super) fn claim_own(
        &mut self,
        nspace: &Nspace,
        me: ServerId,
        facts: JobSummary,
        ranks: &RankRanges,
    ) -> Vec<Rank> {
        if let Ok(arrived) = self.claim(nspace, me, facts, ranks) {
            return arrived;
        }
        self.changes += 1;
        self.jobs.remove(nspace);
        // Nothing is left that the claim could differ from; ranks beyond the size are no procs.
        let ranks = ranks.iter().filter(|rank| rank.0 < facts.size).collect();
        self.claim(nspace, me, facts, &ranks).unwrap_or_default()
    }

    /// Notes that the host environment of a server reaches the ranks of a job that no server has.
    pub(super) fn reach_by_host(&mut self, nspace: &Nspace, of: ServerId) {
        if let Some(job) = self.jobs.get_mut(nspace) {
            job.by_host = Some(of);
            self.changes += 1;
        }
    }

    /// Returns the named procs that are on nodes which only a host environment reaches.
    pub(super) fn on_other_nodes(&self, named: &NamedProcs) -> Vec<Proc> {
        let is_placed = |procs: &&[Proc]| {
            let first = procs.first();
            first.is_some_and(|proc| self.is_placed(&proc.nspace))
        };
        let placed = named.of_each_job().filter(is_placed).flatten();
        let procs = placed.filter_map(|named| self.procs(named)).flatten();
        procs
            .filter(|proc| self.server_of(proc).is_none())
            .collect()
    }

    /// Returns true if any of the named procs has ended, as far as this server knows.
    pub(super) fn has_ended(&self, named: &NamedProcs) -> bool {
        let procs = named.iter().filter_map(|named| self.procs(named)).flatten();
        let mut procs = procs.map(|proc| self.whereabouts(&proc));
        procs.any(|location| location == ProcLocation::Ended)
    }

    /// Returns true if some procs of a job are on nodes that only a host environment reaches.
    pub(super) fn is_placed(&self, nspace: &Nspace) -> bool {
        self.jobs.get(nspace).is_some_and(KnownJob::is_placed)
    }

    /// Removes a server's procs of a job and returns them. The job is removed with its last server;
    /// until then these procs count as ended.
    pub(super) fn remove(&mut self, nspace: &Nspace, server: ServerId) -> Vec<Proc> {
        let Some(job) = self.jobs.get_mut(nspace) else {
            return Vec::new();
        };
        self.changes += 1;
        let mut gone: Vec<Rank> = Vec::new();
        // Nothing reaches these without that server.
        if job.by_host == Some(server) {
            gone.extend(job.without_server());
            job.by_host = None;
        }
        gone.extend(job.homes.remove(server).iter());
        if job.homes.is_empty() {
            self.jobs.remove(nspace);
            // The list would otherwise grow with each job that ends.
            if self.removed_jobs.len() >= GONE {
                self.removed_jobs.pop_front();
            }
            self.removed_jobs.push_back(nspace.clone());
        } else {
            job.ended.extend(&gone);
        }
        gone.sort_unstable();
        gone.into_iter()
            .map(|rank| Proc::new(nspace.clone(), rank))
            .collect()
    }

    /// Removes a server with its procs and returns them.
    pub(super) fn server_left(&mut self, server: ServerId) -> Vec<Proc> {
        let theirs: Vec<Nspace> = self
            .jobs_at(server)
            .map(|(nspace, _)| nspace.clone())
            .collect();
        let procs = theirs.iter().flat_map(|nspace| self.remove(nspace, server));
        procs.collect()
    }

    /// Gives a server another number.
    pub(super) fn renumber(&mut self, old: ServerId, new: ServerId) {
        self.changes += 1;
        for job in self.jobs.values_mut() {
            job.homes.renumber(old, new);
            if job.by_host == Some(old) {
                job.by_host = Some(new);
            }
        }
    }

    /// Returns the jobs that a server has announced. Jobs are few, and servers may be many: a list for
    /// each server would take most of the memory of the directory.
    fn jobs_at(&self, server: ServerId) -> impl Iterator<Item = (&Nspace, &KnownJob)> {
        self.jobs
            .iter()
            .filter(move |(_, job)| job.homes.has(server))
    }

    /// Returns the jobs of a server, with the ranks that it has.
    pub(super) fn of(
        &self,
        server: ServerId,
    ) -> impl Iterator<Item = (Nspace, JobSummary, RankRanges)> + use<> {
        let known = self.jobs_at(server);
        let known =
            known.map(|(nspace, job)| (nspace.clone(), job.facts, job.homes.ranks_at(server)));
        // Collected, so that callers may change the directory while they iterate.
        known.collect::<Vec<_>>().into_iter()
    }

    /// Returns the procs of a job that a server has.
    pub(super) fn procs_at(&self, nspace: &Nspace, server: ServerId) -> Vec<Proc> {
        let ranks = self.jobs.get(nspace).map(|job| job.homes.ranks_at(server));
        let ranks = ranks.unwrap_or_default();
        let procs = ranks.iter().map(|rank| Proc::new(nspace.clone(), rank));
        procs.collect()
    }

    /// Returns the ended procs of a job on a server.
    pub(super) fn ended_of(&self, nspace: &Nspace, server: ServerId) -> BTreeSet<Rank> {
        let Some(job) = self.jobs.get(nspace) else {
            return BTreeSet::new();
        };
        let ended = job.ended.iter().copied();
        ended
            .filter(|rank| job.home(*rank) == Some(server))
            .collect()
    }

    /// Marks a proc as ended. Returns true if it was not.
    pub(super) fn end(&mut self, proc: &Proc) -> bool {
        let job = self.jobs.get_mut(&proc.nspace);
        let ends =
            job.is_some_and(|job| proc.rank.0 < job.facts.size && job.ended.insert(proc.rank));
        self.changes += u64::from(ends);
        ends
    }

    /// Marks an ended proc as running. Returns true if it had ended.
    pub(super) fn mark_running(&mut self, proc: &Proc) -> bool {
        let job = self.jobs.get_mut(&proc.nspace);
        let runs = job.is_some_and(|job| job.ended.remove(&proc.rank));
        self.changes += u64::from(runs);
        runs
    }

    /// Returns the server that has a proc, or whose host environment reaches it.
    pub(super) fn home(&self, proc: &Proc) -> Option<ServerId> {
        self.jobs.get(&proc.nspace)?.home(proc.rank)
    }

    /// Returns the server that has a proc.
    pub(super) fn server_of(&self, proc: &Proc) -> Option<ServerId> {
        self.jobs.get(&proc.nspace)?.homes.of(proc.rank)
    }

    /// Returns the servers that have a named proc; for the wildcard rank, those of its job.
    pub(super) fn servers_of(&self, named: &Proc) -> Vec<ServerId> {
        match self.jobs.get(&named.nspace) {
            Some(job) if is_wildcard(named.rank) => job.homes.servers().collect(),
            Some(job) => job.homes.of(named.rank).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Returns the number of changes. While it is the same, so are the answers of the directory.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the servers that have the procs of a set.
    pub(super) fn locate(&self, named: &NamedProcs) -> SetServers {
        let mut at = SetServers::default();
        for proc in named {
            let Some(job) = self.jobs.get(&proc.nspace) else {
                match self.whereabouts(proc) {
                    ProcLocation::Ended => at.attendance = Completeness::Partial,
                    _ => at.knowledge = SetKnowledge::Incomplete,
                }
                continue;
            };
            let (ended, missing) = if is_wildcard(proc.rank) {
                at.servers.extend(job.homes.servers());
                let missing = u64::from(job.facts.size).saturating_sub(job.homes.count());
                // Most jobs miss no proc, and need no look at those that have ended.
                let ended = if missing == 0 {
                    0
                } else {
                    let ended = job.ended.iter();
                    ended.filter(|rank| job.homes.of(**rank).is_none()).count() as u64
                };
                (ended, missing)
            } else {
                match job.homes.of(proc.rank) {
                    Some(server) => {
                        at.servers.insert(server);
                        (0, 0)
                    }
                    None => (u64::from(job.ended.contains(&proc.rank)), 1),
                }
            };
            if ended > 0 {
                at.attendance = Completeness::Partial;
            }
            if ended < missing {
                at.knowledge = SetKnowledge::Incomplete;
            }
        }
        at
    }

    /// Returns the user that a job runs as.
    pub(super) fn owner(&self, nspace: &Nspace) -> Option<UserIdentity> {
        self.jobs.get(nspace).map(|job| job.facts.owner)
    }

    /// Returns the lowest server that has procs of a job.
    pub(super) fn first_server_of(&self, nspace: &Nspace) -> Option<ServerId> {
        self.jobs.get(nspace)?.homes.servers().next()
    }

    /// Returns the lowest server that has procs of a user, if another one has none of them.
    pub(super) fn first_server_with(&self, uid: u32, other: ServerId) -> Option<ServerId> {
        let mut first = None;
        for job in self.jobs.values().filter(|job| job.facts.owner.uid == uid) {
            if job.homes.has(other) {
                return None;
            }
            first = first.into_iter().chain(job.homes.servers().next()).min();
        }
        first
    }

    /// Returns true if a job is known.
    pub(super) fn has_job(&self, nspace: &Nspace) -> bool {
        self.jobs.contains_key(nspace)
    }

    /// Returns true if a server has procs of a job.
    pub(super) fn has_procs_at(&self, nspace: &Nspace, server: ServerId) -> bool {
        let job = self.jobs.get(nspace);
        job.is_some_and(|job| job.homes.has(server))
    }

    /// Returns true if all procs of a known job are on a server, or on nodes that its host
    /// environment reaches.
    pub(super) fn is_whole_at(&self, nspace: &Nspace, server: ServerId) -> bool {
        self.jobs.get(nspace).is_some_and(|job| {
            let is_complete =
                job.by_host == Some(server) || job.homes.count() == u64::from(job.facts.size);
            is_complete && job.homes.has_only(server)
        })
    }

    /// Returns true if a server has a proc or its host environment reaches it; for the wildcard
    /// rank, if that holds for all procs of the job.
    pub(super) fn is_at(&self, proc: &Proc, server: ServerId) -> bool {
        if is_wildcard(proc.rank) {
            self.is_whole_at(&proc.nspace, server)
        } else {
            self.home(proc) == Some(server)
        }
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
        let here = named
            .iter()
            .filter(|proc| self.has_procs_at(&proc.nspace, server));
        let procs = here.filter_map(|named| self.procs(named)).flatten();
        procs
            .filter(|proc| {
                self.whereabouts(proc) == ProcLocation::Lives
                    && self.server_of(proc) == Some(server)
            })
            .collect()
    }

    /// Returns true if these procs of one job are named one by one, live, and are on the server.
    fn all_live_at(&self, server: ServerId, procs: &[Proc]) -> bool {
        let job = procs.first().and_then(|proc| self.jobs.get(&proc.nspace));
        let lives = |job: &KnownJob, proc: &Proc| {
            !is_wildcard(proc.rank)
                && !job.ended.contains(&proc.rank)
                && job.homes.of(proc.rank) == Some(server)
        };
        job.is_some_and(|job| procs.iter().all(|proc| lives(job, proc)))
    }

    /// Returns the servers of procs.
    pub(super) fn homes<'a>(&self, procs: impl Iterator<Item = &'a Proc>) -> BTreeSet<ServerId> {
        let mut homes = BTreeSet::new();
        // Procs of a job follow each other, so each run of them costs one lookup of their job.
        let mut last: Option<(&Nspace, Option<&KnownJob>)> = None;
        for proc in procs {
            let job = match last {
                Some((nspace, job)) if *nspace == proc.nspace => job,
                _ => {
                    let job = self.jobs.get(&proc.nspace);
                    last = Some((&proc.nspace, job));
                    job
                }
            };
            homes.extend(job.and_then(|job| job.home(proc.rank)));
        }
        homes
    }
}
