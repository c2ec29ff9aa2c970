//! Representation of the modules of a cluster on the admin socket: requests and states.
use serde::{Deserialize, Serialize};
use std::fmt;

/// Change of the modules of the cluster, on the node of a deployer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClusterModuleCall {
    /// Has all nodes prepare a stored set, and run it once they are ready.
    Deploy(NewClusterSet),
    /// Has the set of the canary go to all nodes.
    Promote,
    /// Gives up the set on its way, or returns to an earlier set.
    Rollback {
        /// Number of the set; none for the one on its way or, without one, the previous one.
        to: Option<u64>,
    },
}

/// Set of modules that an administrator deploys to the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewClusterSet {
    /// Revision of the deployment that the set was made of.
    pub base: u64,
    /// SHA-256 digest of the stored set.
    pub sha256: String,
    /// Size of the stored set, in bytes.
    pub size: u64,
    /// Reason, to be shown.
    pub cause: String,
    /// Percentage of the nodes that must be ready.
    pub quota_percent: u8,
    /// Time in which they must be, in milliseconds.
    pub timeout_ms: u64,
    /// Percentage of the nodes that run the set first; none for all at once.
    pub canary_percent: Option<u8>,
}

impl fmt::Display for ClusterModuleCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterModuleCall::Deploy(set) => {
                write!(f, "deploy modules to the cluster: {:?}", set.cause)?;
                match set.canary_percent {
                    Some(percent) => write!(f, ", canary {percent}%"),
                    None => Ok(()),
                }
            }
            ClusterModuleCall::Promote => f.write_str("promote modules of the canary"),
            ClusterModuleCall::Rollback { to: Some(set) } => {
                write!(f, "rollback modules of the cluster to set {set}")
            }
            ClusterModuleCall::Rollback { to: None } => {
                f.write_str("rollback modules of the cluster")
            }
        }
    }
}

/// Modules of a cluster, as one of its servers knows them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterModuleList {
    /// Name of the cluster.
    pub cluster: String,
    /// Number of the last change.
    pub revision: u64,
    /// Set of all nodes.
    pub active: Option<u64>,
    /// Sets in the order in which they became active, and the one on its way.
    pub sets: Vec<ClusterSetStatus>,
    /// Set on its way.
    pub rollout: Option<ClusterRollout>,
    /// Last set on its way, if it was given up.
    pub abandoned: Option<ClusterAbandoned>,
    /// Nodes, in the order of their names.
    pub nodes: Vec<ClusterNodeModules>,
}

/// Set of modules of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterSetStatus {
    /// Number.
    pub set: u64,
    /// SHA-256 digest of the set.
    pub sha256: String,
    /// Size of the set without its components, in bytes.
    pub size: u64,
    /// Node that deployed it.
    pub by: String,
    /// Time of its deployment, in seconds since the epoch.
    pub at: u64,
    /// Cause of its deployment.
    pub cause: String,
}

/// Set on its way to the nodes of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterRollout {
    /// Number of the set.
    pub set: u64,
    /// Node that decides.
    pub by: String,
    /// Stage.
    pub stage: ClusterRolloutStage,
    /// Percentage of the nodes that must be ready.
    pub quota_percent: u8,
    /// Nodes of the canary.
    pub canary: Vec<String>,
}

/// Stage of a set on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterRolloutStage {
    /// Nodes prepare the set.
    Preparing,
    /// The nodes of the canary run the set.
    Canary,
    /// The nodes of the canary run the set, and others prepare it.
    Promoting,
}

/// Set on its way that was given up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterAbandoned {
    /// Number of the set.
    pub set: u64,
    /// Reason.
    pub reason: String,
}

/// Modules of the cluster on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterNodeModules {
    /// Name of the node.
    pub node: String,
    /// Set that the node runs; none for no modules of the cluster.
    pub runs: Option<u64>,
    /// State.
    pub state: ClusterNodeState,
    /// Reason for which the node keeps its set, or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// State of a node with regard to the set that it should run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterNodeState {
    /// The node runs the set.
    Current,
    /// The node is ready for the set on its way.
    Ready,
    /// The node prepares a set.
    Preparing,
    /// The node refuses a set, and keeps its own.
    Refuses,
    /// The server of the node is no member now. This was its last report.
    Away,
}

impl fmt::Display for ClusterNodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClusterNodeState::Current => "current",
            ClusterNodeState::Ready => "ready",
            ClusterNodeState::Preparing => "preparing",
            ClusterNodeState::Refuses => "refuses",
            ClusterNodeState::Away => "away",
        })
    }
}
