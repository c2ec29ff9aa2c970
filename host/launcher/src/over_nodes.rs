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

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Proc, ProcState, Rank};

    fn proc(rank: u32, pid: u32) -> ProcInfo {
        ProcInfo {
            proc: Proc::new(Nspace::new("job").unwrap(), Rank(rank)),
            hostname: None,
            executable: None,
            pid,
            state: ProcState::UNDEF,
        }
    }

    fn table_of(key: KeyName, procs: &[(u32, u32)]) -> Info {
        let procs = procs.iter().map(|(rank, pid)| proc(*rank, *pid));
        Info::new(key, Value::DataArray(DataArray::proc_infos(procs)))
    }

    #[test]
    fn table_has_each_proc_as_its_node_reports_it() {
        let all = key::PMIX_QUERY_PROC_TABLE;
        let local = key::PMIX_QUERY_LOCAL_PROC_TABLE;
        let known = table_of(all, &[(0, 10), (1, 0), (2, 0)]);
        let nodes = [
            vec![table_of(local, &[(0, 10)])],
            // One node has not answered, another one has no procs any more.
            Vec::new(),
            vec![table_of(local, &[(2, 12)])],
        ];
        let combined = combine(&all.0.into(), &[], Some(&known), &nodes);
        assert_eq!(combined, Some(table_of(all, &[(0, 10), (1, 0), (2, 12)])));
        assert_eq!(
            combine(&all.0.into(), &[], Some(&known), &[Vec::new()]),
            None
        );
    }

    fn usage(rank: u32, megabytes: f32) -> Info {
        let infos = [
            Info::new(key::PMIX_RANK, Value::Rank(Rank(rank))),
            Info::new(key::PMIX_PROC_RSS, Value::Float(megabytes)),
        ];
        let infos = Value::DataArray(DataArray::infos(infos));
        Info::new(key::PMIX_PROC_RESOURCE_USAGE, infos)
    }

    fn usages(key: KeyName, infos: Vec<Info>) -> Info {
        Info::new(key, Value::DataArray(DataArray::infos(infos)))
    }

    #[test]
    fn usage_is_reduced_after_all_nodes_have_answered() {
        let memory = key::PMIX_QUERY_MEMORY_USAGE;
        let server = |megabytes| Info::new(key::PMIX_DAEMON_MEMORY, Value::Float(megabytes));
        let nodes = [
            vec![usages(
                memory,
                vec![server(1.0), usage(0, 10.0), usage(1, 30.0)],
            )],
            vec![usages(memory, vec![server(2.0), usage(2, 80.0)])],
        ];
        let yes = |key: KeyName| vec![Info::new(key, Value::Bool(true))];
        let [average, extremes] = REDUCTIONS.map(yes);
        for qualifiers in [&average, &extremes] {
            let asked = query_of_node(&[memory.0.into()], qualifiers);
            assert_eq!(asked.qualifiers, yes(key::PMIX_QUERY_LOCAL_ONLY));
        }
        let mean = Info::new(key::PMIX_CLIENT_AVG_MEMORY, Value::Float(40.0));
        let expected = usages(memory, vec![server(1.0), mean]);
        assert_eq!(
            combine(&memory.0.into(), &average, None, &nodes),
            Some(expected)
        );
        let ends = vec![server(1.0), usage(0, 10.0), usage(2, 80.0)];
        let expected = usages(memory, ends);
        assert_eq!(
            combine(&memory.0.into(), &extremes, None, &nodes),
            Some(expected)
        );
    }

    #[test]
    fn usage_of_one_proc_is_that_of_its_node() {
        let key = key::PMIX_QUERY_PROC_RESOURCE_USAGE;
        let of_proc = Info::new(key, usage(4, 5.0).value);
        let one = [Info::new(key::PMIX_RANK, Value::Rank(Rank(4)))];
        let nodes = [Vec::new(), vec![of_proc.clone()]];
        assert_eq!(combine(&key.0.into(), &one, None, &nodes), Some(of_proc));
        let nodes = [
            vec![usages(key, vec![usage(0, 1.0)])],
            vec![usages(key, vec![usage(4, 5.0)])],
        ];
        let all = usages(key, vec![usage(0, 1.0), usage(4, 5.0)]);
        assert_eq!(combine(&key.0.into(), &[], None, &nodes), Some(all));
    }
}
