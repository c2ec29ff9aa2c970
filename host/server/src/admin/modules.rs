//! Representation of the modules of a running server on the admin socket: requests and states.
use super::{
    chain::ChainOwner,
    cluster_modules::{ClusterModuleCall, ClusterModuleList},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Request about the modules of a running server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ModuleCall {
    /// Lists the modules and their states.
    List,
    /// Disables a module until it is enabled again; with a store, also after a restart.
    Disable {
        /// Name of the module.
        name: String,
    },
    /// Enables a disabled module.
    Enable {
        /// Name of the module.
        name: String,
    },
    /// Lifts the quarantine of a module.
    Reset {
        /// Name of the module.
        name: String,
    },
    /// Reports the calls of a shadow module.
    Diff {
        /// Name of the module.
        name: String,
    },
    /// Makes a shadow module an active one.
    Promote {
        /// Name of the module.
        name: String,
    },
    /// Activates the modules of an earlier set version.
    Rollback {
        /// Number of the set version; none for the previous one.
        to: Option<u64>,
    },
    /// Changes the modules of the cluster.
    Cluster {
        /// Change.
        call: ClusterModuleCall,
    },
}

impl fmt::Display for ModuleCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModuleCall::List => f.write_str("modules"),
            ModuleCall::Disable { name } => write!(f, "disable module {name:?}"),
            ModuleCall::Enable { name } => write!(f, "enable module {name:?}"),
            ModuleCall::Reset { name } => write!(f, "reset module {name:?}"),
            ModuleCall::Diff { name } => write!(f, "differences of module {name:?}"),
            ModuleCall::Promote { name } => write!(f, "promote module {name:?}"),
            ModuleCall::Rollback { to: Some(version) } => {
                write!(f, "rollback modules to version {version}")
            }
            ModuleCall::Rollback { to: None } => f.write_str("rollback modules"),
            ModuleCall::Cluster { call } => call.fmt(f),
        }
    }
}

/// Modules of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleList {
    /// Number of the active set version.
    pub version: u64,
    /// Modules in the order of the configuration, followed by job-supplied ones.
    pub modules: Vec<ModuleStatus>,
    /// Set versions that a rollback can select, the latest first; the active one is included.
    pub versions: Vec<VersionStatus>,
    /// Users whose installed modules were refused, so that their previous modules stay active, with
    /// the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<UserRefused>,
    /// Modules of the cluster; none for a server without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterModuleList>,
}

/// User whose installed modules were refused. The previous ones stay active.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserRefused {
    /// User id.
    pub uid: u32,
    /// Reason of the refusal.
    pub why: String,
}

impl fmt::Display for UserRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "modules of user {} refused, the previous ones stay active:\n{}",
            self.uid, self.why
        )
    }
}

/// State of a module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// Name of the module.
    pub name: String,
    /// Owner of the module.
    pub owner: ChainOwner,
    /// Roles of the module.
    pub roles: Vec<String>,
    /// Operating state of the module.
    pub state: ModuleState,
    /// SHA-256 digest of the component.
    pub sha256: String,
    /// Number of failures within the failure window.
    #[serde(default)]
    pub failures: usize,
    /// Latest failure within the failure window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Memory of the instances, in bytes.
    #[serde(default)]
    pub memory: usize,
    /// Path of the component; none for a job-supplied module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Trusted signer of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<ModuleSigner>,
    /// Capabilities, sinks and directories that the module may use. Empty if the component is not known yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<String>,
}

/// Signer of a component.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleSigner {
    /// Id of the key, as `minisign` shows it.
    pub key: String,
    /// Trusted comment of the signature.
    pub comment: String,
}

/// Operating state of a module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleState {
    /// The module is called.
    Active,
    /// The module is called on live traffic, and its outcome is ignored.
    Shadow,
    /// An admin has disabled the module.
    Disabled,
    /// No job that the module is for is registered yet.
    Waiting,
    /// A user installed the module, and it is not compiled and started yet.
    Compiling,
    /// The artefact of the module is not in the store yet and is fetched.
    Fetching,
    /// The module is not called because it has failed repeatedly.
    Quarantined,
}

impl fmt::Display for ModuleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModuleState::Active => "active",
            ModuleState::Shadow => "shadow",
            ModuleState::Disabled => "disabled",
            ModuleState::Waiting => "waiting",
            ModuleState::Compiling => "compiling",
            ModuleState::Fetching => "fetching",
            ModuleState::Quarantined => "quarantined",
        })
    }
}

/// Set of modules that runs or has run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionStatus {
    /// Number of the set version.
    pub version: u64,
    /// Time of its deployment, in seconds since the epoch.
    pub at: u64,
    /// Cause of its deployment.
    pub cause: String,
    /// Names of the modules.
    pub modules: Vec<String>,
}

/// Report about a shadow module since its component was loaded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShadowReport {
    /// Owner of the module.
    pub owner: ChainOwner,
    /// SHA-256 digest of the component.
    pub sha256: String,
    /// Time of the start of the report, in seconds since the epoch.
    pub since: u64,
    /// Number of calls.
    pub calls: u64,
    /// Number of calls that failed.
    pub failed: u64,
    /// Number of calls that were skipped because too many were waiting.
    pub missed: u64,
    /// Number of calls whose outcome would have changed the result.
    pub differed: u64,
    /// Number of calls by outcome.
    pub answers: BTreeMap<String, u64>,
    /// Latest calls whose outcome would have changed the result.
    pub differences: Vec<ShadowDifference>,
}

/// Call whose outcome would have changed the result.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShadowDifference {
    /// Time of the call, in seconds since the epoch.
    pub at: u64,
    /// Description of the request or event.
    pub about: String,
    /// Result without the shadow module.
    pub actual: String,
    /// Result if the shadow module had been active.
    pub would: String,
}

/// Result of a deployment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deployed {
    /// Number of the set version that is active now.
    pub version: u64,
    /// Changes since the previous set version; empty if it is still active.
    pub changes: Vec<ModuleChange>,
}

/// Change of a module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleChange {
    /// Name of the module.
    pub name: String,
    /// Kind of the change.
    pub what: ChangeKind,
}

/// Kind of a change of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// The module is new.
    Added,
    /// The module was removed.
    Removed,
    /// An admin disabled the module.
    Disabled,
    /// An admin enabled the module again.
    Enabled,
    /// The module has another component.
    Replaced,
    /// The module has other settings.
    Configured,
    /// The module has another placement.
    Moved,
    /// The shadow module became active.
    Promoted,
    /// The quarantine of the module was lifted.
    Reset,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Disabled => "disabled",
            ChangeKind::Enabled => "enabled",
            ChangeKind::Replaced => "replaced",
            ChangeKind::Configured => "reconfigured",
            ChangeKind::Moved => "moved",
            ChangeKind::Promoted => "promoted",
            ChangeKind::Reset => "reset",
        })
    }
}

impl fmt::Display for ModuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module {:?} {}", self.name, self.what)
    }
}
