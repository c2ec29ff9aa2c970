//! Queries about procs of several nodes: the form in which each node answers, and the answer that all
//! nodes give together.
use super::{memory, usage_query};
use peal_model::{DataArray, Info, Infos, KeyName, ProcInfo, Query, Text, Value, key};
use std::collections::BTreeMap;

/// Qualifiers that reduce the answer of a node too early.
const REDUCTIONS: [KeyName; 2] = [key::PMIX_QUERY_REPORT_AVG, key::PMIX_QUERY_REPORT_MINMAX];

/// Returns the key by which a node answers for its own procs.
fn key_of_node(queried: &Text) -> Text {
    if queried.as_str() == Some(key::PMIX_QUERY_PROC_TABLE.0) {
        key::PMIX_QUERY_LOCAL_PROC_TABLE.0.into()
    } else {
        queried.clone()
    }
}

/// Returns the query that each node answers for its own procs.
pub(super) fn query_of_node(keys: &[Text], qualifiers: &[Info]) -> Query {
    let is_kept = |info: &&Info| REDUCTIONS.iter().all(|reduction| info.key != *reduction);
    let mut qualifiers: Vec<Info> = qualifiers.iter().filter(is_kept).cloned().collect();
    if !qualifiers.is_true(key::PMIX_QUERY_LOCAL_ONLY) {
        let local = Info::new(key::PMIX_QUERY_LOCAL_ONLY, Value::Bool(true));
        qualifiers.push(local);
    }
    Query {
        keys: keys.iter().map(|key| Some(key_of_node(key))).collect(),
        qualifiers,
    }
}

/// Returns the answer to a key that nodes give together: `nodes` are their answers to
/// [`query_of_node`], that of this node first. `known` is what this node knows of all.
pub(super) fn combine(
    queried: &Text,
    qualifiers: &[Info],
    known: Option<&Info>,
    nodes: &[Vec<Info>],
) -> Option<Info> {
    let key = key_of_node(queried);
    let is_answer = |info: &&Info| Some(info.key.as_str()) == key.as_str();
    let parts: Vec<&Info> = nodes
        .iter()
        .filter_map(|node| node.iter().find(is_answer))
        .collect();
    // A node without an answer adds nothing.
    let first = parts.first()?;
    let queried = queried.as_str()?;
    let named = known.map(|info| info.key.clone());
    let value = if queried == key::PMIX_QUERY_PROC_TABLE.0 {
        table(known, &parts)
    } else if queried == key::PMIX_QUERY_MEMORY_USAGE.0 {
        memory::combine(qualifiers, &parts)
    } else if matches!(usage_query::selected_rank(qualifiers), Ok(Some(_))) {
        first.value.clone()
    } else {
        let usages = parts.iter().flat_map(|part| members(part)).cloned();
        Value::DataArray(DataArray::infos(usages))
    };
    let key = named.unwrap_or_else(|| first.key.clone());
    Some(Info::new(key, value))
}

/// Returns the infos of an array of them.
pub(super) fn members(info: &Info) -> Vec<&Info> {
    match &info.value {
        Value::DataArray(array) => array.as_infos().unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns the procs of a table, each as the server of its node reports it.
fn table(known: Option<&Info>, parts: &[&Info]) -> Value {
    let mut procs: BTreeMap<_, &ProcInfo> = BTreeMap::new();
    for info in known.into_iter().chain(parts.iter().copied()) {
        let Value::DataArray(array) = &info.value else {
            continue;
        };
        for value in array.items() {
            if let Value::ProcInfo(info) = value {
                procs.insert(info.proc.rank, info);
            }
        }
    }
    Value::DataArray(DataArray::proc_infos(procs.into_values().cloned()))
}
