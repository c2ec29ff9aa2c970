//! What a client knows of its job and its peers without asking.
use crate::{Group, group::qualified};
use peal_model::{
    Info, JobEntry, JobInfo, Key, Kval, Proc, Rank, RankData, Size, Value, key, rank,
};
use std::collections::BTreeMap;

/// Values by proc; those of the job are under its wildcard rank.
#[derive(Debug)]
pub(crate) struct KnownData {
    values: BTreeMap<Proc, BTreeMap<Key, Value>>,
    /// What members of groups say of themselves, by the numbers of the groups.
    said: BTreeMap<(u64, Proc), Vec<Info>>,
    /// Who was in the groups that we are in when they were formed.
    groups: BTreeMap<String, Vec<Proc>>,
    /// How much more may be remembered, in bytes.
    room: usize,
}

impl KnownData {
    /// Nothing yet, and room for so many bytes.
    pub(crate) fn new(room: usize) -> KnownData {
        KnownData {
            values: BTreeMap::new(),
            said: BTreeMap::new(),
            groups: BTreeMap::new(),
            room,
        }
    }

    /// Takes in the job data. What stands in arrays of nodes, applications and sessions is known by its own keys too.
    pub(crate) fn learn_job(&mut self, info: JobInfo) {
        for entry in info.entries {
            match entry {
                JobEntry::Rank(rank, kvals) => self.learn(RankData {
                    proc: Proc::new(info.nspace.clone(), rank),
                    kvals,
                }),
                JobEntry::Job(kval) => {
                    let inner = members(&kval);
                    let proc = Proc::new(info.nspace.clone(), rank::PMIX_RANK_WILDCARD);
                    self.learn(RankData {
                        proc: proc.clone(),
                        kvals: inner,
                    });
                    self.learn(RankData {
                        proc,
                        kvals: vec![kval],
                    });
                }
            }
        }
    }

    /// Takes in values of a proc, as long as there is room.
    pub(crate) fn learn(&mut self, data: RankData) {
        let values = self.values.entry(data.proc).or_default();
        for kval in data.kvals {
            let bytes = Size::of_kval(&kval).bytes;
            // An old value must not outlive a newer one that there is no room for.
            if let Some((key, value)) = values.remove_entry(&kval.key) {
                self.room = self
                    .room
                    .saturating_add(Size::of_kval(&Kval { key, value }).bytes);
            }
            if let Some(room) = self.room.checked_sub(bytes) {
                self.room = room;
                values.insert(kval.key, kval.value);
            }
        }
    }

    /// A group is there that we are in. What its members say of themselves is remembered as long as there is room.
    pub(crate) fn learn_group(&mut self, group: &Group) {
        self.groups
            .insert(group.name.clone(), group.members.clone());
        for ((proc, infos), context_id) in
            group.said.iter().zip(group.context_id.into_iter().cycle())
        {
            let bytes = infos.iter().map(|info| Size::of_info(info).bytes).sum();
            if let Some(room) = self.room.checked_sub(bytes) {
                self.room = room;
                self.said.insert((context_id, proc.clone()), infos.clone());
            }
        }
    }

    /// We are in that group no more. What its members said stays true of them.
    pub(crate) fn forget_group(&mut self, group: &str) {
        self.groups.remove(group);
    }

    /// Who was in a group when it was formed; nobody where we are not in it.
    pub(crate) fn members_of(&self, group: &str) -> Vec<Proc> {
        self.groups.get(group).cloned().unwrap_or_default()
    }

    /// A value, if it is known; with the number of a group, one that holds there.
    pub(crate) fn find(&self, proc: &Proc, key: &Key, context_id: Option<u64>) -> Option<Value> {
        match context_id {
            Some(id) => {
                let said = self.said.get(&(id, proc.clone()))?;
                said.iter()
                    .rev()
                    .find(|info| info.key == *key)
                    .map(|info| info.value.clone())
            }
            None => self.values.get(proc)?.get(key).cloned(),
        }
    }

    /// How many procs the job has.
    pub(crate) fn job_size(&self, me: &Proc) -> Option<u32> {
        let job = Proc::new(me.nspace.clone(), rank::PMIX_RANK_WILDCARD);
        u32::try_from(
            self.find(&job, &key::PMIX_JOB_SIZE.into(), None)?
                .as_u64()?,
        )
        .ok()
    }
}

fn members(kval: &Kval) -> Vec<Kval> {
    let arrays = [
        key::PMIX_NODE_INFO_ARRAY,
        key::PMIX_APP_INFO_ARRAY,
        key::PMIX_SESSION_INFO_ARRAY,
    ];
    let infos = match &kval.value {
        Value::DataArray(array) if arrays.iter().any(|key| kval.key == *key) => {
            array.as_infos().unwrap_or_default()
        }
        _ => Vec::new(),
    };
    infos
        .into_iter()
        .map(|info| Kval {
            key: info.key.clone(),
            value: info.value.clone(),
        })
        .collect()
}

/// A value among those that a server has sent; with the number of a group, one that holds there.
pub(crate) fn find(
    ranks: &[RankData],
    proc: &Proc,
    key: &Key,
    context_id: Option<u64>,
) -> Option<Value> {
    let of_proc = ranks.iter().rev().filter(|data| data.proc == *proc);
    let mut kvals = of_proc.flat_map(|data| data.kvals.iter().rev());
    match context_id {
        Some(id) => kvals.find_map(|kval| qualified(kval, key, id)),
        None => kvals
            .find(|kval| kval.key == *key)
            .map(|kval| kval.value.clone()),
    }
}

/// The other procs of a job.
pub(crate) fn peers(me: &Proc, size: u32) -> Vec<Proc> {
    (0..size)
        .map(Rank)
        .filter(|rank| *rank != me.rank)
        .map(|rank| Proc::new(me.nspace.clone(), rank))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{KeyName, Nspace};

    #[test]
    fn values_without_room_are_not_cached_nor_replaced_by_old_ones() {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let text = |length| Value::string(&"x".repeat(length));
        let mut known = KnownData::new(4096);
        let mut learn = |key: KeyName, value: Value| {
            known.learn(RankData {
                proc: proc.clone(),
                kvals: vec![Kval::new(key, value)],
            });
            known.find(&proc, &key.into(), None)
        };
        let (first, second) = (KeyName("first"), KeyName("second"));
        assert_eq!(learn(first, text(3000)), Some(text(3000)));
        assert_eq!(learn(second, text(3000)), None);
        assert_eq!(learn(first, text(10_000)), None);
        assert_eq!(
            learn(second, text(3000)),
            Some(text(3000)),
            "its room is free again"
        );
    }
}
