//! What a client knows of its job and its peers without asking.
use peal_model::{JobEntry, JobInfo, Key, Kval, Proc, Rank, RankData, Value, key, rank};
use std::collections::BTreeMap;

/// Values by proc; those of the job are under its wildcard rank.
#[derive(Debug, Default)]
pub(crate) struct Known {
    values: BTreeMap<Proc, BTreeMap<Key, Value>>,
}

impl Known {
    /// Takes in the job data. What stands in arrays of nodes, applications and sessions is known by its own keys too.
    pub(crate) fn learn_job(&mut self, info: JobInfo) {
        for entry in info.entries {
            match entry {
                JobEntry::Rank(rank, kvals) => {
                    self.learn(RankData { proc: Proc::new(info.nspace.clone(), rank), kvals })
                }
                JobEntry::Job(kval) => {
                    let inner = members(&kval);
                    let proc = Proc::new(info.nspace.clone(), rank::PMIX_RANK_WILDCARD);
                    self.learn(RankData { proc: proc.clone(), kvals: inner });
                    self.learn(RankData { proc, kvals: vec![kval] });
                }
            }
        }
    }

    /// Takes in values of a proc.
    pub(crate) fn learn(&mut self, data: RankData) {
        let values = self.values.entry(data.proc).or_default();
        values.extend(data.kvals.into_iter().map(|kval| (kval.key, kval.value)));
    }

    /// A value, if it is known.
    pub(crate) fn find(&self, proc: &Proc, key: &Key) -> Option<Value> {
        self.values.get(proc)?.get(key).cloned()
    }

    /// How many procs the job has.
    pub(crate) fn job_size(&self, me: &Proc) -> Option<u32> {
        let job = Proc::new(me.nspace.clone(), rank::PMIX_RANK_WILDCARD);
        u32::try_from(self.find(&job, &key::PMIX_JOB_SIZE.into())?.as_u64()?).ok()
    }
}

fn members(kval: &Kval) -> Vec<Kval> {
    let arrays = [key::PMIX_NODE_INFO_ARRAY, key::PMIX_APP_INFO_ARRAY, key::PMIX_SESSION_INFO_ARRAY];
    let infos = match &kval.value {
        Value::DataArray(array) if arrays.iter().any(|key| kval.key == *key) => array.as_infos().unwrap_or_default(),
        _ => Vec::new(),
    };
    infos.into_iter().map(|info| Kval { key: info.key.clone(), value: info.value.clone() }).collect()
}

/// The other procs of a job.
pub(crate) fn peers(me: &Proc, size: u32) -> Vec<Proc> {
    (0..size).map(Rank).filter(|rank| *rank != me.rank).map(|rank| Proc::new(me.nspace.clone(), rank)).collect()
}
