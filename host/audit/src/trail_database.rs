//! The database's side of the trail: what is in it, and what is in the journal and not yet here.
use crate::{
    AuditError, DropSummary, Keys, Statement, TrailRetention, decision_room::DecisionRoom,
    hash_chain::ChainHead, now, retention::Need,
};
use peal_store::{Blob, Seal, SealKind, StoreError, TraceRateLimit, Trail, TrailRow};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// What came of moving records from the journal into the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// They are there.
    Moved,
    /// There were none, so that nothing was written.
    Nothing,
}

/// The least time between two lines on records that cannot be dropped. On a disk that is full each write tries it.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// The database, and what it is owed.
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

    /// These are in the journal.
    pub(crate) fn owe(&mut self, rows: Vec<TrailRow>) {
        self.owed.extend(rows);
    }

    /// Whether something is in the journal alone.
    pub(crate) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes what is owed, and these records behind it, the last of which is `head`: all of it or nothing.
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

    /// Writes what is owed.
    pub(crate) fn settle(&mut self) -> Result<Settled, StoreError> {
        let Some((seq, hash)) = self.owed.last().map(|row| (row.seq, row.hash)) else {
            return Ok(Settled::Nothing);
        };
        self.write(&[], &[], (seq, hash), None)
            .map(|()| Settled::Moved)
    }

    /// Drops what is to go now; tells what went.
    pub(crate) fn drop_old(&self, retention: TrailRetention, need: Need) -> Option<DropSummary> {
        self.told(retention.apply(&self.trail, &self.keys, need))
            .flatten()
    }

    /// Tells what users have of the room, and whether there is enough.
    pub(crate) fn measure(&self, retention: TrailRetention, room: &mut DecisionRoom) {
        let measured = || Ok((self.trail.used()?, retention.supply(&self.trail)?));
        if let Some((used, supply)) = self.told(measured()) {
            room.set(&used, supply);
        }
    }

    fn told<T>(&self, done: Result<T, AuditError>) -> Option<T> {
        let tell = |error: &AuditError| {
            if let Some(left_out) = self.failures.allow(Instant::now()) {
                tracing::error!(%error, left_out, "old records of the audit trail cannot be dropped");
            }
        };
        done.inspect_err(tell).ok()
    }
}
