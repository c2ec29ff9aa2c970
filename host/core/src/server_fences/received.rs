//! Messages of other servers about fences.
use super::{
    FenceMessage, FenceOutcome, FenceRound, FenceStep, FenceTree, ServerFences, SetLocator,
    gathered::SubtreePart,
    set::{FenceSet, OwnPart, Round},
};
use crate::{
    MonotonicTime,
    fence::{Completeness, FenceContribution},
    group::ServerId,
    message_refusal::MessageRefusal,
};
use peal_model::{NamedProcs, Proc, code};

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
        self.clock = now;
        let tree = self.tree(&procs, locator);
        // The message was on its way when this server removed its procs of the set.
        if !tree.contains(self.me) {
            return Vec::new();
        }
        if let Err(refusal) = self.check(from, &message, &procs, &tree) {
            self.steps.push(FenceStep::Refuse(from, refusal));
            return self.take_steps();
        }
        match message {
            FenceMessage::Contribute {
                round,
                root,
                number,
                covered,
                completed,
                contribution,
            } => {
                let part = SubtreePart {
                    number,
                    covered,
                    completed,
                    contribution,
                };
                if let Some(open) = self.open_for(from, root, &round, locator) {
                    open.below.add(root, from, part, &tree);
                    self.begin_here(&round);
                    self.pass_on(&round, locator, now);
                }
            }
            FenceMessage::GiveUp { round, status } => {
                let root = tree.root().unwrap_or(self.me);
                if let Some(open) = self.open_for(from, root, &round, locator) {
                    open.failure.get_or_insert(status);
                    self.pass_on(&round, locator, now);
                }
            }
            FenceMessage::Await(round) => self.answer_question(from, &round, locator, now),
            FenceMessage::Result {
                round,
                root,
                settled,
                outcome,
            } => {
                if tree.is_in_subtree(self.me, from) || self.has_asked(from, &round) {
                    self.take_result(&round, root, settled, outcome, locator);
                } else {
                    self.inherit_result(from, &round, root, outcome, locator, now);
                }
            }
        }
        self.take_steps()
    }

    /// Checks that the sender may say this.
    fn check(
        &self,
        from: ServerId,
        message: &FenceMessage,
        procs: &NamedProcs,
        tree: &FenceTree,
    ) -> Result<(), MessageRefusal> {
        if !tree.contains(from) {
            return Err(MessageRefusal::NoParticipant);
        }
        let set = self.sets.get(procs);
        let begun = set.map_or(0, FenceSet::begun);
        let is_ahead = |generation| generation > begun.saturating_add(self.limits.ahead());
        let is_above = tree.is_in_subtree(self.me, from);
        match message {
            FenceMessage::Contribute { round, .. } | FenceMessage::GiveUp { round, .. } => {
                let generation = round.generation;
                if generation == 0 || is_ahead(generation) {
                    return Err(MessageRefusal::Generation { generation, begun });
                }
            }
            FenceMessage::Await(round) => {
                if !is_above || is_ahead(round.generation) {
                    return Err(MessageRefusal::NotAbove);
                }
            }
            FenceMessage::Result { round, .. } => {
                // A result that is known is no decision.
                let is_over = set.is_some_and(|set| set.is_over(round.generation));
                let inherited = set.map_or(0, |set| set.inherited_up_to);
                let may_inherit =
                    tree.is_in_subtree(from, self.me) && round.generation <= inherited;
                let is_asked = self.has_asked(from, round);
                if !is_above && !is_asked && !may_inherit && !is_over {
                    return Err(MessageRefusal::NotAbove);
                }
            }
        }
        match message {
            FenceMessage::Contribute { contribution, .. } => check_values(contribution, procs),
            FenceMessage::Result {
                outcome: Ok(all), ..
            } => check_values(all, procs),
            _ => Ok(()),
        }
    }

    /// Returns true if this server has contributed to an open fence at another one, which was above it.
    fn has_asked(&self, from: ServerId, round: &FenceRound) -> bool {
        let set = self.sets.get(&round.procs);
        let open = set.and_then(|set| set.open.get(&round.generation));
        open.is_some_and(|open| open.asked.contains(&from))
    }

    /// Prepares a fence that another server takes part in for a root. Returns none if it is over: the
    /// sender then gets its result.
    fn open_for(
        &mut self,
        from: ServerId,
        root: ServerId,
        round: &FenceRound,
        locator: &impl SetLocator,
    ) -> Option<&mut Round> {
        let Ok(tree) = self.add_set(&round.procs, locator) else {
            let outcome = Err(code::PMIX_ERR_OUT_OF_RESOURCE);
            self.tell(from, round, root, 0, outcome);
            return None;
        };
        if self.sets.get(&round.procs)?.is_over(round.generation) {
            self.answer_late(from, root, round, &tree);
            return None;
        }
        let open = self
            .sets
            .get_mut(&round.procs)?
            .open
            .entry(round.generation);
        let open = open.or_insert_with(|| Round::new(tree.attendance));
        open.heard.insert(from);
        Some(open)
    }

    /// Answers a server that takes part in a fence for a root, although the fence is over.
    fn answer_late(
        &mut self,
        from: ServerId,
        root: ServerId,
        round: &FenceRound,
        tree: &FenceTree,
    ) {
        let set = self.sets.get_mut(&round.procs);
        let result = set.and_then(|set| set.results.get_mut(&round.generation));
        match result {
            // The next root takes the result over, and then tells it.
            Some(result) if result.root < root => {
                result.waiting.insert(from);
                self.confirm_later(round);
            }
            Some(_) => self.tell_known(from, round),
            // A result that is forgotten was told to all: the message is late, or its sender is one
            // that has lost count.
            None if tree.is_in_subtree(from, self.me) => {
                let outcome = Err(code::PMIX_ERR_LOST_CONNECTION);
                self.tell(from, round, root, 0, outcome);
            }
            None => {}
        }
    }

    /// Begins the local part of a fence, and of those before it that have not begun: local procs
    /// that call take part in them first.
    pub(super) fn begin_here(&mut self, round: &FenceRound) {
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

    /// Takes a result from a server above this one, and passes it on to those below.
    fn take_result(
        &mut self,
        round: &FenceRound,
        root: ServerId,
        settled: u64,
        outcome: FenceOutcome,
        locator: &impl SetLocator,
    ) {
        // A failed fence counts here, too, where no proc has called it yet. A set that finds no room
        // is refused to local callers.
        let Ok(tree) = self.add_set(&round.procs, locator) else {
            return;
        };
        let set = self.sets.entry(round.procs.clone()).or_default();
        // This server may have contributed for a later root, which tells the result again.
        if !tree.contains(root) || tree.root().is_some_and(|present| root < present) {
            return;
        }
        if set.is_over(round.generation) {
            let known = set.results.get_mut(&round.generation);
            if let Some(known) = known.filter(|known| known.root < root) {
                // Those below have contributed for that root, and wait for it.
                known.root = root;
                let waiting = std::mem::take(&mut known.waiting);
                self.tell_below(round, root, settled, &outcome, waiting, &tree);
            }
            return;
        }
        if outcome.is_ok() && !is_due(set, round) {
            return;
        }
        self.conclude(round, root, settled, outcome, &tree);
    }

    /// Takes the result of a lost root from a server below this one, for the next root.
    fn inherit_result(
        &mut self,
        from: ServerId,
        round: &FenceRound,
        root: ServerId,
        outcome: FenceOutcome,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) {
        let Ok(tree) = self.add_set(&round.procs, locator) else {
            return;
        };
        let set = self.sets.entry(round.procs.clone()).or_default();
        if set.is_over(round.generation) {
            // The next root has confirmed it already, when the sender did not know of that root.
            match set.results.get_mut(&round.generation) {
                Some(known) if known.root > root => self.tell_known(from, round),
                // Others may wait there for a root of which this server has not heard.
                Some(known) if tree.is_in_subtree(from, self.me) => {
                    known.waiting.insert(from);
                    self.confirm_later(round);
                }
                _ => {}
            }
            return;
        }
        if outcome.is_ok() && !is_due(set, round) {
            return;
        }
        let open = set.open.entry(round.generation);
        let open = open.or_insert_with(|| Round::new(tree.attendance));
        if open.inherited.is_none() {
            open.inherited = Some((root, outcome));
            open.passed_to = None;
            self.pass_on(round, locator, now);
        }
    }
}

/// Returns true if a fence may succeed: this server has contributed to it or given it up.
fn is_due(set: &FenceSet, round: &FenceRound) -> bool {
    let open = set.open.get(&round.generation);
    open.is_some_and(|open| matches!(open.own, OwnPart::Contributed(..) | OwnPart::GivenUp))
}

/// Checks that all values are those of procs that the fence names.
fn check_values(
    contribution: &FenceContribution,
    procs: &NamedProcs,
) -> Result<(), MessageRefusal> {
    let is_foreign =
        |proc: &&Proc| !procs.contains(proc) && !procs.contains(&Proc::all(proc.nspace.clone()));
    let mut values = contribution.data.iter().map(|data| &data.values.proc);
    let foreign = values.find(is_foreign).cloned();
    foreign.map_or(Ok(()), |proc| Err(MessageRefusal::ForeignProc(proc)))
}
