//! Decisions of the root about fences, and the ends of fences.
use super::{
    FenceMessage, FenceOutcome, FenceRound, FenceStep, ServerFences, SetKnowledge, SetLocator,
    SetServers, TooManySets,
    set::{FenceSet, OwnPart, Round},
};
use crate::{MonotonicTime, group::ServerId};
use peal_model::{NamedProcs, Nspace};
use std::sync::Arc;

impl ServerFences {
    /// Sends the local part to the root, or counts it if this server is the root.
    pub(super) fn pass_on(
        &mut self,
        round: &FenceRound,
        locator: &impl SetLocator,
        now: MonotonicTime,
    ) {
        let at = locator.locate(&round.procs);
        let root = at.root();
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

    pub(super) fn send_own(&mut self, root: ServerId, round: &FenceRound) {
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
    pub(super) fn decide_if_complete(&mut self, round: &FenceRound, at: &SetServers) {
        let me = self.me;
        let Some(set) = self.sets.get(&round.procs) else {
            return;
        };
        let Some(open) = set.open.get(&round.generation) else {
            return;
        };
        let is_complete = at.root() == Some(me)
            && at.knowledge == SetKnowledge::Complete
            && at.servers.iter().all(|server| open.has(*server, me));
        if is_complete {
            let all = Arc::new(open.merged(me));
            self.decide(round, Ok(all), at);
        }
    }

    /// Decides a fence and tells the result.
    pub(super) fn decide(&mut self, round: &FenceRound, outcome: FenceOutcome, at: &SetServers) {
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

    pub(super) fn tell(
        &mut self,
        to: ServerId,
        round: &FenceRound,
        settled: u64,
        outcome: FenceOutcome,
    ) {
        let message = FenceMessage::Result {
            round: round.clone(),
            settled,
            outcome,
        };
        self.steps.push(FenceStep::Send(to, message));
    }

    /// Ends a fence here.
    pub(super) fn end(&mut self, round: &FenceRound, outcome: FenceOutcome) {
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

    pub(super) fn open_mut(&mut self, round: &FenceRound) -> Option<&mut Round> {
        let set = self.sets.get_mut(&round.procs)?;
        set.open.get_mut(&round.generation)
    }

    /// Makes room for the state of a set.
    pub(super) fn add_set(&mut self, procs: &NamedProcs) -> Result<(), TooManySets> {
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

    pub(super) fn take_steps(&mut self) -> Vec<FenceStep> {
        std::mem::take(&mut self.steps)
    }
}
