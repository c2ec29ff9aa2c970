//! Changes of the servers that have the procs of a set: a new root gets what the last one had.
use super::{
    FenceOutcome, FenceRound, FenceStep, ServerFences, SetLocator, SetServers, set::FenceSet,
};
use crate::{MonotonicTime, group::ServerId};
use peal_model::{NamedProcs, Nspace};

impl ServerFences {
    /// Gives this server another number. It knows no other server.
    pub(crate) fn enroll(&mut self, id: ServerId) {
        let old = std::mem::replace(&mut self.me, id);
        let roots = self.sets.values_mut().map(|set| &mut set.root);
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
        let root = at.root();
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
        let to: Vec<ServerId> = match at.root() {
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
}
