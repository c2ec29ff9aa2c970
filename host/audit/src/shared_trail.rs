//! State of a trail that can be read while the trail is written.
use crate::{AuditHealth, AuditSettings, WriteFailure, refusals::GroupedDenials};
use peal_core::choice::RecordFailurePolicy;
use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Instant,
};

/// State that can be read while the trail is written.
pub(crate) struct SharedTrail {
    pub(crate) run: u64,
    pub(crate) handlers: NonZeroU32,
    /// Calls left out for lack of room since the last `Gap` entry.
    pub(crate) left_out: AtomicU64,
    health: Mutex<AuditHealth>,
    /// The last failed write, kept after later writes succeed.
    failed: Mutex<Option<FailedWrite>>,
    on_failure: RecordFailurePolicy,
    pub(crate) refusals: GroupedDenials,
}

/// A failed write.
#[derive(Clone)]
pub(crate) struct FailedWrite {
    error: String,
    pub(crate) at: Instant,
}

impl SharedTrail {
    /// Creates the state of a run that begins at this record.
    pub(crate) fn new(run: u64, settings: &AuditSettings) -> SharedTrail {
        SharedTrail {
            run,
            handlers: settings.handlers,
            left_out: AtomicU64::new(0),
            health: Mutex::default(),
            failed: Mutex::default(),
            on_failure: settings.on_failure,
            refusals: GroupedDenials::new(settings.refusal_interval),
        }
    }

    /// Locks the health.
    pub(crate) fn health(&self) -> MutexGuard<'_, AuditHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the last failed write.
    pub(crate) fn set_last_failure(&self, error: String, at: Instant) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(FailedWrite { error, at });
    }

    /// Returns the last failed write.
    pub(crate) fn last_failure(&self) -> Option<FailedWrite> {
        self.failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the failure for callers.
    pub(crate) fn failure(&self, last: FailedWrite) -> WriteFailure {
        WriteFailure {
            error: last.error,
            on_failure: self.on_failure,
        }
    }
}
