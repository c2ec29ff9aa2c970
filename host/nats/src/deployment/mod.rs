//! Deployment of modules in a cluster: what the state of one server wants, carried out on NATS.
mod exchange;
mod objects;
mod task;

pub use exchange::{
    DeploymentChange, DeploymentError, DeploymentStatus, FetchedModule, FetchedSet, ModuleExchange,
    ModuleWork,
};
pub use objects::{MAX_OBJECT_BYTES, ObjectError, object_id};

use crate::link::NatsLink;
use objects::ObjectStore;
use peal_cluster::{ClusterModuleSet, ObjectId};
use peal_model::NodeName;

impl NatsLink {
    /// Stores an object of this node.
    ///
    /// # Errors
    ///
    /// Fails if it is too large, or the NATS server does not store it.
    pub async fn store_object(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        ObjectStore::new(&self.client, &self.subjects, &self.node)
            .store(bytes)
            .await
    }

    /// Fetches a module set that one of these nodes has stored.
    ///
    /// # Errors
    ///
    /// Fails if none has, or the bytes are no set.
    pub async fn fetch_set(
        &self,
        object: &ObjectId,
        sources: &[NodeName],
    ) -> Result<ClusterModuleSet, ObjectError> {
        let store = ObjectStore::new(&self.client, &self.subjects, &self.node);
        objects::module_set(&store.fetch(object, sources).await?)
    }
}
