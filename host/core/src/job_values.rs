//! Job data, in which the values of one rank are found without a look at those of all ranks.
use crate::job::JobSpec;
use peal_model::{
    Info, JobEntry, JobInfo, Key, KeyName, Kval, Nspace, Proc, Rank, RankData, Value, key,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Data of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Arc<JobInfo>", into = "Arc<JobInfo>")]
pub(crate) struct JobValues {
    /// Data that each proc gets at its start: first those of the job itself, then those of its ranks in ascending
    /// order. A rank may have several entries.
    initial: Arc<JobInfo>,
    /// Values of ranks that are told when a proc asks for them.
    asked: Arc<AskedValues>,
}

/// Values of ranks that few programs ask for. A client stores the data of all ranks at its start, and searches its
/// list of keys for each value: that is most of the start of a job with many procs.
#[derive(Clone, Debug, Default)]
struct AskedValues {
    /// Values of each rank that has no other one.
    common: Vec<Kval>,
    of_ranks: BTreeMap<Rank, Vec<Kval>>,
}

impl From<Arc<JobInfo>> for JobValues {
    fn from(mut initial: Arc<JobInfo>) -> JobValues {
        // Host environments and other releases may have another order.
        if !initial.entries.is_sorted_by_key(rank_of) {
            Arc::make_mut(&mut initial).entries.sort_by_key(rank_of);
        }
        JobValues {
            initial,
            asked: Arc::default(),
        }
    }
}

impl From<JobInfo> for JobValues {
    fn from(info: JobInfo) -> JobValues {
        JobValues::from(Arc::new(info))
    }
}

impl From<JobValues> for Arc<JobInfo> {
    /// The next process tells procs all values at their start. Other releases know no others.
    fn from(values: JobValues) -> Arc<JobInfo> {
        let mut info = values.initial.clone();
        let mut before = None;
        for entry in &mut Arc::make_mut(&mut info).entries {
            // Entries of one rank follow one another.
            if let JobEntry::Rank(rank, kvals) = entry
                && before.replace(*rank) != Some(*rank)
            {
                kvals.extend(values.asked_of(*rank).cloned());
            }
        }
        info
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
    /// Returns the data of a job.
    pub(crate) fn of_job(spec: &JobSpec) -> JobValues {
        let values = JobValues::from(spec.job_info());
        JobValues {
            asked: Arc::new(AskedValues {
                common: spec.asked_values(),
                of_ranks: BTreeMap::new(),
            }),
            ..values
        }
    }

    /// Returns the data that each proc gets at its start, which stay shared.
    pub(crate) fn initial(&self) -> &Arc<JobInfo> {
        &self.initial
    }

    /// Returns the name of the job.
    pub(crate) fn nspace(&self) -> &Nspace {
        &self.initial.nspace
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
        let of_ranks = self.initial.entries.iter().filter_map(|entry| match entry {
            JobEntry::Rank(_, kvals) => Some(kvals),
            JobEntry::Job(_) => None,
        });
        let asked = self.asked.of_ranks.values().flatten();
        let asked = asked.chain(&self.asked.common);
        of_ranks.flatten().chain(asked).any(|kval| kval.key == *key)
    }

    /// Returns all data: first those of the job, then those of each rank.
    pub(crate) fn all(&self) -> impl Iterator<Item = RankData> {
        std::iter::once(Proc::all(self.nspace().clone()))
            .chain(self.procs())
            .map(|proc| self.of(&proc))
    }

    /// Returns the procs that have data of their own.
    pub(crate) fn procs(&self) -> impl Iterator<Item = Proc> {
        let ranks = self.initial.entries.iter().filter_map(rank_of);
        ranks.map(|rank| Proc::new(self.nspace().clone(), rank))
    }

    /// Sets or removes a value of a rank that has data. Its procs get it at their start. Copies the job data only
    /// while a reply still holds them.
    pub(crate) fn set(&mut self, rank: Rank, key: &Key, value: Option<Value>) {
        let range = self.range_of(Some(rank));
        if self.asked.of_ranks.contains_key(&rank) {
            self.set_asked_only(rank, key, None);
        }
        let initial = Arc::make_mut(&mut self.initial);
        for entry in initial.entries.get_mut(range).into_iter().flatten() {
            if let JobEntry::Rank(_, kvals) = entry {
                put(kvals, key, value.clone());
            }
        }
    }

    /// Sets or removes a value of a rank that has data. It is told when a proc asks for it.
    pub(crate) fn set_asked(&mut self, rank: Rank, key: &Key, value: Option<Value>) {
        let entries = self.entries_of(Some(rank));
        let mut initial = entries.iter().flat_map(kvals_in);
        if initial.any(|kval| kval.key == *key) {
            self.set(rank, key, value);
        } else if !entries.is_empty() {
            self.set_asked_only(rank, key, value);
        }
    }

    fn set_asked_only(&mut self, rank: Rank, key: &Key, value: Option<Value>) {
        let of_ranks = &mut Arc::make_mut(&mut self.asked).of_ranks;
        put(of_ranks.entry(rank).or_default(), key, value);
    }

    /// Returns the places of the entries of a rank, or of the job itself.
    fn range_of(&self, rank: Option<Rank>) -> Range<usize> {
        let entries = &self.initial.entries;
        let start = entries.partition_point(|entry| rank_of(entry) < rank);
        let end = entries.partition_point(|entry| rank_of(entry) <= rank);
        start..end
    }

    /// Returns the entries of a rank, or of the job itself.
    fn entries_of(&self, rank: Option<Rank>) -> &[JobEntry] {
        let range = self.range_of(rank);
        self.initial.entries.get(range).unwrap_or_default()
    }

    fn kvals_of(&self, rank: Rank) -> impl Iterator<Item = &Kval> {
        // Special ranks such as the wildcard name no single proc, so they mean the job itself.
        let of_job = if rank.is_valid() {
            &[]
        } else {
            self.entries_of(None)
        };
        let both = of_job.iter().chain(self.entries_of(Some(rank)));
        both.flat_map(kvals_in).chain(self.asked_of(rank))
    }

    /// Returns the values of a rank that are told when a proc asks for them.
    fn asked_of(&self, rank: Rank) -> impl Iterator<Item = &Kval> {
        let entries = self.entries_of(Some(rank));
        let own = self.asked.of_ranks.get(&rank).into_iter().flatten();
        let others = entries.iter().flat_map(kvals_in).chain(own.clone());
        let common = self.asked.common.iter().filter(move |kval| {
            let mut others = others.clone();
            !entries.is_empty() && others.all(|other| other.key != kval.key)
        });
        own.chain(common)
    }
}

fn kvals_in(entry: &JobEntry) -> &[Kval] {
    match entry {
        JobEntry::Rank(_, kvals) => kvals,
        JobEntry::Job(kval) => std::slice::from_ref(kval),
    }
}

/// Sets or removes the value of a key.
fn put(kvals: &mut Vec<Kval>, key: &Key, value: Option<Value>) {
    let at = kvals.iter().position(|kval| kval.key == *key);
    match (at.and_then(|at| kvals.get_mut(at)), value) {
        (Some(existing), Some(value)) => existing.value = value,
        (Some(_), None) => kvals.retain(|kval| kval.key != *key),
        (None, Some(value)) => {
            // Room for more would be lost for each rank: few get another value.
            kvals.reserve_exact(1);
            kvals.push(Kval {
                key: key.clone(),
                value,
            });
        }
        (None, None) => {}
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
            let as_bytes = Arc::<JobInfo>::from(values.clone());
            prop_assert_eq!(&as_bytes, values.initial());
            let pid = Key::from(key::PMIX_PROC_PID);
            values.set_asked(Rank(changed), &pid, Some(Value::Pid(9)));
            let is_rank = entries.iter().any(|entry| rank_of(entry) == Some(Rank(changed)));
            let asked = is_rank.then_some(&Value::Pid(9));
            prop_assert_eq!(values.value(Rank(changed), key::PMIX_PROC_PID), asked);
            prop_assert_eq!(&as_bytes, values.initial(), "it is not told at the start");
            let continued = JobValues::from(Arc::<JobInfo>::from(values.clone()));
            prop_assert_eq!(continued.value(Rank(changed), key::PMIX_PROC_PID), asked);
            let of_rank = continued.kvals_of(Rank(changed));
            let pids = of_rank.filter(|kval| kval.key == pid).count();
            prop_assert_eq!(pids, usize::from(is_rank), "once, whatever the number of entries");
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
