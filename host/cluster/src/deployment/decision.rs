//! Decisions about a set on its way: made by the server that deployed it, from the reports of all.
use super::record::{
    AbandonedRollout, DeployedSet, DeploymentRecord, MAX_KEPT_SETS, NodeReport, RolloutStage,
    SetNumber, SetRollout, bounded_reason,
};
use peal_model::{NodeName, counted};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that an abandoned rollout names.
const MAX_NAMED: usize = 5;

/// State of the time of a rollout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RolloutTime {
    /// There is time left.
    Left,
    /// The time has passed.
    Over,
}

/// Returns the next record of a rollout; `None` as long as nothing is decided.
pub(crate) fn decide(
    record: &DeploymentRecord,
    members: &BTreeSet<NodeName>,
    reports: &BTreeMap<NodeName, NodeReport>,
    time: RolloutTime,
) -> Option<DeploymentRecord> {
    let rollout = record.rollout.as_ref()?;
    let of_canary = match rollout.stage {
        RolloutStage::Canary => return None,
        RolloutStage::Preparing => !rollout.canary.is_empty(),
        RolloutStage::Promoting => false,
    };
    let concerned: Vec<&NodeName> = members
        .iter()
        .filter(|node| !of_canary || rollout.canary.contains(node))
        .collect();
    if concerned.is_empty() && time == RolloutTime::Left {
        return None;
    }
    let set = rollout.set;
    let has = |node: &&&NodeName| reports.get(**node).is_some_and(|report| report.has(set));
    let ready = concerned.iter().filter(has).count();
    // The nodes of a canary were chosen, so all of them must be ready.
    let quota = if of_canary {
        100
    } else {
        usize::from(rollout.quota_percent.min(100))
    };
    let required = (concerned.len() * quota).div_ceil(100);
    if ready >= required && !concerned.is_empty() {
        return Some(if of_canary {
            with_stage(record, rollout, RolloutStage::Canary)
        } else {
            activated(record, set)
        });
    }
    let refusals: Vec<String> = concerned
        .iter()
        .filter_map(|node| {
            let reason = reports.get(*node)?.refusal(set)?;
            Some(format!("{node} refuses: {reason}"))
        })
        .collect();
    if concerned.len() - refusals.len() < required {
        return Some(abandoned(record, rollout, &listed(&refusals)));
    }
    if time == RolloutTime::Left {
        return None;
    }
    let silent: Vec<String> = concerned
        .iter()
        .filter(|node| !has(node))
        .filter(|node| {
            let report = reports.get(**node);
            report.is_none_or(|report| report.refusal(set).is_none())
        })
        .map(|node| {
            format!(
                "{node} was not ready in {} s",
                rollout.patience_ms.div_ceil(1000)
            )
        })
        .chain(refusals)
        .collect();
    let reason = if silent.is_empty() {
        "no node of it is in the cluster".to_owned()
    } else {
        listed(&silent)
    };
    Some(abandoned(record, rollout, &reason))
}

fn listed(reasons: &[String]) -> String {
    let named: Vec<&str> = reasons.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = reasons.len().saturating_sub(MAX_NAMED);
    let text = named.join("; ");
    if more == 0 {
        text
    } else {
        format!("{text}; and {}", counted(more, "other node"))
    }
}

fn with_stage(
    record: &DeploymentRecord,
    rollout: &SetRollout,
    stage: RolloutStage,
) -> DeploymentRecord {
    DeploymentRecord {
        revision: record.revision.saturating_add(1),
        rollout: Some(SetRollout {
            stage,
            ..rollout.clone()
        }),
        abandoned: None,
        ..record.clone()
    }
}

/// Returns the record with a set as the one of all nodes.
pub(crate) fn activated(record: &DeploymentRecord, set: SetNumber) -> DeploymentRecord {
    let (active, mut sets): (Vec<DeployedSet>, Vec<DeployedSet>) = record
        .sets
        .iter()
        .cloned()
        .partition(|known| known.number == set);
    sets.extend(active);
    let surplus = sets.len().saturating_sub(MAX_KEPT_SETS);
    sets.drain(..surplus);
    DeploymentRecord {
        revision: record.revision.saturating_add(1),
        sets,
        active: Some(set),
        rollout: None,
        abandoned: None,
    }
}

/// Returns the record of a rollout that is given up. A canary that others cannot join stays one.
fn abandoned(record: &DeploymentRecord, rollout: &SetRollout, reason: &str) -> DeploymentRecord {
    let given_up = AbandonedRollout {
        set: rollout.set,
        reason: bounded_reason(reason),
    };
    if rollout.stage == RolloutStage::Promoting {
        return DeploymentRecord {
            abandoned: Some(given_up),
            ..with_stage(record, rollout, RolloutStage::Canary)
        };
    }
    without_rollout(record, given_up)
}

/// Returns the record without its rollout, whose set is forgotten unless it was active before.
pub(crate) fn without_rollout(
    record: &DeploymentRecord,
    given_up: AbandonedRollout,
) -> DeploymentRecord {
    DeploymentRecord {
        revision: record.revision.saturating_add(1),
        sets: record
            .sets
            .iter()
            .filter(|set| set.number != given_up.set)
            .cloned()
            .collect(),
        active: record.active,
        rollout: None,
        abandoned: Some(given_up),
    }
}

/// Returns the nodes of a canary: a share of the members, at least one, chosen by the number of the set.
/// So each set has other nodes, and the same question always the same answer.
pub fn canary_nodes(
    set: SetNumber,
    members: &BTreeSet<NodeName>,
    share_percent: u8,
) -> BTreeSet<NodeName> {
    let share = (members.len() * usize::from(share_percent.min(100))).div_ceil(100);
    let mut ranked: Vec<(u64, &NodeName)> =
        members.iter().map(|node| (rank(set, node), node)).collect();
    ranked.sort();
    ranked
        .into_iter()
        .take(share.max(1))
        .map(|(_, node)| node.clone())
        .collect()
}

/// Returns the rank of a node for a set: FNV-1a with a final mix, which is the same in all releases.
fn rank(set: SetNumber, node: &NodeName) -> u64 {
    let bytes = set.0.to_le_bytes();
    let all = bytes.iter().chain(node.as_str().as_bytes());
    let hash = all.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
