//! The database of the trail, and the journalled records that it does not have yet.
use crate::{
    AuditError, DropSummary, Statement, TrailRetention,
    hash_chain::{ChainHead, ChainLink},
    retention::DropReason,
    signer::{OpenSigner, message::WantedSeals},
    trail_budget::TrailBudget,
};
use peal_store::{Blob, SealKind, TraceRateLimit, Trail, TrailRow};
use std::time::{Duration, Instant};

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
    signer: OpenSigner,
    /// The last record in the database.
    head: ChainHead,
    owed: Vec<TrailRow>,
    failures: TraceRateLimit,
}

impl TrailDatabase {
    /// Uses a database that ends with `head`.
    pub(crate) fn new(
        trail: Trail,
        signer: OpenSigner,
        head: ChainHead,
        owed: Vec<TrailRow>,
    ) -> TrailDatabase {
        TrailDatabase {
            trail,
            signer,
            head,
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

    /// Seals the journalled records and then `rows`, and writes them in one transaction. Returns the
    /// trail checkpoint, if one is wanted.
    pub(crate) fn write(
        &mut self,
        rows: &[TrailRow],
        blobs: &[Blob<'_>],
        wanted: WantedSeals,
    ) -> Result<Option<Statement>, AuditError> {
        let all = || self.owed.iter().chain(rows);
        let links = all().map(ChainLink::of).collect();
        let sealed = self.signer.extend(self.head, links, wanted)?;
        self.trail
            .append(all(), blobs, &sealed.head, sealed.checkpoint.as_ref())?;
        self.head = (sealed.head.seq, sealed.head.hash);
        self.signer.commit(sealed.head);
        self.owed.clear();
        Ok(sealed
            .checkpoint
            .map(|seal| Statement::of(SealKind::Checkpoint, seal)))
    }

    /// Writes the journalled records.
    pub(crate) fn write_journalled(&mut self) -> Result<JournalMove, AuditError> {
        if self.owed.is_empty() {
            return Ok(JournalMove::Nothing);
        }
        self.write(&[], &[], WantedSeals::Head)
            .map(|_| JournalMove::Moved)
    }

    /// Drops records that are due and returns a summary of them.
    pub(crate) fn drop_old(
        &self,
        retention: TrailRetention,
        need: DropReason,
    ) -> Option<DropSummary> {
        self.log_failure(retention.apply(&self.trail, &self.signer, need))
            .flatten()
    }

    /// Updates the users' shares and the supply of space.
    pub(crate) fn measure(&self, retention: TrailRetention, budget: &mut TrailBudget) {
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
