//! Fences of procs that several servers have.
//!
//! Each server contributes for its procs at the *root*, the lowest of the servers that have procs of
//! the set. The root decides when all have contributed, and tells the result, so a fence takes two
//! messages for each server. After a while it asks the servers that are silent: one whose procs of
//! the set have all ended would never begin the fence by itself.
//!
//! A fence is known by its procs and its generation ([`FenceRound`]). A message may come twice or
//! late: a contribution counts once, and one to a fence that is over is answered with the result.
//! When the root is lost, or a server below it announces procs of the set, all send their
//! contributions again to the new one; who has a result that others may lack tells it.
mod changes;
mod decisions;
mod message;
mod received;
mod set;

pub use self::message::{FenceMessage, FenceOutcome, FenceRound};
use self::set::{FenceSet, OwnPart, Round};
use crate::{
    MonotonicTime,
    fence::{Completeness, FenceContribution, FenceId},
    group::ServerId,
    message_refusal::MessageRefusal,
};
use peal_model::{NamedProcs, Nspace, Status, code};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Time after which the root asks the servers that have not contributed. Most fences are over by
/// then.
const ASK_AFTER: Duration = Duration::from_millis(100);

/// Time between two such questions, since either message may be lost with a server.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Largest number of results that are kept for servers that may lack them.
const MAX_RESULTS: usize = 64;

/// Limits of fences between servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FenceLimits {
    /// Largest number of procs that the sets of one job name together. The number of fences of a
    /// set must be kept until its job ends.
    pub(crate) max_named: usize,
    /// Largest number of fences of one set that servers may be apart: a proc may call some before
    /// the first is answered. A server that is further ahead has lost count or lies.
    pub(crate) max_ahead: usize,
}

impl FenceLimits {
    fn ahead(self) -> u64 {
        u64::try_from(self.max_ahead).unwrap_or(u64::MAX)
    }
}

/// The servers that have the procs of a set, as far as this server knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct SetServers {
    /// The servers.
    pub(crate) servers: BTreeSet<ServerId>,
    /// Knowledge of the servers of all procs.
    pub(crate) knowledge: SetKnowledge,
    /// Partial if procs of the set have ended with their server.
    pub(crate) attendance: Completeness,
}

impl SetServers {
    /// Returns the server that decides about fences of the set: the lowest of its servers.
    pub(crate) fn root(&self) -> Option<ServerId> {
        self.servers.first().copied()
    }
}

/// Knowledge of the servers of a set's procs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum SetKnowledge {
    /// All are known.
    #[default]
    Complete,
    /// A server that has some has not announced them.
    Incomplete,
}

/// The view of jobs and servers from which the servers of a set are computed.
pub(crate) trait SetLocator {
    /// Returns the servers that have these procs.
    fn locate(&self, procs: &NamedProcs) -> SetServers;
}

/// A step that the caller carries out.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum FenceStep {
    /// Sends a message to another server.
    Send(ServerId, FenceMessage),
    /// Begins the local part of a fence, by [`ServerFences::began`], although no local proc has
    /// called. A local part without living procs is complete at once.
    Begin(FenceRound),
    /// Completes a local fence.
    Complete(FenceId, FenceOutcome),
    /// Counts and traces a message that is refused.
    Refuse(ServerId, MessageRefusal),
}

/// The sets of procs have too many members to count their fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManySets;

/// The fences between this server and others.
#[derive(Debug)]
pub(crate) struct ServerFences {
    me: ServerId,
    sets: BTreeMap<NamedProcs, FenceSet>,
    /// Number of procs that the sets name, of each job.
    named: BTreeMap<Nspace, usize>,
    limits: FenceLimits,
    /// Times at which the root asks.
    questions: BTreeSet<(MonotonicTime, FenceRound)>,
    steps: Vec<FenceStep>,
}

/// Calls of the local part.
impl ServerFences {
    pub(crate) fn new(me: ServerId, limits: FenceLimits) -> ServerFences {
        ServerFences {
            me,
            sets: BTreeMap::new(),
            named: BTreeMap::new(),
            limits,
            questions: BTreeSet::new(),
            steps: Vec::new(),
        }
    }

    /// Begins the next fence of a set, which a local proc has called. The caller passes its local
    /// part to [`ServerFences::began`].
    ///
    /// # Errors
    ///
    /// Fails if the sets of a job name too many procs.
    pub(crate) fn begin(
        &mut self,
        procs: &NamedProcs,
        locator: &impl SetLocator,
    ) -> Result<FenceRound, TooManySets> {
        self.add_set(procs)?;
        let at = locator.locate(procs);
        let set = self.sets.entry(procs.clone()).or_default();
        let generation = set.begin();
        set.open
            .entry(generation)
            .or_insert_with(|| Round::new(at.attendance));
        Ok(FenceRound {
            procs: procs.clone(),
            generation,
        })
    }

