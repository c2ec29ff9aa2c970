//! `peal module deploy --dry-run` and `rollback --cluster --dry-run`: what would be done to the modules of
//! the cluster. Modules are compared with the configuration of this node, and nothing is stored.
use super::deploy::NewModule;
use crate::{admin::NOTHING_CHANGED, args::ModuleDeploy, config, output, plain};
use anyhow::{Result, bail};
use peal_model::counted;
use peal_server::admin::{ClusterModuleList, ClusterRolloutStage};
use std::{fmt::Write, process::ExitCode};

/// Verifies modules as this node would, and says what would be deployed.
pub(super) fn would_deploy(
    args: &ModuleDeploy,
    list: &ClusterModuleList,
    added: &[NewModule],
) -> Result<ExitCode> {
    let config = config::load_for_server(args.at.config.clone(), [])?
        .resolved
        .config;
    let entries: Vec<_> = added.iter().map(|new| new.entry.clone()).collect();
    peal_modules::read_components(&entries, &config)?;
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
    told(&text)
}

/// Says what the promotion of a canary would do.
pub(super) fn would_promote(list: &ClusterModuleList) -> Result<ExitCode> {
    let canary = list.rollout.as_ref();
    let Some(rollout) = canary.filter(|rollout| rollout.stage == ClusterRolloutStage::Canary)
    else {
        bail!("no set runs as a canary in cluster {}", list.cluster);
    };
    let nodes = counted(list.nodes.len(), "node");
    told(&format!("{nodes} would run set {}\n", rollout.set))
}

/// Says what a rollback would do.
pub(super) fn would_roll_back(list: &ClusterModuleList, to: Option<u64>) -> Result<ExitCode> {
    let known = |set: u64| list.sets.iter().any(|known| known.set == set);
    let text = match (to, &list.rollout, list.active) {
        (Some(set), _, _) if !known(set) => {
            let sets: Vec<String> = list
                .sets
                .iter()
                .map(|known| known.set.to_string())
                .collect();
            bail!("the cluster has no set {set}; it has: {}", sets.join(", "));
        }
        (Some(set), _, _) => format!("would run set {set} on all nodes\n"),
        (None, Some(rollout), _) => format!("would give up set {}\n", rollout.set),
        (None, None, active) => {
            let before = list
                .sets
                .iter()
                .rev()
                .find(|known| Some(known.set) < active);
            let Some(before) = before else {
                bail!("the set of the cluster has no previous set");
            };
            format!("would run set {} on all nodes\n", before.set)
        }
    };
    told(&text)
}

fn told(text: &str) -> Result<ExitCode> {
    crate::print_line(NOTHING_CHANGED);
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
