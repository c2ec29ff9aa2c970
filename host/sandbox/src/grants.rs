//! Grants: which capabilities an admin permits a module.
use crate::Capability;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A set of capabilities. What is not in it is not linked, so a module that imports it does not load.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Grants(BTreeSet<Capability>);

impl Grants {
    /// Nothing beyond the call at hand.
    pub fn none() -> Grants {
        Grants::default()
    }

    /// Everything.
    pub fn all() -> Grants {
        Capability::ALL.into_iter().collect()
    }

    /// What a tenant's own module may have unless the site says otherwise.
    pub fn tenant() -> Grants {
        use Capability::{Clock, Logging, Notify, Random, Registration, Wasi};
        [Logging, Clock, Notify, Registration, Random, Wasi]
            .into_iter()
            .collect()
    }

    /// Whether this capability is granted.
    pub fn allows(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
}

impl FromIterator<Capability> for Grants {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Grants {
        Grants(capabilities.into_iter().collect())
    }
}
