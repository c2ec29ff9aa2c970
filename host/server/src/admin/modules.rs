//! The modules of a running server as they are said on the admin socket: what can be done with them, and how they are.
use super::chain::ChainOwner;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// What can be asked about the modules of a running server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ModuleCall {
    /// Which there are, and how they are.
    List,
    /// Run a module no more until it is enabled again, also after a restart where there is a store.
    Disable {
        /// Its name.
        name: String,
    },
    /// Run a module again that was disabled.
    Enable {
        /// Its name.
        name: String,
    },
    /// Call a module again that was quarantined.
    Reset {
        /// Its name.
        name: String,
    },
    /// What was seen of a shadow.
    Diff {
        /// Its name.
        name: String,
    },
    /// Have a shadow take part from now on.
    Promote {
        /// Its name.
        name: String,
    },
    /// Run the modules of an earlier version again.
    Rollback {
        /// Its number; none means the one before.
        to: Option<u64>,
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
        }
    }
}

/// The modules of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleList {
    /// The version that runs.
    pub version: u64,
    /// The modules, in the order of the configuration; then those that jobs have brought.
    pub modules: Vec<ModuleStatus>,
    /// The versions that can be returned to, the latest first; the one that runs is among them.
    pub versions: Vec<VersionStatus>,
    /// Users whose modules stay as they are, since what they installed cannot be used, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<UserRefused>,
}

/// A user whose modules stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserRefused {
    /// Who.
    pub uid: u32,
    /// What is wrong with what they installed.
    pub why: String,
}

impl fmt::Display for UserRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "what user {} installed cannot be used, what they had before stays:\n{}",
            self.uid, self.why
        )
    }
}

/// How a module is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleStatus {
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub owner: ChainOwner,
    /// The roles that it fills.
    pub roles: Vec<String>,
    /// How it is.
    pub state: ModuleState,
    /// The digest of its component.
    pub sha256: String,
    /// How often it failed within its window.
    #[serde(default)]
    pub failures: usize,
    /// How it failed last; nothing if it has not, of late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Bytes of memory that its instances take.
    #[serde(default)]
    pub memory: usize,
    /// Where its component was read; none for what a job brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Who signed its component, of those who are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<ModuleSigner>,
}

/// Who signed a component.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleSigner {
    /// The id of their key, as `minisign` shows it.
    pub key: String,
    /// What they said of it.
    pub comment: String,
}

/// How a module is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleState {
    /// It is called.
    Active,
    /// It only looks on.
    Shadow,
    /// An administrator has disabled it.
    Disabled,
    /// There is no job yet that it is for.
    Waiting,
    /// A user installed it, and it is not yet compiled and started.
    Compiling,
    /// It has failed too often and is not called.
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
            ModuleState::Quarantined => "quarantined",
        })
    }
}

/// A set of modules that runs or has run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VersionStatus {
    /// Its number.
    pub version: u64,
    /// Since when, in seconds since the epoch.
    pub at: u64,
    /// What led to it.
    pub cause: String,
    /// The names of its modules.
    pub modules: Vec<String>,
}

/// What was seen of a shadow, since its component is there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShadowReport {
    /// Whose it is.
    pub owner: ChainOwner,
    /// The digest of its component.
    pub sha256: String,
    /// Since when it looks on, in seconds since the epoch.
    pub since: u64,
    /// How often it was called.
    pub calls: u64,
    /// How many of these failed.
    pub failed: u64,
    /// How often it was not called, since it would have had to wait too long.
    pub missed: u64,
    /// How many calls would have come to something else.
    pub differed: u64,
    /// How often it gave which answer.
    pub answers: BTreeMap<String, u64>,
    /// The latest calls that would have come to something else.
    pub differences: Vec<ShadowDifference>,
}

/// A call that would have come to something else.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShadowDifference {
    /// When, in seconds since the epoch.
    pub at: u64,
    /// What it was about.
    pub about: String,
    /// What happened.
    pub actual: String,
    /// What would have.
    pub would: String,
}

/// What was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deployed {
    /// The version that runs from now on.
    pub version: u64,
    /// What differs from the one before; nothing if it is still that one.
    pub changes: Vec<ModuleChange>,
}

/// What became of a module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ModuleChange {
    /// Its name.
    pub name: String,
    /// What became of it.
    pub what: ChangeKind,
}

/// What becomes of modules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It came.
    Added,
    /// It went.
    Removed,
    /// An administrator disabled it.
    Disabled,
    /// An administrator enabled it again.
    Enabled,
    /// Its component is another.
    Replaced,
    /// Its settings are others.
    Configured,
    /// It stands elsewhere among the others.
    Moved,
    /// It takes part, where it only looked on.
    Promoted,
    /// It is called again, where it was quarantined.
    Reset,
}

impl fmt::Display for ModuleChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            ChangeKind::Added => "added",
            ChangeKind::Removed => "removed",
            ChangeKind::Disabled => "disabled",
            ChangeKind::Enabled => "enabled",
            ChangeKind::Replaced => "replaced",
            ChangeKind::Configured => "configured anew",
            ChangeKind::Moved => "moved",
            ChangeKind::Promoted => "takes part from now on",
            ChangeKind::Reset => "is called again",
        };
        write!(f, "module {:?} {what}", self.name)
    }
}
