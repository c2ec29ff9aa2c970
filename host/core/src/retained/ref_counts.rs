//! Reference counts of events, stored as runs of equal counts, because consecutive events mostly
//! have the same recipients.
use super::Seq;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A count for every number, zero at first. Memory and time depend on the number of runs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RefCounts(
    /// The count from each number on, up to the next key. Neighbours differ.
    BTreeMap<Seq, u32>,
);

impl RefCounts {
    /// Adds to the count of one number.
    pub(crate) fn add(&mut self, at: Seq, count: u32) {
        self.shift(at, at, |known| known.saturating_add(count));
    }

    /// Subtracts one from the counts of a range. Returns the runs whose count became zero.
    pub(crate) fn subtract(&mut self, first: Seq, last: Seq) -> Vec<(Seq, Seq)> {
        self.shift(first, last, |known| known.saturating_sub(1))
    }

    /// Returns the number of runs.
    pub(crate) fn pieces(&self) -> usize {
        self.0.len()
    }

    /// Returns the count of a number.
    pub(crate) fn at(&self, at: Seq) -> u32 {
        self.0
            .range(..=at)
            .next_back()
            .map_or(0, |(_, count)| *count)
    }

    fn shift(&mut self, first: Seq, last: Seq, to: impl Fn(u32) -> u32) -> Vec<(Seq, Seq)> {
        let after = last.next();
        self.split(first);
        self.split(after);
        let mut emptied: Vec<(Seq, Seq)> = Vec::new();
        // The start of a run that became zero, until its end is known.
        let mut open = None;
        for (at, count) in self.0.range_mut(first..after) {
            if let Some(began) = open.take() {
                emptied.push((began, Seq(at.0.saturating_sub(1))));
            }
            let before = *count;
            *count = to(before);
            // A run that was zero before was reported when it became so.
            open = (before > 0 && *count == 0).then_some(*at);
        }
        emptied.extend(open.map(|began| (began, last)));
        // Runs inside of the range change alike, so they still differ. Only its two ends may now
        // equal their neighbours.
        self.merge(after);
        self.merge(first);
        emptied
    }

    /// Splits a run so that one begins here.
    fn split(&mut self, at: Seq) {
        let count = self.at(at);
        self.0.entry(at).or_insert(count);
    }

    /// Merges the run that begins here with the one before it, if their counts are equal.
    fn merge(&mut self, at: Seq) {
        let before = self
            .0
            .range(..at)
            .next_back()
            .map_or(0, |(_, count)| *count);
        if self.0.get(&at) == Some(&before) {
            self.0.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_counts(ops in prop::collection::vec((0..30u64, 0..10u64, 0..4u32), 0..100)) {
            let mut ours = RefCounts::default();
            let mut model = [0u32; 40];
            for (first, length, count) in ops {
                let last = first + length;
                if count > 0 {
                    ours.add(Seq(first), count);
                    model[first as usize] += count;
                } else if (first..=last).all(|at| model[at as usize] > 0) {
                    let emptied: Vec<u64> = ours
                        .subtract(Seq(first), Seq(last))
                        .into_iter()
                        .flat_map(|(first, last)| first.0..=last.0)
                        .collect();
                    let wanted: Vec<u64> = (first..=last).filter(|at| model[*at as usize] == 1).collect();
                    prop_assert_eq!(emptied, wanted);
                    (first..=last).for_each(|at| model[at as usize] -= 1);
                }
                prop_assert!((0..40).all(|at| ours.at(Seq(at)) == model[at as usize]));
                let rows = 1 + model.windows(2).filter(|two| two[0] != two[1]).count();
                prop_assert!(ours.pieces() <= rows);
            }
        }
    }
}
