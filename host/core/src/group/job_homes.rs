//! Servers of the procs of one job, by ranges of ranks.
use super::ServerId;
use crate::rank_ranges::RankRanges;
use peal_model::Rank;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::RangeInclusive};

/// The servers of the ranks of a job. Each rank is on one server at most.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct JobHomes {
    /// Last rank and server of each range, by its first rank. Ranges do not overlap.
    ranges: BTreeMap<u32, (u32, ServerId)>,
    /// Servers that have announced the job, with the number of their ranks.
    servers: BTreeMap<ServerId, u64>,
}

impl JobHomes {
    /// Returns the server of a rank.
    pub(super) fn of(&self, rank: Rank) -> Option<ServerId> {
        let (_, (last, server)) = self.ranges.range(..=rank.0).next_back()?;
        (rank.0 <= *last).then_some(*server)
    }

    /// Returns the number of ranks that servers have.
    pub(super) fn count(&self) -> u64 {
        self.servers.values().sum()
    }

    /// Returns true if no server has announced the job.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Gives a server another number.
    pub(super) fn renumber(&mut self, old: ServerId, new: ServerId) {
        if let Some(count) = self.servers.remove(&old) {
            self.servers.insert(new, count);
        }
        for (_, server) in self.ranges.values_mut().filter(|(_, at)| *at == old) {
            *server = new;
        }
    }

    /// Returns the servers that have procs of the job.
    pub(super) fn servers(&self) -> impl Iterator<Item = ServerId> {
        let with_procs = self.servers.iter().filter(|(_, count)| **count > 0);
        with_procs.map(|(server, _)| *server)
    }

    /// Returns true if a server has announced the job.
    pub(super) fn has(&self, server: ServerId) -> bool {
        self.servers.contains_key(&server)
    }

    /// Returns true if no other server than this one has announced the job.
    pub(super) fn has_only(&self, server: ServerId) -> bool {
        self.servers.keys().all(|other| *other == server)
    }

    /// Returns the first of these ranks that another server has.
    pub(super) fn first_taken(&self, server: ServerId, ranks: &RankRanges) -> Option<Rank> {
        let taken = ranks.runs().iter().flat_map(|run| self.overlaps(run));
        let mut taken = taken.filter(|(_, other)| *other != server);
        taken.next().map(|(rank, _)| rank)
    }

    /// Returns the ranges that overlap a run, each with its first rank in the run and its server.
    fn overlaps(&self, run: &RangeInclusive<u32>) -> impl Iterator<Item = (Rank, ServerId)> {
        let first = *run.start();
        // At most one range begins before the run and reaches into it.
        let before = self.ranges.range(..first).next_back();
        let before = before.filter(|(_, (last, _))| *last >= first);
        let before = before.map(|(_, (_, server))| (Rank(first), *server));
        let inside = self.ranges.range(run.clone());
        before
            .into_iter()
            .chain(inside.map(|(first, (_, server))| (Rank(*first), *server)))
    }

    /// Gives a server these ranks, in place of those that it had. No other server may have one of
    /// them. Returns the ranks that it had not.
    pub(super) fn replace(&mut self, server: ServerId, ranks: &RankRanges) -> Vec<Rank> {
        let before = self.remove(server);
        let mut count = 0;
        for run in ranks.runs() {
            self.ranges.insert(*run.start(), (*run.end(), server));
            count += u64::from(run.end() - run.start()) + 1;
        }
        self.servers.insert(server, count);
        ranks
            .iter()
            .filter(|rank| !before.contains(*rank))
            .collect()
    }

    /// Removes a server and returns its ranks.
    pub(super) fn remove(&mut self, server: ServerId) -> RankRanges {
        // Most jobs are on one server, and most servers have no procs of a job.
        if self.servers.remove(&server).is_none() {
            return RankRanges::default();
        }
        let gone = self.ranges.extract_if(.., |_, (_, other)| *other == server);
        let gone = gone.flat_map(|(first, (last, _))| (first..=last).map(Rank));
        gone.collect()
    }

    /// Returns the ranks of a server.
    pub(super) fn ranks_at(&self, server: ServerId) -> RankRanges {
        let theirs = self
            .ranges
            .iter()
            .filter(|(_, (_, other))| *other == server);
        let ranks = theirs.flat_map(|(first, (last, _))| (*first..=*last).map(Rank));
        ranks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn homes_equal_a_list_of_ranks(
            steps in prop::collection::vec((1u32..5, prop::collection::vec(0u32..16, 0..16), any::<bool>()), 1..20),
        ) {
            let mut homes = JobHomes::default();
            let mut model: BTreeMap<Rank, ServerId> = BTreeMap::new();
            for (server, ranks, leaves) in steps {
                let server = ServerId(server);
                let ranks: RankRanges = ranks.into_iter().map(Rank).collect();
                let theirs = |model: &BTreeMap<Rank, ServerId>| -> RankRanges {
                    model.iter().filter(|(_, at)| **at == server).map(|(rank, _)| *rank).collect()
                };
                let before = theirs(&model);
                if leaves {
                    prop_assert_eq!(homes.remove(server), before);
                    model.retain(|_, at| *at != server);
                } else {
                    let taken = ranks.iter().find(|rank| model.get(rank).is_some_and(|at| *at != server));
                    prop_assert_eq!(homes.first_taken(server, &ranks).is_some(), taken.is_some());
                    if taken.is_none() {
                        let new: Vec<Rank> = ranks.iter().filter(|rank| !before.contains(*rank)).collect();
                        prop_assert_eq!(homes.replace(server, &ranks), new);
                        model.retain(|_, at| *at != server);
                        model.extend(ranks.iter().map(|rank| (rank, server)));
                    }
                }
                for rank in (0..17).map(Rank) {
                    prop_assert_eq!(homes.of(rank), model.get(&rank).copied());
                }
                prop_assert_eq!(homes.ranks_at(server), theirs(&model));
                prop_assert_eq!(homes.count(), model.len() as u64);
            }
        }
    }
}
