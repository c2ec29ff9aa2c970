//! The way of contributions to the root, decisions, and the ends of fences.
use super::{
    FenceMessage, FenceOutcome, FenceRound, FenceStep, FenceTree, ServerFences, SetKnowledge,
    SetLocator, TooManySets,
    gathered::MergedParts,
    set::{FenceSet, KnownResult, OwnPart, Round, SentPart},
};
use crate::{MonotonicTime, group::ServerId};
use peal_model::{NamedProcs, Nspace};
use std::{collections::BTreeSet, sync::Arc};

impl ServerFences {
    /// Passes on what this server knows of a fence: decides as the root, and otherwise sends it to the
    /// next server towards the root.
    pub(super) fn pass_on(
        &mut self,
        round: &FenceRound,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) {
        let tree = self.tree(&round.procs, locator);
        let me = self.me;
        let Some(open) = self.open_mut(round) else {
            return;
        };
        let failure = open.failure;
        let inherited = open.inherited.clone();
        let is_new_way = open.passed_to != tree.parent_of(me);
        let Some(parent) = tree.parent_of(me) else {
            // Without any procs here the next announcement of a server tells the root.
            if tree.root() == Some(me) {
                match (inherited, failure) {
                    (Some((_, outcome)), _) => self.decide(round, outcome, 0, &tree),
                    (None, Some(status)) => self.decide(round, Err(status), 0, &tree),
                    (None, None) => {
                        self.ask_later(round, &tree, now);
                        self.decide_if_complete(round, &tree, locator);
                    }
                }
            }
            return;
        };
        if failure.is_none() && inherited.is_none() {
            self.ask_later(round, &tree, now);
            self.contribute_if_complete(parent, round, &tree, locator);
        } else if is_new_way {
            open.passed_to = Some(parent);
            match (inherited, failure) {
                (Some((root, outcome)), _) => self.tell(parent, round, root, 0, outcome),
                (None, Some(status)) => {
                    let round = round.clone();
                    let message = FenceMessage::GiveUp { round, status };
                    self.steps.push(FenceStep::Send(parent, message));
                }
                (None, None) => {}
            }
        }
    }

    /// Returns the contributions to a fence of this server and of all below it, if they are complete.
    fn complete_part(
        &self,
        round: &FenceRound,
        tree: &FenceTree,
        locator: &impl SetLocator,
    ) -> Option<MergedParts> {
        let set = self.sets.get(&round.procs)?;
        let open = set.open.get(&round.generation)?;
        let is_ready = open.is_asked || tree.knowledge == SetKnowledge::Complete;
        if !is_ready || !open.may_be_complete(self.me, tree) {
            return None;
        }
        let merged = open.merged(self.me, set.completed, tree, locator);
        let mut subtree = tree.subtree_of(self.me);
        subtree
            .all(|server| merged.covered.contains(&server))
            .then_some(merged)
    }

    /// Contributes at the next server towards the root, unless that one has it already.
    fn contribute_if_complete(
        &mut self,
        parent: ServerId,
        round: &FenceRound,
        tree: &FenceTree,
        locator: &impl SetLocator,
    ) {
        let me = self.me;
        let Some(open) = self.open_mut(round) else {
            return;
        };
        let has_all = |sent: &SentPart| {
            sent.to == parent
                && Some(sent.root) == tree.root()
                && tree
                    .subtree_of(me)
                    .all(|server| sent.covered.contains(&server))
        };
        if !open.sent.as_ref().is_some_and(has_all)
            && let Some(merged) = self.complete_part(round, tree, locator)
        {
            self.send_part(parent, round, merged, tree);
        }
    }

    /// Contributes at a server, also if servers below this one have not contributed.
    pub(super) fn contribute_to(
        &mut self,
        to: ServerId,
        round: &FenceRound,
        tree: &FenceTree,
        locator: &impl SetLocator,
    ) {
        let Some(set) = self.sets.get(&round.procs) else {
            return;
        };
        if let Some(open) = set.open.get(&round.generation)
            && matches!(open.own, OwnPart::Contributed(..))
        {
            let merged = open.merged(self.me, set.completed, tree, locator);
            self.send_part(to, round, merged, tree);
        }
    }

    fn send_part(
        &mut self,
        to: ServerId,
        round: &FenceRound,
        merged: MergedParts,
        tree: &FenceTree,
    ) {
        let Some(root) = tree.root() else {
            return;
        };
        let Some(open) = self.open_mut(round) else {
            return;
        };
        let MergedParts {
            covered,
            completed,
            contribution,
        } = merged;
        open.asked.insert(to);
        open.number += 1;
        let number = open.number;
        open.sent = Some(SentPart {
            to,
            root,
            covered: covered.clone(),
        });
        let message = FenceMessage::Contribute {
            round: round.clone(),
            root,
            number,
            covered,
            completed,
            contribution,
        };
        self.steps.push(FenceStep::Send(to, message));
    }

