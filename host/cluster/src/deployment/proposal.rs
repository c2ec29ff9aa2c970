//! Records that an administrator asks for: a new set, the end of a canary, and a rollback.
use super::{
    decision::{activated, canary_nodes, without_rollout},
    record::{
        AbandonedRollout, DeployedSet, DeploymentRecord, MAX_KEPT_SETS, NodeReport, ObjectId,
        RolloutStage, SetNumber, SetRollout, bounded_reason,
    },
};
use peal_model::NodeName;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Terms on which a set reaches the nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RolloutTerms {
    /// Percentage of the nodes that must be ready, from 1 to 100.
    pub quota_percent: u8,
    /// Time in which they must be, in milliseconds.
    pub patience_ms: u64,
    /// Percentage of the nodes that run the set first, from 1 to 99; `None` for all at once.
    pub canary_percent: Option<u8>,
}

/// Set that an administrator deploys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetProposal {
    /// Revision of the record that the set was made of.
    pub base: u64,
    /// Object with the set, which is stored.
    pub object: ObjectId,
    /// Reason, to be shown.
    pub cause: String,
    /// Terms.
    pub terms: RolloutTerms,
    /// Time, in seconds since 1970.
    pub at: u64,
}

/// Reason for which a record is not written.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProposalError {
    /// The last record is not known.
    #[error(
        "the modules of the cluster are not known here: no NATS server is reached, or the last record is being read"
    )]
    Away,
    /// This server is no member.
    #[error("this server is no member of the cluster yet")]
    NoMember,
    /// Another set is on its way.
    #[error(
        "set {set} of node {by} is on its way; wait for it, or give it up with `peal module rollback --cluster`"
    )]
    Underway {
        /// Number of the set.
        set: SetNumber,
        /// Node that deployed it.
        by: NodeName,
    },
    /// The set was made of an earlier record.
    #[error("another deployment came first; repeat the command")]
    Changed,
    /// There is no canary.
    #[error("no canary runs; `peal module deploy --canary PERCENT` starts one")]
    NoCanary,
    /// There is no earlier set.
    #[error("no set of the cluster was active before")]
    NoPrevious,
    /// The set is not kept.
    #[error("there is no set {number} of the cluster; there are {kept}")]
    NoSuchSet {
        /// Number.
        number: SetNumber,
        /// Numbers of the kept sets.
        kept: String,
    },
}

/// Returns the record with a new set on its way.
pub(super) fn propose(
    record: &DeploymentRecord,
    reports: &BTreeMap<NodeName, NodeReport>,
    members: &BTreeSet<NodeName>,
    by: &NodeName,
    proposal: SetProposal,
) -> Result<DeploymentRecord, ProposalError> {
    if let Some(rollout) = &record.rollout {
        return Err(ProposalError::Underway {
            set: rollout.set,
            by: rollout.by.clone(),
        });
    }
    if proposal.base != record.revision {
        return Err(ProposalError::Changed);
    }
    let number = next_number(record, reports);
    let terms = proposal.terms;
    let canary = terms
        .canary_percent
        .map(|percent| canary_nodes(number, members, percent))
        .unwrap_or_default();
    let mut sets = record.sets.clone();
    // The active set is the last of those that were active.
    let surplus = (sets.len() + 1).saturating_sub(MAX_KEPT_SETS);
    sets.drain(..surplus);
    sets.push(DeployedSet {
        number,
        object: proposal.object,
        by: by.clone(),
        at: proposal.at,
        cause: bounded_reason(&proposal.cause),
    });
    Ok(DeploymentRecord {
        // Greater than all records of a store that was lost with all that knew them.
        revision: record.revision.saturating_add(1).max(proposal.at),
        sets,
        active: record.active,
        rollout: Some(SetRollout {
            set: number,
            by: by.clone(),
            quota_percent: terms.quota_percent,
            patience_ms: terms.patience_ms,
            canary,
            stage: RolloutStage::Preparing,
        }),
        abandoned: None,
    })
}

/// Returns a number that no node has seen.
fn next_number(record: &DeploymentRecord, reports: &BTreeMap<NodeName, NodeReport>) -> SetNumber {
    let run = reports.values().filter_map(|report| report.runs);
    let kept = record.sets.iter().map(|set| set.number);
    let given_up = record.abandoned.iter().map(|given_up| given_up.set);
    let last = run.chain(kept).chain(given_up).max().unwrap_or_default();
    SetNumber(last.0.saturating_add(1))
}

/// Returns the record by which the set of a canary goes to all nodes.
pub(super) fn promote(
    record: &DeploymentRecord,
    by: &NodeName,
) -> Result<DeploymentRecord, ProposalError> {
    let canary = record
        .rollout
        .as_ref()
        .filter(|rollout| rollout.stage == RolloutStage::Canary);
    let rollout = canary.ok_or(ProposalError::NoCanary)?;
    Ok(DeploymentRecord {
        revision: record.revision.saturating_add(1),
        rollout: Some(SetRollout {
            by: by.clone(),
            stage: RolloutStage::Promoting,
            ..rollout.clone()
        }),
        abandoned: None,
        ..record.clone()
    })
}

/// Returns the record without the set on its way, or else with an earlier set as that of all nodes. Their
/// answers are not awaited: an administrator who goes back does so at once.
pub(super) fn roll_back(
    record: &DeploymentRecord,
    by: &NodeName,
    to: Option<SetNumber>,
) -> Result<DeploymentRecord, ProposalError> {
    if let (Some(rollout), None) = (&record.rollout, to) {
        return Ok(without_rollout(
            record,
            AbandonedRollout {
                set: rollout.set,
                reason: format!("node {by} has given it up"),
            },
        ));
    }
    let on_its_way = record.rollout.as_ref().map(|rollout| rollout.set);
    let mut once_active = record
        .sets
        .iter()
        .map(|set| set.number)
        .filter(|number| Some(*number) != on_its_way);
    let number = match to {
        Some(number) if once_active.clone().any(|kept| kept == number) => number,
        Some(number) => {
            let kept: Vec<String> = once_active.map(|kept| kept.to_string()).collect();
            return Err(ProposalError::NoSuchSet {
                number,
                kept: kept.join(", "),
            });
        }
        None => once_active
            .rfind(|number| Some(*number) != record.active)
            .ok_or(ProposalError::NoPrevious)?,
    };
    let dropped = match on_its_way {
        Some(set) => without_rollout(
            record,
            AbandonedRollout {
                set,
                reason: String::new(),
            },
        ),
        None => record.clone(),
    };
    Ok(activated(&dropped, number))
}
