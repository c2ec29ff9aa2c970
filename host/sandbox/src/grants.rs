//! Grants: the capabilities that an admin permits a module.
use crate::Capability;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of capabilities. Other capabilities are not linked, so a module that imports one does not
/// load.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Grants(BTreeSet<Capability>);

impl Grants {
    /// Returns the empty set.
    pub fn none() -> Grants {
        Grants::default()
    }

    /// Returns all capabilities.
    pub fn all() -> Grants {
        Capability::ALL.into_iter().collect()
    }

    /// Returns the grants of a tenant's module if the site configures no others.
    pub fn tenant() -> Grants {
        use Capability::{Clock, Logging, Notify, Random, Registration, Wasi};
        [Logging, Clock, Notify, Registration, Random, Wasi]
            .into_iter()
            .collect()
    }

    /// Returns true if a capability is granted.
    pub fn allows(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
}

impl FromIterator<Capability> for Grants {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Grants {
        Grants(capabilities.into_iter().collect())
    }
}
