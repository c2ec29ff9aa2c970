//! Data of a module that its records refer to.
use crate::{EntryError, ModuleFacts, entry::to_cbor};
use peal_sandbox::Digest;
use std::sync::Arc;

/// Data that are stored once for all calls of a module.
pub(crate) struct ModuleRecord {
    /// The name of the module.
    pub(crate) name: String,
    /// The digest of the module's facts.
    pub(crate) digest: Digest,
    /// The module's facts in CBOR.
    pub(crate) facts: Vec<u8>,
    /// The module's component and its digest.
    pub(crate) component: (Digest, Arc<[u8]>),
}

impl ModuleRecord {
    /// Returns the blobs that the records refer to.
    pub(crate) fn blobs(&self) -> [([u8; 32], &[u8]); 2] {
        [
            (self.digest.0, &self.facts),
            (self.component.0.0, &self.component.1),
        ]
    }

    /// Serializes the facts of a module.
    pub(crate) fn new(
        facts: &ModuleFacts,
        component: Arc<[u8]>,
    ) -> Result<ModuleRecord, EntryError> {
        let bytes = to_cbor(facts)?;
        let component = (facts.digest, component);
        Ok(ModuleRecord {
            name: facts.name.clone(),
            digest: Digest::of(&bytes),
            facts: bytes,
            component,
        })
    }
}
