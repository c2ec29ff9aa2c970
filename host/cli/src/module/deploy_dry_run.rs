//! `peal module deploy --dry-run` and `rollback --cluster --dry-run`: what would be done to the modules of
//! the cluster. The server has checked the change; nothing is stored.
use super::deploy::NewModule;
use crate::{
    args::{ConfigArgs, ModuleDeploy},
    cluster, config, output, plain,
};
use anyhow::Result;
use peal_model::counted;
use peal_server::admin::ClusterModuleList;
use std::{fmt::Write, process::ExitCode};

/// Verifies modules as the server of this node will.
pub(super) fn verify(config: ConfigArgs, cluster: &str, added: &[NewModule]) -> Result<()> {
    let resolved = config::load_for_server(config, [])?.resolved;
    let parts: Vec<_> = added
        .iter()
        .map(|new| cluster::parts_of(&new.module, new.component.clone()))
        .collect();
    let names = (cluster, "the new set of the cluster");
    peal_modules::verify_cluster_modules(names, &parts, &resolved)?;
    Ok(())
}

/// Says what a deployment would do.
pub(super) fn would_deploy(
    args: &ModuleDeploy,
    list: &ClusterModuleList,
    added: &[NewModule],
) -> Result<ExitCode> {
    let mut text = String::new();
    for new in added {
        // A write to a string cannot fail.
        let _ = writeln!(text, "would deploy {}", plain(&new.module.name));
    }
    for name in &args.remove {
        let _ = writeln!(text, "would remove {}", plain(name));
    }
    let nodes = counted(list.nodes.len(), "node");
    let _ = match args.canary {
        Some(percent) => writeln!(
            text,
            "{percent}% of {nodes} of cluster {} would run the set first",
            plain(&list.cluster)
        ),
        None => writeln!(
            text,
            "{nodes} of cluster {} would run the set when {}% are ready",
            plain(&list.cluster),
            args.quota
        ),
    };
    print(&text)
}

/// Says what the promotion of a canary would do. `set` is the set that it would bring.
pub(super) fn would_promote(list: &ClusterModuleList, set: Option<u64>) -> Result<ExitCode> {
    let nodes = counted(list.nodes.len(), "node");
    let sets = set.map(|set| format!("{nodes} would run set {set}\n"));
    print(&sets.unwrap_or_default())
}

/// Says what a rollback would do. `set` is the set that all nodes would run.
pub(super) fn would_roll_back(list: &ClusterModuleList, set: Option<u64>) -> Result<ExitCode> {
    let mut text = String::new();
    if let Some(rollout) = &list.rollout {
        // A write to a string cannot fail.
        let _ = writeln!(text, "would give up set {}", rollout.set);
    }
    if let Some(set) = set.filter(|set| list.rollout.is_none() || Some(*set) != list.active) {
        let _ = writeln!(text, "would run set {set} on all nodes");
    }
    print(&text)
}

fn print(text: &str) -> Result<ExitCode> {
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
