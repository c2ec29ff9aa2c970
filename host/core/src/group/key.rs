//! Which group it is.
use peal_model::{NamedProcs, Text};
use std::fmt;

/// Which group: users have names of their own, so that nobody takes another's.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// As whom its procs run.
    pub uid: u32,
    /// What it is known by.
    pub name: GroupName,
}

/// What a group is known by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupName {
    /// Procs call it so.
    Called(Text),
    /// Procs that are connected, or want to be (`PMIx_Connect`), by the set that they name: to them it is no group.
    Connected(NamedProcs),
}

impl GroupName {
    /// What procs call it, if it is a group to them.
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
            GroupName::Connected(procs) => write!(f, "of {} that connect", procs.len()),
        }
    }
}
