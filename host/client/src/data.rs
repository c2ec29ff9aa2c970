//! Cache of the values of a client's job and its peers.
use crate::{
    Group,
    group::{has_qualifiers, qualified},
    realms::{RealmData, RealmSelector, is_of_the_node},
};
use peal_model::{
    Info, JobEntry, JobInfo, Key, Kval, Nspace, Proc, Rank, RankData, Size, Value, key, rank,
};
use std::collections::BTreeMap;

/// Values by proc; those of a job are under its wildcard rank.
#[derive(Debug)]
pub(crate) struct KnownData {
    /// This process, once it is known.
    me: Option<Proc>,
    values: BTreeMap<Proc, BTreeMap<Key, Value>>,
    /// Infos that group members gave about themselves, by the context id of the group.
    member_infos: BTreeMap<(u64, Proc), Vec<Info>>,
    /// Values of nodes, applications and sessions.
    realms: RealmData,
    /// Members of this proc's groups at the time of their construction.
    groups: BTreeMap<String, Vec<Proc>>,
    /// Remaining capacity in bytes.
    remaining_bytes: usize,
}

impl KnownData {
    /// Creates an empty cache with a capacity of `room` bytes.
    pub(crate) fn new(remaining_bytes: usize) -> KnownData {
        KnownData {
            me: None,
            values: BTreeMap::new(),
            member_infos: BTreeMap::new(),
            realms: RealmData::default(),
            groups: BTreeMap::new(),
            remaining_bytes,
        }
    }

    /// Sets the name of this process, whose node is meant where none is named.
    pub(crate) fn set_me(&mut self, me: Proc) {
        self.me = Some(me);
    }

    /// Stores the job data. The members of arrays of nodes, applications and sessions are also
    /// stored under their own keys.
    pub(crate) fn learn_job(&mut self, info: JobInfo) {
        for entry in info.entries {
            match entry {
                JobEntry::Rank(rank, kvals) => self.learn(RankData {
                    proc: Proc::new(info.nspace.clone(), rank),
                    kvals,
                }),
                JobEntry::Job(kval) => {
                    let proc = Proc::all(info.nspace.clone());
                    self.learn_members(&proc, &kval);
                    self.learn(RankData {
                        proc,
                        kvals: vec![kval],
                    });
                }
            }
        }
    }

    /// Drops the values of the procs of a job, and of the job itself.
    pub(crate) fn forget_job(&mut self, nspace: &Nspace) {
        self.values.retain(|proc, _| proc.nspace != *nspace);
    }

    /// Stores the members of an array of a node, application or session under their own keys.
    fn learn_members(&mut self, job: &Proc, kval: &Kval) {
        self.realms.learn(&job.nspace, kval);
        let kvals = members(kval);
        if !kvals.is_empty() {
            self.learn(RankData {
                proc: job.clone(),
                kvals,
            });
        }
    }

    /// Stores values that the server has sent in the reply to a get. Those of a job may be arrays of
    /// nodes, applications and sessions.
    pub(crate) fn learn_reply(&mut self, data: RankData) {
        if data.proc.rank == rank::PMIX_RANK_WILDCARD {
            for kval in &data.kvals {
                self.learn_members(&data.proc, kval);
            }
        }
        self.learn(data);
    }

    /// Stores values of a proc while there is capacity for them.
    pub(crate) fn learn(&mut self, data: RankData) {
        let values = self.values.entry(data.proc).or_default();
        for kval in data.kvals {
            let bytes = Size::of_kval(&kval).bytes;
            // An old value must not outlive a newer one that does not fit.
            if let Some((key, value)) = values.remove_entry(&kval.key) {
                self.remaining_bytes = self
                    .remaining_bytes
                    .saturating_add(Size::of_kval(&Kval { key, value }).bytes);
            }
            if let Some(room) = self.remaining_bytes.checked_sub(bytes) {
                self.remaining_bytes = room;
                values.insert(kval.key, kval.value);
            }
        }
    }

    /// Stores a group of which this proc is a member, and the infos that fit of those that members
    /// gave about themselves.
    pub(crate) fn learn_group(&mut self, group: &Group) {
        self.groups
            .insert(group.name.clone(), group.members.clone());
        // A group without a context id adds nothing: a get can name a group by that id only.
        for ((proc, infos), context_id) in group
            .member_infos
            .iter()
            .zip(group.context_id.into_iter().cycle())
        {
            let bytes = infos.iter().map(|info| Size::of_info(info).bytes).sum();
            if let Some(room) = self.remaining_bytes.checked_sub(bytes) {
                self.remaining_bytes = room;
                self.member_infos
                    .insert((context_id, proc.clone()), infos.clone());
            }
        }
    }

    /// Removes a group that this proc has left. The infos about its members stay, since they remain
    /// true.
    pub(crate) fn forget_group(&mut self, group: &str) {
        self.groups.remove(group);
    }

    /// Returns the members of a group at its construction; empty if this proc is not a member.
    pub(crate) fn members_of(&self, group: &str) -> Vec<Proc> {
        self.groups.get(group).cloned().unwrap_or_default()
    }

    /// Returns a known value; with a context id, the one that is qualified by that group.
    pub(crate) fn find(&self, proc: &Proc, key: &Key, context_id: Option<u64>) -> Option<Value> {
        if proc.rank == rank::PMIX_RANK_WILDCARD
            && is_of_the_node(key)
            && let Some(value) = self.find_on_this_node(proc, key)
        {
            return Some(value);
        }
        match context_id {
            Some(id) => {
                let infos = self.member_infos.get(&(id, proc.clone()))?;
                infos
                    .iter()
                    .rev()
                    .find(|info| info.key == *key)
                    .map(|info| info.value.clone())
            }
            None => self.values.get(proc)?.get(key).cloned(),
        }
    }

