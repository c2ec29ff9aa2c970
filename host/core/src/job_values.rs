//! Job data, in which the values of one rank are found without a look at those of all ranks.
use peal_model::{
    Info, JobEntry, JobInfo, Key, KeyName, Kval, Nspace, Proc, Rank, RankData, Value, key,
};
use serde::{Deserialize, Serialize};
use std::{ops::Range, sync::Arc};

/// Data of a job: first those of the job itself, then those of its ranks in ascending order. A rank may have
/// several entries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Arc<JobInfo>", into = "Arc<JobInfo>")]
pub(crate) struct JobValues(Arc<JobInfo>);

impl From<Arc<JobInfo>> for JobValues {
    fn from(mut info: Arc<JobInfo>) -> JobValues {
        // Host environments and other releases may have another order.
        if !info.entries.is_sorted_by_key(rank_of) {
            Arc::make_mut(&mut info).entries.sort_by_key(rank_of);
        }
        JobValues(info)
    }
}

impl From<JobInfo> for JobValues {
    fn from(info: JobInfo) -> JobValues {
        JobValues::from(Arc::new(info))
    }
}

impl From<JobValues> for Arc<JobInfo> {
    fn from(values: JobValues) -> Arc<JobInfo> {
        values.0
    }
}

/// Returns the rank of an entry; none for an entry of the job itself.
fn rank_of(entry: &JobEntry) -> Option<Rank> {
    match entry {
        JobEntry::Job(_) => None,
        JobEntry::Rank(rank, _) => Some(*rank),
    }
}

impl JobValues {
    /// Returns the data, which stay shared.
    pub(crate) fn info(&self) -> &Arc<JobInfo> {
        &self.0
    }

    /// Returns the name of the job.
    pub(crate) fn nspace(&self) -> &Nspace {
        &self.0.nspace
    }

    /// Returns the data of one rank, or of the job itself for the wildcard rank.
    pub(crate) fn of(&self, proc: &Proc) -> RankData {
        RankData {
            proc: proc.clone(),
            kvals: self.kvals_of(proc.rank).cloned().collect(),
        }
    }

    /// Returns the value of a key of one rank.
    pub(crate) fn value(&self, rank: Rank, key: KeyName) -> Option<&Value> {
        let mut kvals = self.kvals_of(rank);
        kvals.find(|kval| kval.key == key).map(|kval| &kval.value)
    }

    /// Returns true if the data of a rank contain a key. For the job, also those of its nodes, applications
    /// and sessions count.
    pub(crate) fn has(&self, proc: &Proc, key: &Key) -> bool {
        self.kvals_of(proc.rank)
            .any(|kval| kval.key == *key || members(kval).any(|info| info.key == *key))
    }

    /// Returns true if the data of any rank contain a key.
    pub(crate) fn any_rank_has(&self, key: &Key) -> bool {
        let of_ranks = self.0.entries.iter().filter_map(|entry| match entry {
            JobEntry::Rank(_, kvals) => Some(kvals),
            JobEntry::Job(_) => None,
        });
        of_ranks.flatten().any(|kval| kval.key == *key)
    }

    /// Returns all data: first those of the job, then those of each rank.
    pub(crate) fn all(&self) -> impl Iterator<Item = RankData> {
        std::iter::once(Proc::all(self.nspace().clone()))
            .chain(self.procs())
            .map(|proc| self.of(&proc))
    }

    /// Returns the procs that have data of their own.
    pub(crate) fn procs(&self) -> impl Iterator<Item = Proc> {
        let ranks = self.0.entries.iter().filter_map(rank_of);
        ranks.map(|rank| Proc::new(self.nspace().clone(), rank))
    }

    /// Sets or removes a value of a rank that has data. Copies the job data only while a reply still holds
    /// them.
    pub(crate) fn set(&mut self, rank: Rank, key: &Key, value: Option<Value>) {
        let range = self.range_of(Some(rank));
        let info = Arc::make_mut(&mut self.0);
        for entry in info.entries.get_mut(range).into_iter().flatten() {
            let JobEntry::Rank(_, kvals) = entry else {
                continue;
            };
            let at = kvals.iter().position(|kval| kval.key == *key);
            match (at.and_then(|at| kvals.get_mut(at)), value.clone()) {
                (Some(existing), Some(value)) => existing.value = value,
                (Some(_), None) => kvals.retain(|kval| kval.key != *key),
                (None, value) => kvals.extend(value.map(|value| {
                    let key = key.clone();
                    Kval { key, value }
                })),
            }
        }
    }

