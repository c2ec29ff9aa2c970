//! How writing goes, and reading: what is counted, and what is told when it begins to fail and when it succeeds again.
use crate::StoreError;
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

/// How writing has gone so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Writes that succeeded.
    pub written: u64,
    /// Writes that failed: what they would have recorded is missing.
    pub failed: u64,
    /// How many of these failed one after the other up to now; none while writing works.
    pub failing: u64,
    /// Reads that failed.
    pub unread: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Writes(Mutex<Health>);

impl Writes {
    pub(crate) fn health(&self) -> Health {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a read that failed, and traces the first.
    pub(crate) fn not_read(&self, error: &StoreError) {
        let mut health = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        health.unread += 1;
        if health.unread == 1 {
            tracing::error!(%error, "the store cannot be read");
        }
    }

    /// Counts a write, and traces it if it is the first that fails or the first that succeeds again.
    pub(crate) fn record(&self, path: &Path, error: Option<&StoreError>) {
        let mut health = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => {
                health.written += 1;
                let lost = std::mem::take(&mut health.failing);
                if lost > 0 {
                    tracing::warn!(store = %path.display(), lost, "the store can be written again");
                }
            }
            Some(error) => {
                health.failed += 1;
                health.failing += 1;
                if health.failing == 1 {
                    tracing::error!(%error, "the store cannot be written: what belongs there is lost until it can be");
                }
            }
        }
    }
}
