//! Messages of other servers about fences.
use super::{
    ASK_AFTER, FenceMessage, FenceOutcome, FenceRound, FenceStep, ServerFences, SetLocator,
    SetServers,
    set::{FenceSet, OwnPart, Round},
};
use crate::{MonotonicTime, fence::Completeness, group::ServerId, message_refusal::MessageRefusal};
use peal_model::{NamedProcs, code};

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
                if self.open_at_root(from, &round, &at, now) && at.root() == Some(self.me) {
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

    /// Checks that the sender may say this.
    fn check(
        &self,
        from: ServerId,
        message: &FenceMessage,
        procs: &NamedProcs,
        at: &SetServers,
    ) -> Result<(), MessageRefusal> {
        let root = at.root();
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
                if root != Some(from) || round.generation > begun.saturating_add(max_ahead) {
                    return Err(MessageRefusal::NotRoot);
                }
            }
            FenceMessage::Result { round, .. } => {
                // A result that is known is no decision.
                let is_over = set.is_some_and(|set| set.is_over(round.generation));
                let inherited = set.map_or(0, |set| set.inherited_up_to);
                let may_inherit = root == Some(self.me) && round.generation <= inherited;
                if root != Some(from) && !may_inherit && !is_over {
                    return Err(MessageRefusal::NotRoot);
                }
            }
        }
        Ok(())
    }

    /// Prepares a fence that another server takes part in. Returns false if it is over: the sender
    /// then gets its result.
    pub(super) fn open_at_root(
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
        set.root = at.root();
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
        set.root = at.root();
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
        let is_root = at.root() == Some(self.me);
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
