//! Changes of the servers that have the procs of a set: a new root or parent gets what the last one had.
use super::{FenceRound, FenceStep, ServerFences, SetLocator, set::TreePlace};
use crate::{MonotonicTime, group::ServerId};
use peal_model::{NamedProcs, Nspace};

impl ServerFences {
    /// Gives this server another number. It knows no other server.
    pub(crate) fn enroll(&mut self, id: ServerId) {
        let old = std::mem::replace(&mut self.me, id);
        let roots = self.sets.values_mut().map(|set| &mut set.place.root);
        for root in roots.filter(|root| **root == Some(old)) {
            *root = Some(id);
        }
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
        self.clock = now;
        let sets = self.sets.keys();
        let sets = sets.filter(|procs| !procs.of_job(nspace).is_empty());
        let sets: Vec<NamedProcs> = sets.cloned().collect();
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
        let tree = self.tree(&procs, locator);
        let place = TreePlace::of(self.me, &tree);
        let max_ahead = self.limits.ahead();
        let Some(set) = self.sets.get_mut(&procs) else {
            return;
        };
        let before = std::mem::replace(&mut set.place, place.clone());
        for open in set.open.values_mut() {
            open.lost.extend(lost);
            if let (Some(last), Some(next)) = (before.root, place.root)
                && last != next
            {
                open.below.root_changed(last, next);
            }
        }
        let is_root_lost = before.root.is_some() && before.root == lost;
        if is_root_lost {
            set.inherited_up_to = set.begun().saturating_add(max_ahead);
        }
        let generations: Vec<u64> = set.open.keys().copied().collect();
        if lost.is_some() {
            self.repeat_results(&procs, &before, locator);
        }
        for generation in generations {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            self.pass_on(&round, locator, now);
            // What this server had sent may have been enough for a result that it has missed. Others
            // below it may have that result, and then contribute no more.
            let sent = self.open_mut(&round).and_then(|open| open.sent.as_ref());
            if let Some(parent) = place.parent
                && sent.is_some_and(|sent| sent.to != parent)
            {
                self.contribute_to(parent, &round, &tree, locator);
            }
        }
    }

    /// Tells the results that other servers may have missed from the lost one.
    ///
    /// After the loss of a root they go to the next one, which tells all. After another loss those that
    /// were below the lost server contribute elsewhere, and get their results for that. But they may
    /// not have contributed to a fence that has failed, so failures are told to them.
    fn repeat_results(
        &mut self,
        procs: &NamedProcs,
        before: &TreePlace,
        locator: &impl SetLocator,
    ) {
        let me = self.me;
        let tree = self.tree(procs, locator);
        let Some(set) = self.sets.get_mut(procs) else {
            return;
        };
        let is_root_changed = before.root != set.place.root;
        let root = set.place.root;
        let is_root = root == Some(me);
        let is_parent_changed = before.parent != set.place.parent;
        let parent = set.place.parent;
        let children = set.place.children.iter();
        let new = children.filter(|child| !before.children.contains(child));
        let new: Vec<ServerId> = new.copied().collect();
        if is_root_changed && is_root {
            for result in set.results.values_mut() {
                result.root = me;
            }
        }
        for (generation, result) in set.results.clone() {
            let round = FenceRound {
                procs: procs.clone(),
                generation,
            };
            if Some(result.root) < root && !result.waiting.is_empty() {
                self.confirm_later(&round);
            }
            match parent {
                None if is_root_changed && is_root => {
                    let waiting = result.waiting;
                    self.tell_below(&round, me, 0, &result.outcome, waiting, &tree);
                }
                // The present root has not confirmed it here.
                Some(parent) if is_parent_changed && Some(result.root) < root => {
                    self.tell_known(parent, &round);
                }
                _ if result.outcome.is_err() => {
                    for child in &new {
                        self.tell_known(*child, &round);
                    }
                }
                _ => {}
            }
        }
    }
}
