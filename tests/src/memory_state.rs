//! State of a module, in memory.
use peal_model::Status;
use peal_sandbox::StateStore;
use std::{collections::BTreeMap, sync::Mutex};

/// Map of all values that were stored.
#[derive(Default)]
pub struct MemoryState(Mutex<BTreeMap<String, Vec<u8>>>);

impl StateStore for MemoryState {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        self.0
            .lock()
            .unwrap()
            .insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), Status> {
        self.0.lock().unwrap().remove(key);
        Ok(())
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status> {
        Ok(self
            .0
            .lock()
            .unwrap()
            .keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect())
    }
}
