//! What the host lends a module so that it can do what it was granted: the sinks that an admin opened for it, its state.
use crate::Sink;
use peal_model::Status;
use std::{collections::BTreeMap, fmt, sync::Arc};

/// What stands behind the capabilities `sink` and `state` of one module.
#[derive(Clone, Default)]
pub struct Services {
    /// The sinks that it may write to, by the names that its admin gave them.
    pub sinks: BTreeMap<String, Arc<dyn Sink>>,
    /// Its state; without it, `state` refuses with `PMIX_ERR_NOT_AVAILABLE`.
    pub state: Option<Arc<dyn State>>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("sinks", &self.sinks.keys()).finish_non_exhaustive()
    }
}

/// A module's small store of keys and values, which survives restarts: already that of one module and scope, and with
/// its quota. Called on a guest thread.
pub trait State: Send + Sync {
    /// The value of a key, if there is one.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status>;
    /// Sets a key. `PMIX_ERR_OUT_OF_RESOURCE` where the quota does not allow it; then nothing changes.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status>;
    /// Drops a key, if it is there.
    fn delete(&self, key: &str) -> Result<(), Status>;
    /// All keys that begin with this, in their order.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status>;
}
