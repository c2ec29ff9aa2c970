//! Contribution of a proc to a group: infos about itself and values that it put. Both are sent as
//! arrays with the proc as their first element.
use crate::Client;
use peal_model::{DataArray, Info, Key, KeyName, Kval, Proc, RankData, Scope, Value, key};

impl Client {
    /// Contribution of this proc to a group: infos about itself, and values that it put for procs of other nodes, committed or not.
    pub(super) fn contribution(&self, says: Vec<Info>) -> Vec<Info> {
        info_array(self.me(), says)
            .into_iter()
            .chain(value_array(self.me(), self.posted_for_others()))
            .collect()
    }
}

/// Returns the array of infos about a proc (`PMIX_GROUP_INFO`), if there are any.
pub(super) fn info_array(me: &Proc, infos: Vec<Info>) -> Option<Info> {
    (!infos.is_empty()).then(|| headed(key::PMIX_GROUP_INFO, me, infos))
}

/// Returns the array of values that a proc put for procs of other nodes (`PMIX_PROC_INFO_ARRAY`),
/// if there are any.
fn value_array(me: &Proc, kvals: Vec<Kval>) -> Option<Info> {
    let scope = Info::new(key::PMIX_DATA_SCOPE, Value::Scope(Scope::Remote));
    let infos = kvals
        .into_iter()
        .map(|Kval { key, value }| Info::new(key, value));
    let infos: Vec<Info> = infos.collect();
    (!infos.is_empty())
        .then(|| headed(key::PMIX_PROC_INFO_ARRAY, me, [vec![scope], infos].concat()))
}

fn headed(key: KeyName, proc: &Proc, infos: Vec<Info>) -> Info {
    let proc_id = Info::new(key::PMIX_PROCID, Value::Proc(proc.clone()));
    Info::new(
        key,
        Value::DataArray(DataArray::infos([proc_id].into_iter().chain(infos))),
    )
}

/// Returns the arrays that name this proc as their owner: a proc must not contribute for another.
pub(super) fn owned_by(proc: &Proc, infos: &[Info]) -> Vec<Info> {
    let meant = [key::PMIX_GROUP_INFO, key::PMIX_PROC_INFO_ARRAY];
    let theirs = |info: &&Info| {
        meant.iter().any(|key| info.key == *key)
            && owned(info).is_some_and(|(proc_id, _)| proc_id == *proc)
    };
    infos.iter().filter(theirs).cloned().collect()
}

/// Returns the infos that members gave about themselves.
pub(super) fn member_infos(members: &[Proc], infos: &[Info]) -> Vec<(Proc, Vec<Info>)> {
    let arrays = infos.iter().filter(|info| info.key == key::PMIX_GROUP_INFO);
    let infos_by_proc = arrays
        .filter_map(owned)
        .filter(|(proc, _)| is_of(members, proc));
    infos_by_proc
        .map(|(proc, infos)| (proc, infos.into_iter().cloned().collect()))
        .collect()
}

/// Returns the values that members put.
pub(super) fn member_values(members: &[Proc], infos: &[Info]) -> Vec<RankData> {
    let arrays = infos
        .iter()
        .filter(|info| info.key == key::PMIX_PROC_INFO_ARRAY);
    let data = arrays
        .filter_map(owned)
        .filter(|(proc, _)| is_of(members, proc))
        .map(|(proc, infos)| {
            let values = infos
                .into_iter()
                // This info is about the array, and is no value that the proc put.
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

/// Reports whether a proc is one of the members. Releases of the C library name members as they
/// were invited, which may be by the wildcard rank of their job.
fn is_of(members: &[Proc], proc: &Proc) -> bool {
    members.iter().any(|member| member.covers(proc))
}

/// Splits an array into the proc that it names and the other infos.
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

/// Returns the value of a qualified value (`PMIX_QUALIFIED_VALUE`) if it has this key and this
/// context id.
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

/// Returns the value of a qualified value (`PMIX_QUALIFIED_VALUE`) if it has this key and exactly
/// these qualifiers.
pub(crate) fn has_qualifiers(kval: &Kval, wanted: &Key, qualifiers: &[&Info]) -> Option<Value> {
    let Value::DataArray(array) = &kval.value else {
        return None;
    };
    if kval.key != key::PMIX_QUALIFIED_VALUE {
        return None;
    }
    let mut infos = array.as_infos()?.into_iter();
    let value = infos.next().filter(|info| info.key == *wanted)?;
    let own: Vec<&Info> = infos.collect();
    let is_own = |qualifier: &&Info| {
        own.iter()
            .any(|info| info.key == qualifier.key && info.value == qualifier.value)
    };
    (own.len() == qualifiers.len() && qualifiers.iter().all(is_own)).then(|| value.value.clone())
}
