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
mod message;
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
    sync::Arc,
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
        let is_root = at.servers.first() == Some(&self.me);
        let has_contributed = |open: &Round| matches!(open.own, OwnPart::Contributed(..));
        let failing = set.open.iter();
        let failing = failing.filter(|(_, open)| is_root || !has_contributed(open));
        let failing: Vec<u64> = failing.map(|(generation, _)| *generation).collect();
        for generation in failing {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            match at.servers.first().copied() {
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
            if at.servers.first() != Some(&me) {
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

/// Messages and changes of servers.
impl ServerFences {
    /// Handles a message of another server.
    pub(crate) fn received(
        &mut self,
        from: ServerId,
        message: FenceMessage,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) -> Vec<FenceStep> {
        let procs = match &message {
            FenceMessage::Contribute { round, .. }
            | FenceMessage::GiveUp { round, .. }
            | FenceMessage::Await(round)
            | FenceMessage::Result { round, .. } => round.procs.clone(),
        };
        let at = locator.locate(&procs);
        // The message was on its way when this server removed its procs of the set.
        if !at.servers.contains(&self.me) {
            return Vec::new();
        }
        if let Err(refusal) = self.check(from, &message, &procs, &at) {
            self.steps.push(FenceStep::Refuse(from, refusal));
            return self.take_steps();
        }
        match message {
            FenceMessage::Contribute {
                round,
                completed,
                contribution,
            } => {
                let contributed = (completed, contribution);
                if self.open_at_root(from, &round, &at, now)
                    && let Some(open) = self.open_mut(&round)
                {
                    open.others.entry(from).or_insert(contributed);
                    self.begin_here(&round);
                    self.decide_if_complete(&round, &at);
                }
            }
            FenceMessage::GiveUp { round, status } => {
                if self.open_at_root(from, &round, &at, now) && at.servers.first() == Some(&self.me)
                {
                    self.decide(&round, Err(status), &at);
                }
            }
            FenceMessage::Await(round) => self.answer_question(from, &round, &at),
            FenceMessage::Result {
                round,
                settled,
                outcome,
            } => self.take_result(&round, settled, outcome, &at),
        }
        self.take_steps()
    }

    /// Handles a change of the servers that have procs of a job. `lost` has left or has removed its
    /// procs of the job, if any has.
    pub(crate) fn servers_changed(
        &mut self,
        nspace: &Nspace,
        lost: Option<ServerId>,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) -> Vec<FenceStep> {
        // A fence that is over needs its result only while its root may be lost.
        let names = |(procs, _): &(&NamedProcs, &FenceSet)| !procs.of_job(nspace).is_empty();
        let sets = self.sets.iter().filter(names);
        let sets: Vec<NamedProcs> = sets.map(|(procs, _)| procs.clone()).collect();
        for procs in sets {
            self.set_changed(procs, lost, locator, now);
        }
        self.take_steps()
    }

    fn set_changed(
        &mut self,
        procs: NamedProcs,
        lost: Option<ServerId>,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) {
        let at = locator.locate(&procs);
        let max_ahead = self.limits.ahead();
        let Some(set) = self.sets.get_mut(&procs) else {
            return;
        };
        for open in set.open.values_mut() {
            open.lost.extend(lost);
        }
        let root = at.servers.first().copied();
        let before = std::mem::replace(&mut set.root, root);
        let is_lost = before.is_some() && before == lost;
        if is_lost && root == Some(self.me) {
            set.inherited_up_to = set.begun().saturating_add(max_ahead);
        }
        let generations: Vec<u64> = set.open.keys().copied().collect();
        if is_lost {
            self.repeat_results(&procs, &at);
        }
        for generation in generations {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            if before != root {
                self.pass_on(&round, locator, now);
            } else {
                self.decide_if_complete(&round, &at);
            }
        }
    }

    /// Tells the results that others may have missed from a lost root: to the next root, which tells
    /// all.
    fn repeat_results(&mut self, procs: &NamedProcs, at: &SetServers) {
        let Some(set) = self.sets.get(procs) else {
            return;
        };
        let results: Vec<(u64, FenceOutcome)> = set
            .results
            .iter()
            .map(|(generation, outcome)| (*generation, outcome.clone()))
            .collect();
        let me = self.me;
        let to: Vec<ServerId> = match at.servers.first().copied() {
            Some(root) if root == me => {
                let others = at.servers.iter().filter(|server| **server != me);
                others.copied().collect()
            }
            root => root.into_iter().collect(),
        };
        for (generation, outcome) in results {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            for to in &to {
                // Nothing is settled by it: others may still lack the result.
                self.tell(*to, &round, 0, outcome.clone());
            }
        }
    }

    /// Checks that the sender may say this.
    fn check(
        &self,
        from: ServerId,
        message: &FenceMessage,
        procs: &NamedProcs,
        at: &SetServers,
    ) -> Result<(), MessageRefusal> {
        let root = at.servers.first();
        if !at.servers.contains(&from) {
            return Err(MessageRefusal::NoParticipant);
        }
        let set = self.sets.get(procs);
        let max_ahead = self.limits.ahead();
        match message {
            FenceMessage::Contribute { round, .. } | FenceMessage::GiveUp { round, .. } => {
                let begun = set.map_or(0, FenceSet::begun);
                if round.generation == 0 || round.generation > begun.saturating_add(max_ahead) {
                    return Err(MessageRefusal::Generation {
                        generation: round.generation,
                        begun,
                    });
                }
            }
            FenceMessage::Await(round) => {
                let begun = set.map_or(0, FenceSet::begun);
                if root != Some(&from) || round.generation > begun.saturating_add(max_ahead) {
                    return Err(MessageRefusal::NotRoot);
                }
            }
            FenceMessage::Result { round, .. } => {
                // A result that is known is no decision.
                let is_over = set.is_some_and(|set| set.is_over(round.generation));
                let inherited = set.map_or(0, |set| set.inherited_up_to);
                let may_inherit = root == Some(&self.me) && round.generation <= inherited;
                if root != Some(&from) && !may_inherit && !is_over {
                    return Err(MessageRefusal::NotRoot);
                }
            }
        }
        Ok(())
    }

    /// Prepares a fence that another server takes part in. Returns false if it is over: the sender
    /// then gets its result.
    fn open_at_root(
        &mut self,
        from: ServerId,
        round: &FenceRound,
        at: &SetServers,
        now: MonotonicTime,
    ) -> bool {
        if self.add_set(&round.procs).is_err() {
            let outcome = Err(code::PMIX_ERR_OUT_OF_RESOURCE);
            self.tell(from, round, 0, outcome);
            return false;
        }
        let me = self.me;
        let set = self.sets.entry(round.procs.clone()).or_default();
        set.root = at.servers.first().copied();
        if set.is_over(round.generation) {
            // A result that is forgotten was told to all: the message is late, or its sender is one
            // that has lost count.
            let outcome = set.result(round.generation);
            if set.root == Some(me) {
                let outcome = outcome.unwrap_or(Err(code::PMIX_ERR_LOST_CONNECTION));
                self.tell(from, round, 0, outcome);
            }
            return false;
        }
        let open = set
            .open
            .entry(round.generation)
            .or_insert_with(|| Round::new(at.attendance));
        if open.ask_at.is_none() && set.root == Some(me) {
            let ask_at = now + ASK_AFTER;
            open.ask_at = Some(ask_at);
            self.questions.insert((ask_at, round.clone()));
        }
        true
    }

    /// Begins the local part of a fence, and of those before it that have not begun: local procs
    /// that call take part in them first.
    fn begin_here(&mut self, round: &FenceRound) {
        let Some(set) = self.sets.get_mut(&round.procs) else {
            return;
        };
        while set.begun() < round.generation && !set.is_over(round.generation) {
            let generation = set.begin();
            let open = set.open.entry(generation);
            let open = open.or_insert_with(|| Round::new(Completeness::Full));
            if open.own == OwnPart::NotBegun {
                self.steps.push(FenceStep::Begin(FenceRound {
                    procs: round.procs.clone(),
                    generation,
                }));
            }
        }
    }

    /// Answers the root, which misses this server's contribution.
    fn answer_question(&mut self, from: ServerId, round: &FenceRound, at: &SetServers) {
        if self.add_set(&round.procs).is_err() {
            let message = FenceMessage::GiveUp {
                round: round.clone(),
                status: code::PMIX_ERR_OUT_OF_RESOURCE,
            };
            self.steps.push(FenceStep::Send(from, message));
            return;
        }
        let set = self.sets.entry(round.procs.clone()).or_default();
        set.root = at.servers.first().copied();
        if set.is_over(round.generation) {
            // The root has replaced one that had told the result here.
            if let Some(outcome) = set.result(round.generation) {
                self.tell(from, round, 0, outcome);
            }
            return;
        }
        set.open
            .entry(round.generation)
            .or_insert_with(|| Round::new(at.attendance));
        self.begin_here(round);
        // The contribution may have been lost with a former root.
        self.send_own(from, round);
    }

    /// Takes a result. The next root passes on what the lost one had told to some.
    fn take_result(
        &mut self,
        round: &FenceRound,
        settled: u64,
        outcome: FenceOutcome,
        at: &SetServers,
    ) {
        let is_root = at.servers.first() == Some(&self.me);
        // A failed fence counts here, too, where no proc has called it yet. A set that finds no room
        // is refused to local callers.
        if self.add_set(&round.procs).is_err() {
            return;
        }
        let set = self.sets.entry(round.procs.clone()).or_default();
        if set.is_over(round.generation) {
            return;
        }
        // No fence succeeds before this server has contributed to it.
        let has_part =
            |open: &Round| matches!(open.own, OwnPart::Contributed(..) | OwnPart::GivenUp(_));
        let is_due = set.open.get(&round.generation).is_some_and(has_part);
        if outcome.is_ok() && !is_due {
            return;
        }
        if is_root {
            self.decide(round, outcome, at);
        } else {
            set.settle(settled);
            self.end(round, outcome);
        }
    }
}

/// Decisions.
impl ServerFences {
    /// Sends the local part to the root, or counts it if this server is the root.
    fn pass_on(&mut self, round: &FenceRound, locator: &impl SetLocator, now: MonotonicTime) {
        let at = locator.locate(&round.procs);
        let root = at.servers.first().copied();
        if let Some(set) = self.sets.get_mut(&round.procs) {
            set.root = root;
        }
        match root {
            Some(root) if root == self.me => {
                let given_up = match self.open_mut(round).map(|open| &open.own) {
                    Some(OwnPart::GivenUp(status)) => Some(*status),
                    _ => None,
                };
                match given_up {
                    Some(status) => self.decide(round, Err(status), &at),
                    None => {
                        self.open_at_root(root, round, &at, now);
                        self.decide_if_complete(round, &at);
                    }
                }
            }
            Some(root) => self.send_own(root, round),
            // No server has any of the procs; the next announcement of one tells the root.
            None => {}
        }
    }

    fn send_own(&mut self, root: ServerId, round: &FenceRound) {
        let Some(set) = self.sets.get(&round.procs) else {
            return;
        };
        let message = match set.open.get(&round.generation).map(|open| &open.own) {
            Some(OwnPart::Contributed(_, contribution)) => FenceMessage::Contribute {
                round: round.clone(),
                completed: set.completed,
                contribution: contribution.clone(),
            },
            Some(OwnPart::GivenUp(status)) => FenceMessage::GiveUp {
                round: round.clone(),
                status: *status,
            },
            Some(OwnPart::NotBegun | OwnPart::Open(_)) | None => return,
        };
        self.steps.push(FenceStep::Send(root, message));
    }

    /// Decides a fence to which all servers have contributed, if this one is its root.
    fn decide_if_complete(&mut self, round: &FenceRound, at: &SetServers) {
        let me = self.me;
        let Some(set) = self.sets.get(&round.procs) else {
            return;
        };
        let Some(open) = set.open.get(&round.generation) else {
            return;
        };
        let is_complete = at.servers.first() == Some(&me)
            && at.knowledge == SetKnowledge::Complete
            && at.servers.iter().all(|server| open.has(*server, me));
        if is_complete {
            let all = Arc::new(open.merged(me));
            self.decide(round, Ok(all), at);
        }
    }

    /// Decides a fence and tells the result.
    fn decide(&mut self, round: &FenceRound, outcome: FenceOutcome, at: &SetServers) {
        let me = self.me;
        let Some(set) = self.sets.get_mut(&round.procs) else {
            return;
        };
        let open = set.open.get(&round.generation);
        let settled = open.map_or(0, |open| set.settled_by(open, &at.servers, me));
        set.settle(settled);
        let others = at.servers.iter().filter(|server| **server != me);
        let others: Vec<ServerId> = others.copied().collect();
        for server in others {
            self.tell(server, round, settled, outcome.clone());
        }
        self.end(round, outcome);
    }

    fn tell(&mut self, to: ServerId, round: &FenceRound, settled: u64, outcome: FenceOutcome) {
        let message = FenceMessage::Result {
            round: round.clone(),
            settled,
            outcome,
        };
        self.steps.push(FenceStep::Send(to, message));
    }

    /// Ends a fence here.
    fn end(&mut self, round: &FenceRound, outcome: FenceOutcome) {
        let Some(set) = self.sets.get_mut(&round.procs) else {
            return;
        };
        set.decide(round.generation, outcome.clone());
        let Some(open) = set.open.remove(&round.generation) else {
            return;
        };
        if let Some(at) = open.ask_at {
            self.questions.remove(&(at, round.clone()));
        }
        if let OwnPart::Open(fence) | OwnPart::Contributed(fence, _) = open.own {
            self.steps.push(FenceStep::Complete(fence, outcome));
        }
    }

    fn open_mut(&mut self, round: &FenceRound) -> Option<&mut Round> {
        let set = self.sets.get_mut(&round.procs)?;
        set.open.get_mut(&round.generation)
    }

    /// Makes room for the state of a set.
    fn add_set(&mut self, procs: &NamedProcs) -> Result<(), TooManySets> {
        if self.sets.contains_key(procs) {
            return Ok(());
        }
        let named = |procs: &[_]| procs.len();
        let jobs = || {
            let jobs = procs.of_each_job();
            jobs.filter_map(|procs| Some((&procs.first()?.nspace, named(procs))))
        };
        let is_full = |(nspace, count): (&Nspace, usize)| {
            let before = self.named.get(nspace).copied().unwrap_or_default();
            before.saturating_add(count) > self.limits.max_named
        };
        if jobs().any(is_full) {
            return Err(TooManySets);
        }
        for (nspace, count) in jobs() {
            *self.named.entry(nspace.clone()).or_default() += count;
        }
        self.sets.insert(procs.clone(), FenceSet::default());
        Ok(())
    }

    fn take_steps(&mut self) -> Vec<FenceStep> {
        std::mem::take(&mut self.steps)
    }
}