    /// Returns the places of the entries of a rank, or of the job itself.
    fn range_of(&self, rank: Option<Rank>) -> Range<usize> {
        let entries = &self.0.entries;
        let start = entries.partition_point(|entry| rank_of(entry) < rank);
        let end = entries.partition_point(|entry| rank_of(entry) <= rank);
        start..end
    }

    fn kvals_of(&self, rank: Rank) -> impl Iterator<Item = &Kval> {
        let entries = |rank| self.0.entries.get(self.range_of(rank)).unwrap_or_default();
        // Special ranks such as the wildcard name no single proc, so they mean the job itself.
        let of_job = if rank.is_valid() { &[] } else { entries(None) };
        let both = of_job.iter().chain(entries(Some(rank)));
        both.flat_map(|entry| match entry {
            JobEntry::Rank(_, kvals) => kvals.as_slice(),
            JobEntry::Job(kval) => std::slice::from_ref(kval),
        })
    }
}

/// Keys of arrays that describe one node, application or session.
const REALMS: [KeyName; 3] = [
    key::PMIX_NODE_INFO_ARRAY,
    key::PMIX_APP_INFO_ARRAY,
    key::PMIX_SESSION_INFO_ARRAY,
];

fn members(kval: &Kval) -> impl Iterator<Item = &Info> {
    let infos = match &kval.value {
        Value::DataArray(array) if REALMS.iter().any(|key| kval.key == *key) => array.as_infos(),
        _ => None,
    };
    infos.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::rank;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = JobEntry> {
        let key = prop::sample::select(&[key::PMIX_APPNUM, key::PMIX_HOSTNAME][..]);
        let kval =
            (key, any::<u32>()).prop_map(|(key, value)| Kval::new(key, Value::Uint32(value)));
        let kvals = prop::collection::vec(kval.clone(), 0..3);
        prop_oneof![
            kval.prop_map(JobEntry::Job),
            (0..4u32, kvals).prop_map(|(rank, kvals)| JobEntry::Rank(Rank(rank), kvals)),
        ]
    }

    /// Returns the values of a rank by a look at all entries.
    fn by_search(entries: &[JobEntry], rank: Rank) -> Vec<Kval> {
        let of = |entry: &JobEntry| match entry {
            JobEntry::Rank(of, kvals) if *of == rank => kvals.clone(),
            JobEntry::Job(kval) if !rank.is_valid() => vec![kval.clone()],
            _ => Vec::new(),
        };
        entries.iter().flat_map(of).collect()
    }

    proptest! {
        #[test]
        fn values_of_a_rank_are_found_in_any_order(
            entries in prop::collection::vec(entry(), 0..12),
            changed in 0..5u32,
        ) {
            let nspace = Nspace::new("job").unwrap();
            let info = JobInfo { nspace: nspace.clone(), entries: entries.clone() };
            let mut values = JobValues::from(info);
            let all = [0, 1, 2, 3, 4].map(Rank).into_iter().chain([rank::PMIX_RANK_WILDCARD]);
            for rank in all.clone() {
                let of = values.of(&Proc::new(nspace.clone(), rank)).kvals;
                prop_assert_eq!(of, by_search(&entries, rank));
            }
            let key = Key::from(key::PMIX_HOSTNAME);
            let before = values.clone();
            values.set(Rank(changed), &key, Some(Value::Uint32(7)));
            for rank in all {
                if rank != Rank(changed) {
                    let of = |values: &JobValues| values.of(&Proc::new(nspace.clone(), rank));
                    prop_assert_eq!(of(&values), of(&before));
                }
            }
            let known = !by_search(&entries, Rank(changed)).is_empty()
                || entries.iter().any(|entry| rank_of(entry) == Some(Rank(changed)));
            let value = values.value(Rank(changed), key::PMIX_HOSTNAME).cloned();
            prop_assert_eq!(value, known.then_some(Value::Uint32(7)));
        }
    }
}
