//! Fences of procs that several servers have.
//!
//! The servers that have procs of the set are a tree ([`FenceTree`](tree::FenceTree)), with the lowest
//! as its *root*. Each server contributes at its parent when its own procs have arrived and all servers
//! below it have contributed. The root decides when all have, and the result goes the same way back, so
//! a fence takes two messages for each server, and no server has more of them than the fan-out says.
//! With few servers all are directly below the root.
//!
//! A fence is known by its procs and its generation ([`FenceRound`]), and a contribution names the
//! servers whose contributions it brings. So a message may come twice, late, or under a former tree:
//! each contribution counts once, and one to a fence that is over is answered with the result. When a
//! change of the servers gives a server another parent, it contributes there, too. Nothing is sent
//! before the servers of all procs are known, so that a tree changes by losses only.
//!
//! When the root is lost, all contribute anew for the next one, and those that have the result tell
//! it instead. Contributions name their root, and so do results: a server that has contributed for the
//! next root takes no result of the lost one. So two roots never decide one fence differently.
//!
//! After a while a server asks those below it that are silent: one whose procs of the set have all ended
//! would never begin the fence by itself.
mod changes;
mod decisions;
mod gathered;
mod message;
mod questions;
mod received;
mod set;
mod tree;

pub use self::message::{FenceMessage, FenceOutcome, FenceRound};
use self::{
    set::{FenceSet, OwnPart, Round},
    tree::FenceTree,
};
use crate::{
    MonotonicTime,
    fence::{Completeness, FenceContribution, FenceId},
    group::ServerId,
    message_refusal::MessageRefusal,
};
use peal_model::{NamedProcs, Nspace, Proc, Status, code};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Time after which a server asks those below it that have not contributed. Most fences are over by
/// then.
const ASK_AFTER: Duration = Duration::from_millis(100);

/// Time between two such questions, since either message may be lost with a server.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Largest number of results that are kept for servers that may lack them.
const MAX_RESULTS: usize = 64;

/// Limits of fences between servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FenceLimits {
    /// Largest number of procs that the sets of one job name together. The number of fences of a
    /// set must be kept until its job ends.
    pub(crate) max_named: usize,
    /// Largest number of fences of one set that servers may be apart: a proc may call some before
    /// the first is answered. A server that is further ahead has lost count or lies.
    pub(crate) max_ahead: usize,
    /// Largest number of servers directly below one.
    pub(crate) fan_out: usize,
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

/// Knowledge of the servers of a set's procs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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

    /// Returns the server that has a proc.
    fn server_of(&self, proc: &Proc) -> Option<ServerId>;

    /// Returns the number of changes of the view. While it is the same, so are all answers.
    fn changes(&self) -> u64;
}

/// A step that the caller carries out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServerFences {
    me: ServerId,
    sets: BTreeMap<NamedProcs, FenceSet>,
    /// Number of procs that the sets name, of each job.
    named: BTreeMap<Nspace, usize>,
    #[serde(skip)]
    limits: FenceLimits,
    /// Times at which this server asks those below it.
    questions: BTreeSet<(MonotonicTime, FenceRound)>,
    steps: Vec<FenceStep>,
    /// The latest time that a call brought.
    clock: MonotonicTime,
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
            clock: MonotonicTime::default(),
        }
    }

    pub(crate) fn set_limits(&mut self, limits: FenceLimits) {
        self.limits = limits;
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
        let tree = self.add_set(procs, locator)?;
        let set = self.sets.entry(procs.clone()).or_default();
        let generation = set.begin();
        set.open
            .entry(generation)
            .or_insert_with(|| Round::new(tree.attendance));
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
            open.own = OwnPart::GivenUp;
            open.failure.get_or_insert(status);
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
            self.leave_set(&procs, locator);
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

    /// Passes on what this server holds of the fences of a set, and fails those that name procs of
    /// other jobs and wait for this server, or at which it is the root.
    fn leave_set(&mut self, procs: &NamedProcs, locator: &impl SetLocator) {
        let status = code::PMIX_ERR_INVALID_NAMESPACE;
        let tree = self.tree(procs, locator);
        let is_root = tree.root() == Some(self.me);
        let is_waited_for = procs.of_each_job().count() > 1;
        let Some(set) = self.sets.get(procs) else {
            return;
        };
        let generations: Vec<u64> = set.open.keys().copied().collect();
        for generation in generations {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            let open = self.open_mut(&round);
            let sent_to = |open: &Round| open.sent.as_ref().map(|sent| sent.to);
            let (has_contributed, sent_to) = open.map_or((false, None), |open| {
                (matches!(open.own, OwnPart::Contributed(..)), sent_to(open))
            });
            if is_waited_for && is_root {
                self.decide(&round, Err(status), 0, &tree);
            } else if let Some(parent) = tree.parent_of(self.me) {
                if has_contributed && sent_to != Some(parent) {
                    // Servers below this one that have not contributed do so elsewhere.
                    self.contribute_to(parent, &round, &tree, locator);
                } else if !has_contributed && is_waited_for {
                    let message = FenceMessage::GiveUp { round, status };
                    self.steps.push(FenceStep::Send(parent, message));
                }
            }
        }
    }
}