    /// Returns the value of a job on the node of this process.
    fn find_on_this_node(&self, job: &Proc, key: &Key) -> Option<Value> {
        let own = self.values.get(self.me.as_ref()?)?;
        let node = own.get(&key::PMIX_HOSTNAME.into())?;
        self.find_in_realm(job, &RealmSelector::node(node.clone()), key)
    }

    /// Returns the value of a node, application or session of a job.
    pub(crate) fn find_in_realm(
        &self,
        proc: &Proc,
        realm: &RealmSelector,
        key: &Key,
    ) -> Option<Value> {
        self.realms.find(&proc.nspace, realm, key)
    }

    /// Returns all values of a proc, sorted by key.
    pub(crate) fn all_of(&self, proc: &Proc) -> Vec<Kval> {
        let values = self.values.get(proc).into_iter().flatten();
        values
            .map(|(key, value)| Kval {
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }

    /// Returns the number of procs in the job.
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

/// Finds a value among those that a server has sent; with a context id, the one that is qualified
/// by that group.
pub(crate) fn find(
    ranks: &[RankData],
    proc: &Proc,
    key: &Key,
    context_id: Option<u64>,
) -> Option<Value> {
    // From the end: of values with the same key, the last one counts, as in the C library's store.
    let of_proc = ranks.iter().rev().filter(|data| data.proc == *proc);
    let mut kvals = of_proc.flat_map(|data| data.kvals.iter().rev());
    match context_id {
        Some(id) => kvals.find_map(|kval| qualified(kval, key, id)),
        None => kvals
            .find(|kval| kval.key == *key)
            .map(|kval| kval.value.clone()),
    }
}

/// Finds a value among those that a server has sent that has exactly these qualifiers.
pub(crate) fn find_qualified(
    ranks: &[RankData],
    proc: &Proc,
    key: &Key,
    qualifiers: &[&Info],
) -> Option<Value> {
    let of_proc = ranks.iter().rev().filter(|data| data.proc == *proc);
    let mut kvals = of_proc.flat_map(|data| data.kvals.iter().rev());
    kvals.find_map(|kval| has_qualifiers(kval, key, qualifiers))
}

/// Returns the other procs of a job of this size.
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
    use peal_model::{DataArray, KeyName, Nspace};

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
        let first = KeyName("first");
        let second = KeyName("second");
        assert_eq!(learn(first, text(3000)), Some(text(3000)));
        assert_eq!(learn(second, text(3000)), None);
        assert_eq!(learn(first, text(10_000)), None);
        assert_eq!(
            learn(second, text(3000)),
            Some(text(3000)),
            "its room is free again"
        );
    }

    #[test]
    fn values_in_arrays_of_a_reply_are_known_by_their_keys() {
        let job = Proc::all(Nspace::new("job").unwrap());
        let leader = key::PMIX_LOCALLDR;
        let infos = [
            Info::new(key::PMIX_HOSTNAME, Value::string("node")),
            Info::new(leader, Value::Rank(Rank(3))),
        ];
        let array = Value::DataArray(DataArray::infos(infos));
        let mut known = KnownData::new(4096);
        known.learn_reply(RankData {
            proc: job.clone(),
            kvals: vec![Kval::new(key::PMIX_NODE_INFO_ARRAY, array)],
        });
        let found = known.find(&job, &leader.into(), None);
        assert_eq!(found, Some(Value::Rank(Rank(3))));
        let keys: Vec<Key> = known
            .all_of(&job)
            .into_iter()
            .map(|kval| kval.key)
            .collect();
        assert_eq!(keys.len(), 3, "{keys:?}");
    }

    #[test]
    fn local_peers_are_those_of_the_own_node() {
        let nspace = Nspace::new("job").unwrap();
        let (me, job) = (Proc::new(nspace.clone(), Rank(1)), Proc::all(nspace));
        let node = |name: &str, peers: &str| {
            let infos = [
                Info::new(key::PMIX_HOSTNAME, Value::string(name)),
                Info::new(key::PMIX_LOCAL_PEERS, Value::string(peers)),
            ];
            let array = Value::DataArray(DataArray::infos(infos));
            Kval::new(key::PMIX_NODE_INFO_ARRAY, array)
        };
        let mut known = KnownData::new(4096);
        known.set_me(me.clone());
        known.learn(RankData {
            proc: me,
            kvals: vec![Kval::new(key::PMIX_HOSTNAME, Value::string("a"))],
        });
        known.learn_reply(RankData {
            proc: job.clone(),
            kvals: vec![node("a", "1"), node("b", "0,2")],
        });
        let found = known.find(&job, &key::PMIX_LOCAL_PEERS.into(), None);
        assert_eq!(found, Some(Value::string("1")));
    }

    #[test]
    fn qualified_value_is_found_by_exactly_its_qualifiers() {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
        let (word, side, other) = (KeyName("word"), KeyName("side"), KeyName("other"));
        let left = Info::new(side, Value::string("left"));
        let infos = [Info::new(word, Value::Uint32(1)), left.clone()];
        let array = Value::DataArray(DataArray::infos(infos));
        let ranks = [RankData {
            proc: proc.clone(),
            kvals: vec![Kval::new(key::PMIX_QUALIFIED_VALUE, array)],
        }];
        let find = |qualifiers: &[&Info]| find_qualified(&ranks, &proc, &word.into(), qualifiers);
        assert_eq!(find(&[&left]), Some(Value::Uint32(1)));
        let right = Info::new(side, Value::string("right"));
        let more = Info::new(other, Value::string("left"));
        assert_eq!(find(&[&right]), None);
        assert_eq!(find(&[&left, &more]), None);
    }
}
