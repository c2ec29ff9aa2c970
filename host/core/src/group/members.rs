//! Who is in a group, in their order, and found without looking through all of them.
use peal_model::{Nspace, Proc, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// The members of a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    ordered: Vec<Proc>,
    by_job: BTreeMap<Nspace, BTreeSet<Rank>>,
}

impl Members {
    /// These, each of whom is named once.
    pub fn new(ordered: Vec<Proc>) -> Members {
        let mut by_job: BTreeMap<Nspace, BTreeSet<Rank>> = BTreeMap::new();
        for Proc { nspace, rank } in &ordered {
            by_job.entry(nspace.clone()).or_default().insert(*rank);
        }
        Members { ordered, by_job }
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.ordered.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Whether somebody is one.
    pub fn contains(&self, proc: &Proc) -> bool {
        self.by_job.get(&proc.nspace).is_some_and(|ranks| ranks.contains(&proc.rank))
    }

    /// Their jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Nspace> {
        self.by_job.keys()
    }

    /// Whether any of them is of this job.
    pub(super) fn has_job(&self, nspace: &Nspace) -> bool {
        self.by_job.contains_key(nspace)
    }

    /// Those of a job.
    pub fn of_job(&self, nspace: &Nspace) -> impl Iterator<Item = Proc> {
        let ranks = self.by_job.get(nspace).into_iter().flatten();
        ranks.map(|rank| Proc::new(nspace.clone(), *rank))
    }
}
