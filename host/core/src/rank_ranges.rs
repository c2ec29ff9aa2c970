//! Sets of ranks as ranges: the ranks of a job on one node are mostly consecutive.
use peal_model::Rank;
use serde::{Deserialize, Serialize};
use std::{iter::FusedIterator, ops::RangeInclusive};

/// A set of ranks. It takes memory for each run of consecutive ranks, not for each rank.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
// The ranges of a stranger are put in order when they are read.
#[serde(from = "Vec<RangeInclusive<u32>>")]
pub struct RankRanges(Vec<RangeInclusive<u32>>);

impl RankRanges {
    /// Returns the ranks below a number.
    pub fn below(size: u32) -> RankRanges {
        RankRanges(
            size.checked_sub(1)
                .map(|last| 0..=last)
                .into_iter()
                .collect(),
        )
    }

    /// Returns true if a rank is in the set.
    pub fn contains(&self, rank: Rank) -> bool {
        let at = self.0.partition_point(|range| *range.end() < rank.0);
        self.0.get(at).is_some_and(|range| range.contains(&rank.0))
    }

    /// Returns the ranks in ascending order.
    pub fn iter(&self) -> impl FusedIterator<Item = Rank> {
        self.0.iter().cloned().flatten().map(Rank)
    }

    /// Returns the runs of consecutive ranks in ascending order.
    pub(crate) fn runs(&self) -> &[RangeInclusive<u32>] {
        &self.0
    }

    /// Returns true if there is no rank in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<RangeInclusive<u32>>> for RankRanges {
    fn from(mut ranges: Vec<RangeInclusive<u32>>) -> RankRanges {
        ranges.retain(|range| !range.is_empty());
        ranges.sort_unstable_by_key(|range| *range.start());
        let mut runs: Vec<RangeInclusive<u32>> = Vec::new();
        for range in ranges {
            match runs.last_mut() {
                Some(last) if *last.end() >= range.start().saturating_sub(1) => {
                    *last = *last.start()..=*range.end().max(last.end());
                }
                _ => runs.push(range),
            }
        }
        RankRanges(runs)
    }
}

impl FromIterator<Rank> for RankRanges {
    fn from_iter<I: IntoIterator<Item = Rank>>(ranks: I) -> RankRanges {
        let mut ranks: Vec<u32> = ranks.into_iter().map(|rank| rank.0).collect();
        ranks.sort_unstable();
        let mut runs: Vec<RangeInclusive<u32>> = Vec::new();
        for rank in ranks {
            match runs.last_mut() {
                // Also where the rank occurs twice.
                Some(last) if *last.end() >= rank.saturating_sub(1) && *last.start() <= rank => {
                    *last = *last.start()..=rank;
                }
                _ => runs.push(rank..=rank),
            }
        }
        RankRanges(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn ranges_equal_a_set_of_single_ranks(ranks in prop::collection::vec(0u32..40, 0..40)) {
            let ranges: RankRanges = ranks.iter().copied().map(Rank).collect();
            let model: BTreeSet<Rank> = ranks.into_iter().map(Rank).collect();
            prop_assert_eq!(ranges.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            for rank in (0..41).map(Rank) {
                prop_assert_eq!(ranges.contains(rank), model.contains(&rank));
            }
            let apart = |runs: &[RangeInclusive<u32>]| *runs[0].end() + 1 < *runs[1].start();
            prop_assert!(ranges.runs().windows(2).all(apart), "runs touch: {ranges:?}");
        }
    }

    #[test]
    fn job_without_procs_has_no_ranks() {
        assert!(RankRanges::below(0).is_empty());
        assert_eq!(RankRanges::below(3).iter().count(), 3);
    }
}
