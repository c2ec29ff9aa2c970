//! Modules of the cluster, as `peal module list` and `peal module deploy` print them.
use super::deployed::ago;
use crate::{
    plain,
    table::{Side, table},
};
use anyhow::Result;
use peal_server::admin::{ClusterModuleList, ClusterRollout, ClusterRolloutStage};
use std::io::Write;

/// Prints the sets of a cluster, and the set of each node.
pub fn print(out: &mut impl Write, list: &ClusterModuleList) -> Result<()> {
    if list.revision == 0 && list.nodes.is_empty() {
        writeln!(
            out,
            "cluster {}: its modules are not known, since this server does not meet the others; those that run here stay",
            plain(&list.cluster)
        )?;
        return Ok(());
    }
    let active = list
        .active
        .map_or_else(|| "no set".to_owned(), |set| format!("set {set}"));
    writeln!(
        out,
        "cluster {}: {active} is that of all nodes",
        plain(&list.cluster)
    )?;
    for set in &list.sets {
        writeln!(
            out,
            "set {}: {}, by node {}: {}",
            set.set,
            ago(set.at),
            plain(&set.by),
            plain(&set.cause)
        )?;
    }
    if let Some(rollout) = &list.rollout {
        writeln!(out, "{}", described(rollout))?;
    }
    if let Some(given_up) = list
        .abandoned
        .as_ref()
        .filter(|given_up| !given_up.reason.is_empty())
    {
        writeln!(
            out,
            "set {} was given up: {}",
            given_up.set,
            plain(&given_up.reason)
        )?;
    }
    print_nodes(out, list)
}

/// Prints the set of each node.
pub fn print_nodes(out: &mut impl Write, list: &ClusterModuleList) -> Result<()> {
    let rows: Vec<[String; 3]> = list
        .nodes
        .iter()
        .map(|node| {
            let runs = node
                .runs
                .map_or_else(|| "-".to_owned(), |set| set.to_string());
            [plain(&node.node), runs, node.state.to_string()]
        })
        .collect();
    let head = [
        ("node", Side::Left),
        ("set", Side::Right),
        ("state", Side::Left),
    ];
    write!(out, "{}", table(head, &rows))?;
    for node in &list.nodes {
        if let Some(reason) = &node.reason {
            let reason = reason.lines().map(plain).collect::<Vec<_>>().join("; ");
            writeln!(out, "{}: {reason}", plain(&node.node))?;
        }
    }
    Ok(())
}

fn described(rollout: &ClusterRollout) -> String {
    let ClusterRollout {
        set,
        by,
        stage,
        quota_percent,
        canary,
    } = rollout;
    let canary = canary.iter().map(|node| plain(node)).collect::<Vec<_>>();
    let by = plain(by);
    match stage {
        ClusterRolloutStage::Preparing if canary.is_empty() => {
            format!(
                "set {set} is on its way, by node {by}: {quota_percent}% of the nodes must be ready"
            )
        }
        ClusterRolloutStage::Preparing => format!(
            "set {set} is on its way, by node {by}: its canary is {}",
            canary.join(", ")
        ),
        ClusterRolloutStage::Canary => format!(
            "set {set} runs as a canary on {}; `peal module deploy --promote` brings it to all",
            canary.join(", ")
        ),
        ClusterRolloutStage::Promoting => format!(
            "set {set} is on its way to all, by node {by}; its canary is {}",
            canary.join(", ")
        ),
    }
}
