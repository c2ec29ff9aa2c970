//! Sets of event numbers, stored as intervals, because the events for one recipient mostly have
//! consecutive numbers.
use super::Seq;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A set of numbers. Its memory depends on the number of intervals, not of members.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Intervals(BTreeMap<Seq, Seq>);

impl Intervals {
    /// Adds a number. Returns true if it is new.
    pub(crate) fn insert(&mut self, at: Seq) -> bool {
        let before = self
            .0
            .range(..=at)
            .next_back()
            .map(|(first, last)| (*first, *last));
        if before.is_some_and(|(_, last)| last >= at) {
            return false;
        }
        // The number may fill the gap between two intervals, which then become one.
        let last = self.0.remove(&at.next()).unwrap_or(at);
        let first = before
            .filter(|(_, last)| last.precedes(at))
            .map_or(at, |(first, _)| first);
        self.0.insert(first, last);
        true
    }

    /// Removes a number. Returns true if it was there.
    pub(crate) fn remove(&mut self, at: Seq) -> bool {
        let Some((first, last)) = self.around(at) else {
            return false;
        };
        if last > at {
            self.0.insert(at.next(), last);
        }
        if first < at {
            // The number is greater than `first`, so it is not zero.
            self.0.insert(first, Seq(at.0 - 1));
        } else {
            // The interval that began here begins later now, or is empty.
            self.0.remove(&first);
        }
        true
    }

    /// Returns true if the set contains a number.
    pub(crate) fn contains(&self, at: Seq) -> bool {
        self.around(at).is_some()
    }

    /// Returns the smallest number that is not below this one.
    pub(crate) fn next_from(&self, at: Seq) -> Option<Seq> {
        if self.contains(at) {
            Some(at)
        } else {
            self.0.range(at..).next().map(|(first, _)| *first)
        }
    }

    /// Returns the intervals in order, each with its first and last number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Seq, Seq)> {
        self.0.iter().map(|(first, last)| (*first, *last))
    }

    /// Returns the number of intervals.
    pub(crate) fn pieces(&self) -> usize {
        self.0.len()
    }

    fn around(&self, at: Seq) -> Option<(Seq, Seq)> {
        let (first, last) = self.0.range(..=at).next_back()?;
        (*last >= at).then_some((*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(ops in prop::collection::vec((any::<bool>(), 0..40u64), 0..200)) {
            let mut ours = Intervals::default();
            let mut model = BTreeSet::new();
            for (adds, number) in ops {
                if adds {
                    prop_assert_eq!(ours.insert(Seq(number)), model.insert(number));
                } else {
                    prop_assert_eq!(ours.remove(Seq(number)), model.remove(&number));
                }
                let members: Vec<u64> = ours.iter().flat_map(|(first, last)| first.0..=last.0).collect();
                prop_assert_eq!(&members, &model.iter().copied().collect::<Vec<_>>());
                let apart = ours.iter().zip(ours.iter().skip(1)).all(|(one, other)| one.1.next() < other.0);
                prop_assert!(apart, "neighbours are one interval: {:?}", ours);
                for at in 0..41 {
                    prop_assert_eq!(ours.contains(Seq(at)), model.contains(&at));
                    prop_assert_eq!(ours.next_from(Seq(at)).map(|seq| seq.0), model.range(at..).next().copied());
                }
            }
        }
    }
}
