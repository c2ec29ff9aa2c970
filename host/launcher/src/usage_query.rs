//! Queries about the resource usage of procs and of the node (`PMIX_QUERY_PROC_RESOURCE_USAGE`,
//! `PMIX_QUERY_NODE_RESOURCE_USAGE`).
use peal_model::{DataArray, Info, Infos, Proc, Rank, Status, Text, Value, code, key, rank};
use peal_system::usage::{self, Fields};

/// Returns true if the key is one of these queries.
pub(super) fn is_usage_query(queried: &str) -> bool {
    queried == key::PMIX_QUERY_PROC_RESOURCE_USAGE.0
        || queried == key::PMIX_QUERY_NODE_RESOURCE_USAGE.0
}

/// Returns the usage of the selected procs, or of the node. For one selected proc, and for the
/// node if it is named, this is its usage; otherwise it is an array of the usage of each. Reads
/// `/proc`, which blocks.
pub(super) fn about(
    queried: &str,
    qualifiers: &[Info],
    running: &[(Proc, u32)],
) -> Result<Option<Info>, Status> {
    if queried == key::PMIX_QUERY_NODE_RESOURCE_USAGE.0 {
        let named = qualifiers.value_of(key::PMIX_HOSTNAME);
        let node = usage::of_node();
        return Ok(match named {
            None => Some(Info::new(
                key::PMIX_QUERY_NODE_RESOURCE_USAGE,
                Value::DataArray(DataArray::infos([node])),
            )),
            Some(Value::String(Some(name)))
                if *name == Text::from(peal_system::hostname().as_str()) =>
            {
                Some(Info::new(key::PMIX_QUERY_NODE_RESOURCE_USAGE, node.value))
            }
            // Only the usage of this node is known.
            Some(Value::String(_)) => None,
            Some(_) => return Err(code::PMIX_ERR_BAD_PARAM),
        });
    }
    let one = selected_rank(qualifiers)?;
    let selected = select(one, running);
    let mut found = selected.filter_map(|(proc, pid)| usage::of_proc(proc, *pid, Fields::ALL));
    let value = match one {
        Some(_) => found.next().map(|usage| usage.value),
        None => Some(Value::DataArray(DataArray::infos(found))),
    };
    Ok(value.map(|value| Info::new(key::PMIX_QUERY_PROC_RESOURCE_USAGE, value)))
}

/// Returns those of the running procs that a query selects.
pub(super) fn select(
    one: Option<Rank>,
    running: &[(Proc, u32)],
) -> impl Iterator<Item = &(Proc, u32)> {
    running
        .iter()
        .filter(move |(proc, _)| one.is_none_or(|rank| proc.rank == rank))
}

/// Returns the one rank that a query selects. None means all ranks of the job.
pub(super) fn selected_rank(qualifiers: &[Info]) -> Result<Option<Rank>, Status> {
    let all = rank::PMIX_RANK_WILDCARD;
    let rank = match (
        qualifiers.value_of(key::PMIX_PROCID),
        qualifiers.value_of(key::PMIX_RANK),
    ) {
        (Some(Value::Proc(proc)), _) => proc.rank,
        (None, Some(rank)) => rank.as_rank().ok_or(code::PMIX_ERR_BAD_PARAM)?,
        (None, None) => all,
        (Some(_), _) => return Err(code::PMIX_ERR_BAD_PARAM),
    };
    Ok(Some(rank).filter(|rank| *rank != all))
}
