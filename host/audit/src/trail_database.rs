//! The database of the trail, and the journalled records that it does not have yet.
use crate::{
    AuditError, DropSummary, Keys, Statement, TrailRetention, decision_budget::DecisionBudget,
    hash_chain::ChainHead, now, retention::DropReason,
};
use peal_store::{Blob, Seal, SealKind, StoreError, TraceRateLimit, Trail, TrailRow};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Result of moving records from the journal into the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JournalMove {
    /// Records were moved.
    Moved,
    /// There were none; nothing was written.
    Nothing,
}

/// Minimum time between log lines about records that cannot be dropped. On a full disk each write
/// tries it.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// The database and the records that are to be moved into it.
pub(crate) struct TrailDatabase {
    trail: Trail,
    keys: Arc<Keys>,
    owed: Vec<TrailRow>,
    failures: TraceRateLimit,
}

impl TrailDatabase {
    pub(crate) fn new(trail: Trail, keys: Arc<Keys>, owed: Vec<TrailRow>) -> TrailDatabase {
        TrailDatabase {
            trail,
            keys,
            owed,
            failures: TraceRateLimit::new(BETWEEN_LINES),
        }
    }

    /// Adds journalled records that are to be moved.
    pub(crate) fn add_journalled(&mut self, rows: Vec<TrailRow>) {
        self.owed.extend(rows);
    }

    /// Returns true if some records are only in the journal.
    pub(crate) fn has_journalled(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes the journalled records and then `rows`, which end with `head`, in one transaction.
    pub(crate) fn write(
        &mut self,
        rows: &[TrailRow],
        blobs: &[Blob<'_>],
        head: ChainHead,
        checkpoint: Option<&Seal>,
    ) -> Result<(), StoreError> {
        let head = Statement::sealed(SealKind::Head, head, now(), &self.keys);
        self.trail
            .append(self.owed.iter().chain(rows), blobs, &head, checkpoint)?;
        self.owed.clear();
        Ok(())
    }

    /// Writes the journalled records.
    pub(crate) fn write_journalled(&mut self) -> Result<JournalMove, StoreError> {
        let Some((seq, hash)) = self.owed.last().map(|row| (row.seq, row.hash)) else {
            return Ok(JournalMove::Nothing);
        };
        self.write(&[], &[], (seq, hash), None)
            .map(|()| JournalMove::Moved)
    }

    /// Drops records that are due and returns a summary of them.
    pub(crate) fn drop_old(
        &self,
        retention: TrailRetention,
        need: DropReason,
    ) -> Option<DropSummary> {
        self.log_failure(retention.apply(&self.trail, &self.keys, need))
            .flatten()
    }

    /// Updates the users' shares and the supply of space.
    pub(crate) fn measure(&self, retention: TrailRetention, budget: &mut DecisionBudget) {
        let measured = || Ok((self.trail.used()?, retention.supply(&self.trail)?));
        if let Some((used, supply)) = self.log_failure(measured()) {
            budget.set(&used, supply);
        }
    }

    fn log_failure<T>(&self, done: Result<T, AuditError>) -> Option<T> {
        let log = |error: &AuditError| {
            if let Some(left_out) = self.failures.allow(Instant::now()) {
                tracing::error!(%error, left_out, "old audit records not dropped");
            }
        };
        done.inspect_err(log).ok()
    }
}
