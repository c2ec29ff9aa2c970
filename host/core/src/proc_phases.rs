//! Phases of the procs of a job, and the number of procs in each phase.
use crate::job::ProcPhase;
use peal_model::Rank;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Numbers of procs by phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PhaseCounts {
    pub(crate) expected: u32,
    pub(crate) connected: u32,
    pub(crate) finalized: u32,
    pub(crate) terminated: u32,
    pub(crate) lost: u32,
}

impl PhaseCounts {
    fn of(&mut self, phase: ProcPhase) -> &mut u32 {
        match phase {
            ProcPhase::Expected => &mut self.expected,
            ProcPhase::Connected(_) => &mut self.connected,
            ProcPhase::Finalized => &mut self.finalized,
            ProcPhase::Terminated => &mut self.terminated,
            ProcPhase::Lost => &mut self.lost,
        }
    }
}

/// Phases of the procs of a job on this node. Questions about all procs are answered by their numbers: they
/// are asked for each proc that ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Rank, ProcPhase>", into = "BTreeMap<Rank, ProcPhase>")]
pub(crate) struct ProcPhases {
    by_rank: BTreeMap<Rank, ProcPhase>,
    counts: PhaseCounts,
}

impl From<BTreeMap<Rank, ProcPhase>> for ProcPhases {
    fn from(by_rank: BTreeMap<Rank, ProcPhase>) -> ProcPhases {
        let mut counts = PhaseCounts::default();
        by_rank.values().for_each(|phase| *counts.of(*phase) += 1);
        ProcPhases { by_rank, counts }
    }
}

impl From<ProcPhases> for BTreeMap<Rank, ProcPhase> {
    fn from(phases: ProcPhases) -> BTreeMap<Rank, ProcPhase> {
        phases.by_rank
    }
}

impl ProcPhases {
    /// Creates the phases of procs that are expected.
    pub(crate) fn expected(ranks: impl IntoIterator<Item = Rank>) -> ProcPhases {
        let all = ranks.into_iter().map(|rank| (rank, ProcPhase::Expected));
        ProcPhases::from(all.collect::<BTreeMap<_, _>>())
    }

    /// Returns the phase of a proc, if it is known.
    pub(crate) fn get(&self, rank: Rank) -> Option<ProcPhase> {
        self.by_rank.get(&rank).copied()
    }

    /// Sets the phase of a proc. Returns false for an unknown one, which stays unknown.
    pub(crate) fn set(&mut self, rank: Rank, phase: ProcPhase) -> bool {
        let Some(known) = self.by_rank.get_mut(&rank) else {
            return false;
        };
        *self.counts.of(*known) -= 1;
        *self.counts.of(phase) += 1;
        *known = phase;
        true
    }

    /// Expects these procs, unless they are known. Forgets others that have not connected.
    pub(crate) fn expect(&mut self, ranks: impl IntoIterator<Item = Rank>) {
        let named: BTreeSet<Rank> = ranks.into_iter().collect();
        let mut by_rank = std::mem::take(&mut self.by_rank);
        by_rank.retain(|rank, phase| named.contains(rank) || *phase != ProcPhase::Expected);
        for rank in named {
            by_rank.entry(rank).or_insert(ProcPhase::Expected);
        }
        *self = ProcPhases::from(by_rank);
    }

    /// Returns the phases in the order of the ranks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Rank, ProcPhase)> {
        self.by_rank.iter().map(|(rank, phase)| (*rank, *phase))
    }

    /// Returns the ranks in their order.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.by_rank.keys().copied()
    }

    /// Returns the numbers of procs by phase.
    pub(crate) fn counts(&self) -> PhaseCounts {
        self.counts
    }

    /// Returns true if all procs have ended. A finalized proc may initialize again, so it has not.
    pub(crate) fn have_ended(&self) -> bool {
        let PhaseCounts {
            expected,
            connected,
            finalized,
            terminated: _,
            lost: _,
        } = self.counts;
        expected + connected + finalized == 0
    }

    /// Returns true if any proc may still put values.
    pub(crate) fn may_put(&self) -> bool {
        self.counts.expected + self.counts.connected > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phase() -> impl Strategy<Value = ProcPhase> {
        prop_oneof![
            Just(ProcPhase::Expected),
            (1..3u32).prop_map(ProcPhase::Connected),
            Just(ProcPhase::Finalized),
            Just(ProcPhase::Terminated),
            Just(ProcPhase::Lost),
        ]
    }

    #[derive(Clone, Debug)]
    enum Step {
        Set(u32, ProcPhase),
        Expect(Vec<u32>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..6u32, phase()).prop_map(|(rank, phase)| Step::Set(rank, phase)),
            1 => prop::collection::vec(0..6u32, 0..6).prop_map(Step::Expect),
        ]
    }

    proptest! {
        #[test]
        fn counts_are_those_of_all_phases(steps in prop::collection::vec(step(), 0..40)) {
            let mut phases = ProcPhases::expected((0..4).map(Rank));
            let mut model: BTreeMap<Rank, ProcPhase> = phases.iter().collect();
            for step in steps {
                match step {
                    Step::Set(rank, phase) => {
                        let is_known = phases.set(Rank(rank), phase);
                        prop_assert_eq!(is_known, model.contains_key(&Rank(rank)));
                        model.entry(Rank(rank)).and_modify(|known| *known = phase);
                    }
                    Step::Expect(ranks) => {
                        let named: Vec<Rank> = ranks.into_iter().map(Rank).collect();
                        phases.expect(named.clone());
                        model.retain(|rank, phase| {
                            named.contains(rank) || *phase != ProcPhase::Expected
                        });
                        for rank in named {
                            model.entry(rank).or_insert(ProcPhase::Expected);
                        }
                    }
                }
                prop_assert_eq!(phases.iter().collect::<BTreeMap<_, _>>(), model.clone());
                let ended = |phase: &ProcPhase| {
                    matches!(phase, ProcPhase::Terminated | ProcPhase::Lost)
                };
                prop_assert_eq!(phases.have_ended(), model.values().all(ended));
                let may_put = |phase: &ProcPhase| {
                    matches!(phase, ProcPhase::Expected | ProcPhase::Connected(_))
                };
                prop_assert_eq!(phases.may_put(), model.values().any(may_put));
                prop_assert_eq!(phases.counts(), ProcPhases::from(model.clone()).counts());
            }
        }
    }
}