    /// Notes the local part of a fence.
    pub(crate) fn began(&mut self, round: &FenceRound, fence: FenceId) {
        if let Some(open) = self.open_mut(round) {
            open.own = OwnPart::Open(fence);
        }
    }

    /// Contributes to a fence: its local procs have arrived or ended.
    pub(crate) fn contribute(
        &mut self,
        round: &FenceRound,
        fence: FenceId,
        contribution: FenceContribution,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) -> Vec<FenceStep> {
        if let Some(open) = self.open_mut(round) {
            open.own = OwnPart::Contributed(fence, contribution);
            self.pass_on(round, locator, now);
        }
        self.take_steps()
    }

    /// Gives a fence up, because its local procs got this status.
    pub(crate) fn give_up(
        &mut self,
        round: &FenceRound,
        status: Status,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) -> Vec<FenceStep> {
        if let Some(open) = self.open_mut(round) {
            open.own = OwnPart::GivenUp(status);
            self.pass_on(round, locator, now);
        }
        self.take_steps()
    }

    /// Returns true if a fence is not over here.
    pub(crate) fn is_open(&self, round: &FenceRound) -> bool {
        let set = self.sets.get(&round.procs);
        set.is_some_and(|set| set.open.contains_key(&round.generation))
    }

    /// Removes the sets that name a job which this server is about to remove. Procs of other jobs
    /// get a status; for a set of that job alone the removal itself tells enough, and those who
    /// have contributed count.
    pub(crate) fn drop_job(
        &mut self,
        nspace: &Nspace,
        locator: &impl SetLocator,
    ) -> Vec<FenceStep> {
        let names = |procs: &NamedProcs| !procs.of_job(nspace).is_empty();
        let gone: Vec<NamedProcs> = self.sets.keys().filter(|set| names(set)).cloned().collect();
        for procs in gone {
            if procs.of_each_job().count() > 1 {
                self.fail_set(&procs, locator);
            }
            self.sets.remove(&procs);
            for of_job in procs.of_each_job() {
                let Some(first) = of_job.first() else {
                    continue;
                };
                if let Some(count) = self.named.get_mut(&first.nspace) {
                    *count = count.saturating_sub(of_job.len());
                    if *count == 0 {
                        self.named.remove(&first.nspace);
                    }
                }
            }
        }
        self.questions.retain(|(_, round)| !names(&round.procs));
        self.take_steps()
    }

    /// Fails the fences of a set that waits for this server, or at which it is the root.
    fn fail_set(&mut self, procs: &NamedProcs, locator: &impl SetLocator) {
        let status = code::PMIX_ERR_INVALID_NAMESPACE;
        let at = locator.locate(procs);
        let Some(set) = self.sets.get(procs) else {
            return;
        };
        let is_root = at.root() == Some(self.me);
        let has_contributed = |open: &Round| matches!(open.own, OwnPart::Contributed(..));
        let failing = set.open.iter();
        let failing = failing.filter(|(_, open)| is_root || !has_contributed(open));
        let failing: Vec<u64> = failing.map(|(generation, _)| *generation).collect();
        for generation in failing {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            match at.root() {
                Some(root) if root == self.me => self.decide(&round, Err(status), &at),
                Some(root) => {
                    let message = FenceMessage::GiveUp { round, status };
                    self.steps.push(FenceStep::Send(root, message));
                }
                None => {}
            }
        }
    }

    /// Returns the time of the next question.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.questions.first().map(|(at, _)| *at)
    }

    /// Asks the servers that have not contributed in time.
    pub(crate) fn tick(&mut self, locator: &impl SetLocator, now: MonotonicTime) -> Vec<FenceStep> {
        while self.questions.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, round)) = self.questions.pop_first()
        {
            let at = locator.locate(&round.procs);
            let me = self.me;
            let Some(open) = self.open_mut(&round) else {
                continue;
            };
            if at.root() != Some(me) {
                open.ask_at = None;
                continue;
            }
            let next = now + ASK_AGAIN;
            open.ask_at = Some(next);
            let silent = at.servers.iter().filter(|server| !open.has(**server, me));
            let silent: Vec<ServerId> = silent.copied().filter(|server| *server != me).collect();
            for server in silent {
                let message = FenceMessage::Await(round.clone());
                self.steps.push(FenceStep::Send(server, message));
            }
            self.questions.insert((next, round));
        }
        self.take_steps()
    }
}
