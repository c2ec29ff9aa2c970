//! Counts of writes and reads, and log lines when writes begin to fail and succeed again.
use crate::{StoreError, TraceRateLimit};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Minimum time between log lines of one kind. On a full disk small writes succeed and others fail
/// in turns.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Counts of writes and reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreHealth {
    /// Writes that succeeded.
    pub written: u64,
    /// Writes that failed; their data are missing.
    pub failed: u64,
    /// Writes that failed since the last one that succeeded.
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

    /// Counts a failed read and logs the first one.
    pub(crate) fn not_read(&self, error: &StoreError) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.unread += 1;
        if health.unread == 1 {
            tracing::error!(%error, "store not read");
        }
    }

    /// Counts a write. Logs the first failure and the first success after failures, within a rate
    /// limit.
    pub(crate) fn record(&self, path: &Path, error: Option<&StoreError>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => {
                health.written += 1;
                let lost = std::mem::take(&mut health.failing);
                if lost > 0
                    && let Some(left_out) = self.recoveries.allow(Instant::now())
                {
                    let store = path.display();
                    let failed = health.failed;
                    tracing::warn!(%store, lost, failed, left_out, "store writable again");
                }
            }
            Some(error) => {
                health.failed += 1;
                health.failing += 1;
                if let Some(left_out) = self.failures.allow(Instant::now()) {
                    tracing::error!(%error, left_out, "store not written, data lost until it is writable");
                }
            }
        }
    }
}
