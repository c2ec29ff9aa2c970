//! How writing goes, and reading: what is counted, and what is told when it begins to fail and when it succeeds again.
use crate::{StoreError, TraceRateLimit};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The least time between two lines of one kind. On a disk that is full small writes succeed and others fail, in turns.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// How writing has gone so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreHealth {
    /// Writes that succeeded.
    pub written: u64,
    /// Writes that failed: what they would have recorded is missing.
    pub failed: u64,
    /// How many of these failed one after the other up to now; none while writing works.
    pub failing: u64,
    /// Reads that failed.
    pub unread: u64,
}

#[derive(Debug)]
pub(crate) struct Writes {
    health: Mutex<StoreHealth>,
    failures: TraceRateLimit,
    recoveries: TraceRateLimit,
}

impl Default for Writes {
    fn default() -> Writes {
        let limit = || TraceRateLimit::new(BETWEEN_LINES);
        Writes {
            health: Mutex::default(),
            failures: limit(),
            recoveries: limit(),
        }
    }
}

impl Writes {
    pub(crate) fn health(&self) -> StoreHealth {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a read that failed, and traces the first.
    pub(crate) fn not_read(&self, error: &StoreError) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.unread += 1;
        if health.unread == 1 {
            tracing::error!(%error, "the store cannot be read");
        }
    }

    /// Counts a write. Traces that writing fails and that it succeeds again, each no more often than may be.
    pub(crate) fn record(&self, path: &Path, error: Option<&StoreError>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => {
                health.written += 1;
                let lost = std::mem::take(&mut health.failing);
                if lost > 0
                    && let Some(left_out) = self.recoveries.allow(Instant::now())
                {
                    let (store, failed) = (path.display(), health.failed);
                    tracing::warn!(%store, lost, failed, left_out, "the store can be written again");
                }
            }
            Some(error) => {
                health.failed += 1;
                health.failing += 1;
                if let Some(left_out) = self.failures.allow(Instant::now()) {
                    tracing::error!(%error, left_out, "the store cannot be written: what belongs there is lost until it can be");
                }
            }
        }
    }
}
