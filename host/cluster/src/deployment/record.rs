//! Records of the deployment of modules in a cluster, and their bytes.
use peal_frames::{CodecError, FrameLimit, named_bytes, of_named_bytes};
use peal_model::NodeName;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};
use thiserror::Error;

/// Maximum length of a deployment record or a report, in bytes.
pub const MAX_DEPLOYMENT_RECORD: usize = 256 << 10;
/// Sets that a record keeps for a rollback, the active one included.
pub const MAX_KEPT_SETS: usize = 8;
/// Modules of one set.
pub const MAX_SET_MODULES: usize = 256;
/// Maximum length of a set without its components, in bytes.
pub const MAX_SET_BYTES: usize = 4 << 20;
/// Maximum length of a reason that a record or report holds, in characters.
pub const MAX_REASON: usize = 2000;

/// Number of a module set of a cluster.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct SetNumber(pub u64);

impl fmt::Display for SetNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of bytes in the cluster's store of objects.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ObjectId {
    /// SHA-256 digest of the bytes.
    pub digest: [u8; 32],
    /// Number of bytes.
    pub size: u64,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.digest
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Module of a set: its manifest.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterModule {
    /// Name of the module.
    pub name: String,
    /// Settings with grants and the digest of the component, as a `[[module]]` table.
    pub settings: String,
    /// Signature of the cluster's name with the settings, as minisign writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// Component.
    pub component: ObjectId,
    /// Signature of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_signature: Option<String>,
}

/// Modules that run together. The set is an object, too.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClusterModuleSet {
    /// Modules in the order of their registration.
    pub modules: Vec<ClusterModule>,
}

/// Error for bytes that are no set.
#[derive(Debug, Error)]
pub enum SetError {
    /// Bytes of another form.
    #[error("module set of the cluster: {0}")]
    Codec(#[from] CodecError),
    /// Too many modules.
    #[error("module set of the cluster has {count} modules; the limit is {MAX_SET_MODULES}")]
    Modules {
        /// Number of modules.
        count: usize,
    },
}

impl ClusterModuleSet {
    /// Encodes the set.
    ///
    /// # Errors
    ///
    /// Fails if the set is too large.
    pub fn encode(&self) -> Result<Vec<u8>, SetError> {
        self.check()?;
        Ok(named_bytes(Vec::new(), self, FrameLimit(MAX_SET_BYTES))?)
    }

    /// Decodes a set.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no set, or the set is too large.
    pub fn decode(bytes: &[u8]) -> Result<ClusterModuleSet, SetError> {
        let set: ClusterModuleSet = of_named_bytes(bytes, FrameLimit(MAX_SET_BYTES))?;
        set.check().map(|()| set)
    }

    fn check(&self) -> Result<(), SetError> {
        let count = self.modules.len();
        if count > MAX_SET_MODULES {
            return Err(SetError::Modules { count });
        }
        Ok(())
    }
}

/// Set that was deployed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeployedSet {
    /// Number.
    pub number: SetNumber,
    /// Object with the set.
    pub object: ObjectId,
    /// Node that deployed it, and stored its objects.
    pub by: NodeName,
    /// Time of the deployment, in seconds since 1970.
    pub at: u64,
    /// Reason of the deployment, to be shown.
    pub cause: String,
}

/// Stage of a rollout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RolloutStage {
    /// Nodes fetch, verify and compile the set: those of the canary if there is one, else all.
    Preparing,
    /// The nodes of the canary run the set, until an administrator decides.
    Canary,
    /// The nodes of the canary run the set, and it is awaited that the others are ready.
    Promoting,
}

/// Set on its way to the nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetRollout {
    /// Number of the set.
    pub set: SetNumber,
    /// Node whose server decides.
    pub by: NodeName,
    /// Percentage of the nodes that must be ready.
    pub quota_percent: u8,
    /// Time in which they must be, in milliseconds.
    pub patience_ms: u64,
    /// Nodes that run the set first; empty without a canary.
    pub canary: BTreeSet<NodeName>,
    /// Stage.
    pub stage: RolloutStage,
}

/// Rollout that was given up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AbandonedRollout {
    /// Number of the set.
    pub set: SetNumber,
    /// Reason.
    pub reason: String,
}

/// State of the deployment in a cluster. Each record replaces the one before it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeploymentRecord {
    /// Number of the record. Later ones have greater numbers.
    pub revision: u64,
    /// Sets that have been active in the order in which they were, and the one on its way.
    pub sets: Vec<DeployedSet>,
    /// Set of all nodes.
    pub active: Option<SetNumber>,
    /// Set on its way.
    pub rollout: Option<SetRollout>,
    /// Last rollout, if it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned: Option<AbandonedRollout>,
}

impl DeploymentRecord {
    /// Returns a set by its number.
    pub fn set(&self, number: SetNumber) -> Option<&DeployedSet> {
        self.sets.iter().find(|set| set.number == number)
    }

    /// Returns the set that a node should run; `None` for no modules of the cluster.
    pub fn target(&self, node: &NodeName) -> Option<SetNumber> {
        let canary = self.rollout.as_ref().filter(|rollout| {
            rollout.stage != RolloutStage::Preparing && rollout.canary.contains(node)
        });
        canary.map(|rollout| rollout.set).or(self.active)
    }

    /// Encodes the record.
    ///
    /// # Errors
    ///
    /// Fails if it is too long.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        named_bytes(Vec::new(), self, FrameLimit(MAX_DEPLOYMENT_RECORD))
    }

    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no record, or too long.
    pub fn decode(bytes: &[u8]) -> Result<DeploymentRecord, CodecError> {
        of_named_bytes(bytes, FrameLimit(MAX_DEPLOYMENT_RECORD))
    }
}

/// Answer of a node about a set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SetAnswer {
    /// The set is verified and compiled.
    Ready(SetNumber),
    /// The node does not run the set, and keeps its own.
    Refused {
        /// Number of the set.
        set: SetNumber,
        /// Reason.
        reason: String,
    },
    /// An object of the set is nowhere to be found. Nodes that have it store it again.
    Lacks {
        /// Number of the set.
        set: SetNumber,
        /// Object.
        object: ObjectId,
        /// Number of tries so far, by which another node is asked each time.
        tries: u32,
    },
}

/// Report of a node about itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeReport {
    /// Set that the node runs.
    pub runs: Option<SetNumber>,
    /// Answers about the set that it should run, and the one that it is to run next.
    pub answers: Vec<SetAnswer>,
    /// Revision of the record that the node knows, if the store has an older one and the node may not store
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<u64>,
}

impl NodeReport {
    /// Returns true if the node can run a set, or runs it.
    pub fn has(&self, set: SetNumber) -> bool {
        self.runs == Some(set) || self.answers.contains(&SetAnswer::Ready(set))
    }

    /// Returns the reason for which the node refuses a set.
    pub fn refusal(&self, of: SetNumber) -> Option<&str> {
        self.answers.iter().find_map(|answer| match answer {
            SetAnswer::Refused { set, reason } if *set == of => Some(reason.as_str()),
            _ => None,
        })
    }

    /// Encodes the report.
    ///
    /// # Errors
    ///
    /// Fails if it is too long.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        named_bytes(Vec::new(), self, FrameLimit(MAX_DEPLOYMENT_RECORD))
    }

    /// Decodes a report.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no report, or too long.
    pub fn decode(bytes: &[u8]) -> Result<NodeReport, CodecError> {
        of_named_bytes(bytes, FrameLimit(MAX_DEPLOYMENT_RECORD))
    }
}

/// Returns the beginning of a reason.
pub(crate) fn bounded_reason(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}
