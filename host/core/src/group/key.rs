//! Identification of groups.
use peal_model::{NamedProcs, Text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Identifier of a group. Each user has a name space of their own, so no user can take another's
/// names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct GroupKey {
    /// The user that the members run as.
    pub uid: u32,
    /// The name.
    pub name: GroupName,
}

/// The name of a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GroupName {
    /// The name that procs gave it.
    Called(Text),
    /// The set of procs of a connect (`PMIx_Connect`), which is no group to them.
    Connected(NamedProcs),
}

impl GroupName {
    /// Returns the name that procs gave the group, if it is a group to them.
    pub fn called(&self) -> Option<&Text> {
        match self {
            GroupName::Called(name) => Some(name),
            GroupName::Connected(_) => None,
        }
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupName::Called(name) => write!(f, "{name:?}"),
            GroupName::Connected(procs) => write!(f, "of {} connecting procs", procs.len()),
        }
    }
}
