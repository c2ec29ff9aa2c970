//! Procs that a named proc stands for.
use peal_model::{Nspace, Proc, Rank};
use std::ops::RangeInclusive;

/// The procs that a named proc stands for: itself, or all of its job.
#[derive(Clone, Debug)]
pub(super) struct ProcSelection<'a> {
    nspace: &'a Nspace,
    ranks: RangeInclusive<u32>,
}

impl<'a> ProcSelection<'a> {
    /// Selects the named proc only.
    pub(super) fn just(named: &'a Proc) -> ProcSelection<'a> {
        ProcSelection {
            nspace: &named.nspace,
            ranks: named.rank.0..=named.rank.0,
        }
    }

    /// Selects all procs of a job.
    pub(super) fn all_of(nspace: &'a Nspace, size: u32) -> ProcSelection<'a> {
        // No inclusive range from 0 on is empty, as that of a job without procs must be.
        let none = RangeInclusive::new(1, 0);
        ProcSelection {
            nspace,
            ranks: size.checked_sub(1).map_or(none, |last| 0..=last),
        }
    }
}

impl Iterator for ProcSelection<'_> {
    type Item = Proc;

    fn next(&mut self) -> Option<Proc> {
        self.ranks
            .next()
            .map(|rank| Proc::new(self.nspace.clone(), Rank(rank)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}
