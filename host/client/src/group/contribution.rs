//! What a proc brings to a group for the others: what it says of itself, and what it has put. Both travel as arrays that begin with
//! whose they are.
use crate::Client;
use peal_model::{DataArray, Info, Key, KeyName, Kval, Proc, RankData, Scope, Value, key};

impl Client {
    /// Contribution of this proc to a group: infos about itself, and values that it put for procs of other nodes, committed or not.
    pub(super) fn contribution(&self, says: Vec<Info>) -> Vec<Info> {
        said(self.me(), says)
            .into_iter()
            .chain(put(self.me(), self.posted_for_others()))
            .collect()
    }
}

/// What a proc says of itself (`PMIX_GROUP_INFO`), if it says anything.
pub(super) fn said(me: &Proc, infos: Vec<Info>) -> Option<Info> {
    (!infos.is_empty()).then(|| headed(key::PMIX_GROUP_INFO, me, infos))
}

/// What a proc has put for procs elsewhere, if it has put anything (`PMIX_PROC_INFO_ARRAY`).
fn put(me: &Proc, kvals: Vec<Kval>) -> Option<Info> {
    let scope = Info::new(key::PMIX_DATA_SCOPE, Value::Scope(Scope::Remote));
    let infos = kvals
        .into_iter()
        .map(|Kval { key, value }| Info::new(key, value));
    let infos: Vec<Info> = infos.collect();
    (!infos.is_empty())
        .then(|| headed(key::PMIX_PROC_INFO_ARRAY, me, [vec![scope], infos].concat()))
}

fn headed(key: KeyName, whose: &Proc, infos: Vec<Info>) -> Info {
    let whose = Info::new(key::PMIX_PROCID, Value::Proc(whose.clone()));
    Info::new(
        key,
        Value::DataArray(DataArray::infos([whose].into_iter().chain(infos))),
    )
}

/// What of these infos is this proc's own: nobody speaks for another.
pub(super) fn by(proc: &Proc, infos: &[Info]) -> Vec<Info> {
    let meant = [key::PMIX_GROUP_INFO, key::PMIX_PROC_INFO_ARRAY];
    let theirs = |info: &&Info| {
        meant.iter().any(|key| info.key == *key)
            && owned(info).is_some_and(|(whose, _)| whose == *proc)
    };
    infos.iter().filter(theirs).cloned().collect()
}

/// What members say of themselves, of all of these infos.
pub(super) fn all_said(members: &[Proc], infos: &[Info]) -> Vec<(Proc, Vec<Info>)> {
    let arrays = infos.iter().filter(|info| info.key == key::PMIX_GROUP_INFO);
    let said = arrays
        .filter_map(owned)
        .filter(|(proc, _)| is_of(members, proc));
    said.map(|(proc, infos)| (proc, infos.into_iter().cloned().collect()))
        .collect()
}

/// What members have put, of all of these infos.
pub(super) fn all_put(members: &[Proc], infos: &[Info]) -> Vec<RankData> {
    let arrays = infos
        .iter()
        .filter(|info| info.key == key::PMIX_PROC_INFO_ARRAY);
    let data = arrays
        .filter_map(owned)
        .filter(|(proc, _)| is_of(members, proc))
        .map(|(proc, infos)| {
            let values = infos
                .into_iter()
                .filter(|info| info.key != key::PMIX_DATA_SCOPE);
            RankData {
                proc,
                kvals: values
                    .map(|info| Kval {
                        key: info.key.clone(),
                        value: info.value.clone(),
                    })
                    .collect(),
            }
        });
    data.collect()
}

/// Releases of the C library name members as they were invited, which may be by their job.
fn is_of(members: &[Proc], proc: &Proc) -> bool {
    members.iter().any(|member| member.covers(proc))
}

/// Whose an array is, and the rest of it.
fn owned(info: &Info) -> Option<(Proc, Vec<&Info>)> {
    let Value::DataArray(array) = &info.value else {
        return None;
    };
    let mut infos = array.as_infos()?.into_iter();
    match &infos.next()?.value {
        Value::Proc(proc) => Some((proc.clone(), infos.collect())),
        _ => None,
    }
}

/// What a value is that holds for a group's number alone (`PMIX_QUALIFIED_VALUE`), if it does for that one.
pub(crate) fn qualified(kval: &Kval, wanted: &Key, context_id: u64) -> Option<Value> {
    let Value::DataArray(array) = &kval.value else {
        return None;
    };
    if kval.key != key::PMIX_QUALIFIED_VALUE {
        return None;
    }
    let infos = array.as_infos()?;
    let is_for = |info: &&&Info| {
        info.key == key::PMIX_GROUP_CONTEXT_ID && info.value.as_u64() == Some(context_id)
    };
    infos.iter().find(is_for)?;
    infos
        .iter()
        .find(|info| info.key == *wanted)
        .map(|info| info.value.clone())
}
