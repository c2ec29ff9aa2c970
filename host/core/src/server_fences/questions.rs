//! Questions to servers that have not contributed to a fence, and their answers.
use super::{
    ASK_AFTER, ASK_AGAIN, FenceMessage, FenceRound, FenceStep, FenceTree, ServerFences,
    SetKnowledge, SetLocator, set::Round,
};
use crate::{MonotonicTime, group::ServerId};
use peal_model::code;
use std::collections::BTreeSet;

impl ServerFences {
    /// Returns the time of the next question.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        self.questions.first().map(|(at, _)| *at)
    }

    /// Asks the servers that have not contributed in time.
    pub(crate) fn tick(&mut self, locator: &impl SetLocator, now: MonotonicTime) -> Vec<FenceStep> {
        self.clock = now;
        while self.questions.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, round)) = self.questions.pop_first()
        {
            let tree = self.tree(&round.procs, locator);
            if self.ask_for_confirmation(&round, &tree) {
                self.questions.insert((now + ASK_AGAIN, round));
                continue;
            }
            let silent = self.silent_servers(&round, &tree, locator);
            let Some(open) = self.open_mut(&round) else {
                continue;
            };
            open.ask_at = None;
            if silent.is_empty() {
                continue;
            }
            let next = now + ASK_AGAIN;
            open.ask_at = Some(next);
            let may_ask = open.is_asked || tree.knowledge == SetKnowledge::Complete;
            for server in silent.into_iter().filter(|_| may_ask) {
                let message = FenceMessage::Await(round.clone());
                self.steps.push(FenceStep::Send(server, message));
            }
            self.questions.insert((next, round));
        }
        self.take_steps()
    }

    /// Returns the servers to ask: those directly below that have not contributed, and further below
    /// those that are missing although the server above them has contributed.
    fn silent_servers(
        &self,
        round: &FenceRound,
        tree: &FenceTree,
        locator: &impl SetLocator,
    ) -> Vec<ServerId> {
        let me = self.me;
        let set = self.sets.get(&round.procs);
        let open = set.and_then(|set| set.open.get(&round.generation));
        let (Some(open), Some(root)) = (open, tree.root()) else {
            return Vec::new();
        };
        let (heard, unheard): (Vec<ServerId>, Vec<ServerId>) = tree
            .children_of(me)
            .iter()
            .partition(|server| open.below.has(root, **server));
        let covered = match heard.is_empty() {
            true => BTreeSet::new(),
            false => open.merged(me, 0, tree, locator).covered,
        };
        let below = heard.into_iter().flat_map(|server| tree.subtree_of(server));
        let missing = below.filter(|server| !covered.contains(server));
        unheard.into_iter().chain(missing).collect()
    }

    /// Tells the result of a lost root to the server above this one, which may have missed it, if other
    /// servers wait for it here. Returns true if they do.
    fn ask_for_confirmation(&mut self, round: &FenceRound, tree: &FenceTree) -> bool {
        let set = self.sets.get(&round.procs);
        let parent = tree.parent_of(self.me);
        match parent {
            Some(parent)
                if set.is_some_and(|set| set.awaits_root(round.generation, tree.root())) =>
            {
                self.tell_known(parent, round);
                true
            }
            _ => false,
        }
    }

    /// Has this server ask after a while that the present root confirms the result of a lost one.
    pub(super) fn confirm_later(&mut self, round: &FenceRound) {
        let is_known = |(_, known): &(MonotonicTime, FenceRound)| known == round;
        if !self.questions.iter().any(is_known) {
            let at = self.clock + ASK_AFTER;
            self.questions.insert((at, round.clone()));
        }
    }

    /// Has a fence that is under way ask the servers below this one after a while.
    pub(super) fn ask_later(&mut self, round: &FenceRound, tree: &FenceTree, now: MonotonicTime) {
        self.ask_at(round, tree, now + ASK_AFTER);
    }

    fn ask_at(&mut self, round: &FenceRound, tree: &FenceTree, at: MonotonicTime) {
        let has_children = !tree.children_of(self.me).is_empty();
        let Some(open) = self.open_mut(round) else {
            return;
        };
        if has_children && open.ask_at.is_none() && open.is_awaited() {
            open.ask_at = Some(at);
            self.questions.insert((at, round.clone()));
        }
    }

    /// Answers a server above this one, which misses this server's contribution.
    pub(super) fn answer_question(
        &mut self,
        from: ServerId,
        round: &FenceRound,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) {
        let Ok(tree) = self.add_set(&round.procs, locator) else {
            let message = FenceMessage::GiveUp {
                round: round.clone(),
                status: code::PMIX_ERR_OUT_OF_RESOURCE,
            };
            self.steps.push(FenceStep::Send(from, message));
            return;
        };
        let set = self.sets.entry(round.procs.clone()).or_default();
        if set.is_over(round.generation) {
            // The sender has replaced a server that had told the result here.
            self.tell_known(from, round);
            return;
        }
        let open = set.open.entry(round.generation);
        let open = open.or_insert_with(|| Round::new(tree.attendance));
        open.is_asked = true;
        // What was sent may have been lost with a former parent.
        open.sent = None;
        open.passed_to = None;
        self.begin_here(round);
        // Where no proc has called, those below are not asked yet, either.
        self.ask_at(round, &tree, now);
        if tree.parent_of(self.me) == Some(from) {
            self.pass_on(round, locator, now);
        } else {
            self.contribute_to(from, round, &tree, locator);
        }
    }
}