    /// Decides a fence to which all servers have contributed, if this one is its root.
    fn decide_if_complete(
        &mut self,
        round: &FenceRound,
        tree: &FenceTree,
        locator: &impl SetLocator,
    ) {
        if tree.knowledge != SetKnowledge::Complete {
            return;
        }
        let Some(merged) = self.complete_part(round, tree, locator) else {
            return;
        };
        let Some(open) = self.open_mut(round) else {
            return;
        };
        let mut all = merged.contribution.clone();
        all.attendance = open.attendance_of(&merged);
        self.decide(round, Ok(Arc::new(all)), merged.completed, tree);
    }

    /// Decides a fence as its root. Up to `settled` the fences of its procs are over at all servers.
    pub(super) fn decide(
        &mut self,
        round: &FenceRound,
        outcome: FenceOutcome,
        settled: u64,
        tree: &FenceTree,
    ) {
        self.conclude(round, self.me, settled, outcome, tree);
    }

    /// Ends a fence, and tells the result of this root to the servers below this one.
    pub(super) fn conclude(
        &mut self,
        round: &FenceRound,
        root: ServerId,
        settled: u64,
        outcome: FenceOutcome,
        tree: &FenceTree,
    ) {
        let Some(set) = self.sets.get_mut(&round.procs) else {
            return;
        };
        set.settle(settled);
        let open = set.open.get(&round.generation);
        let heard = open.map(|open| open.heard.clone()).unwrap_or_default();
        self.tell_below(round, root, settled, &outcome, heard, tree);
        self.end(round, root, outcome);
    }

    /// Tells a result to the servers below this one, and to others that have contributed here.
    pub(super) fn tell_below(
        &mut self,
        round: &FenceRound,
        root: ServerId,
        settled: u64,
        outcome: &FenceOutcome,
        others: BTreeSet<ServerId>,
        tree: &FenceTree,
    ) {
        let mut to = others;
        to.retain(|server| tree.contains(*server));
        to.extend(tree.children_of(self.me));
        for server in to {
            self.tell(server, round, root, settled, outcome.clone());
        }
    }

    /// Tells a result that is known here to a server. Nothing is settled by it: others may still lack
    /// the result.
    pub(super) fn tell_known(&mut self, to: ServerId, round: &FenceRound) {
        let result = self.known_result(round);
        if let Some(KnownResult { outcome, root, .. }) = result.cloned() {
            self.tell(to, round, root, 0, outcome);
        }
    }

    pub(super) fn known_result(&self, round: &FenceRound) -> Option<&KnownResult> {
        let set = self.sets.get(&round.procs)?;
        set.results.get(&round.generation)
    }

    pub(super) fn tell(
        &mut self,
        to: ServerId,
        round: &FenceRound,
        root: ServerId,
        settled: u64,
        outcome: FenceOutcome,
    ) {
        let message = FenceMessage::Result {
            round: round.clone(),
            root,
            settled,
            outcome,
        };
        self.steps.push(FenceStep::Send(to, message));
    }

    /// Ends a fence here.
    fn end(&mut self, round: &FenceRound, root: ServerId, outcome: FenceOutcome) {
        let Some(set) = self.sets.get_mut(&round.procs) else {
            return;
        };
        let open = set.open.remove(&round.generation);
        let later = |open: &Round| {
            let heard = open.heard.iter().copied();
            let others = heard.filter(|server| !open.below.has(root, *server));
            others.chain(open.below.senders_after(root)).collect()
        };
        let result = KnownResult {
            outcome: outcome.clone(),
            root,
            waiting: open.as_ref().map(later).unwrap_or_default(),
        };
        set.decide(round.generation, result);
        let Some(open) = open else {
            return;
        };
        if let Some(at) = open.ask_at {
            self.questions.remove(&(at, round.clone()));
        }
        if let OwnPart::Open(fence) | OwnPart::Contributed(fence, _) = open.own {
            self.steps.push(FenceStep::Complete(fence, outcome));
        }
    }

    pub(super) fn open_mut(&mut self, round: &FenceRound) -> Option<&mut Round> {
        let set = self.sets.get_mut(&round.procs)?;
        set.open.get_mut(&round.generation)
    }

    /// Returns the tree of the servers that have the procs of a set. It is computed again only when the
    /// view has changed.
    pub(super) fn tree(&mut self, procs: &NamedProcs, locator: &impl SetLocator) -> Arc<FenceTree> {
        let changes = locator.changes();
        let known = self.sets.get(procs).and_then(|set| set.tree.as_ref());
        if let Some((at, tree)) = known
            && *at == changes
        {
            return tree.clone();
        }
        let tree = Arc::new(FenceTree::new(locator.locate(procs), self.limits.fan_out));
        if let Some(set) = self.sets.get_mut(procs) {
            set.tree = Some((changes, tree.clone()));
        }
        tree
    }

    /// Makes room for the state of a set. Returns its tree.
    pub(super) fn add_set(
        &mut self,
        procs: &NamedProcs,
        locator: &impl SetLocator,
    ) -> Result<Arc<FenceTree>, TooManySets> {
        let tree = self.tree(procs, locator);
        if self.sets.contains_key(procs) {
            return Ok(tree);
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
        let set = FenceSet::new(self.me, locator.changes(), tree.clone());
        self.sets.insert(procs.clone(), set);
        Ok(tree)
    }

    pub(super) fn take_steps(&mut self) -> Vec<FenceStep> {
        std::mem::take(&mut self.steps)
    }
}
