//! What must outlive the process, in SQLite: the record of jobs, the state of modules, the calls of administrators,
//! messages that are to be delivered; and in a database of its own the audit trail, with what is on its way there beside it.
//!
//! Everything here blocks; callers on tokio use a blocking thread. Several threads may use one [`Store`], and several
//! processes one file. What was written survives the end of the process, however sudden; if the machine itself goes down,
//! the last moments may be missing, but nothing is half there.
//!
//! **When something is wrong with the file.** A file that is damaged, of another program, of a later Peal or read-only is
//! refused when it is opened, and left as it is. A write that fails later, most often because there is no room, changes
//! nothing: whoever asked gets the error, [`Store::health`] counts it, the first of a row is traced, and so is the first
//! write that succeeds again.

mod admin;
mod database;
mod error;
mod job_entries;
mod jobs;
mod journal_file;
mod layout;
mod modules;
mod outbox;
mod path_checks;
mod record_room;
mod spill;
mod state;
mod trace_limit;
mod trail;
mod trail_use;
mod writes;

pub use admin::{ADMIN_CALLS_KEPT, AdminCall, AdminRecord};
pub use database::DatabaseDurability;
pub use error::StoreError;
pub use job_entries::{
    AddedEntries, JobEntryKind, JobRecordEntry, LONGEST_JOB_ENTRY, LeftOutEntries,
};
pub use jobs::{JOBS_KEPT, JobRecord, JobStart};
pub use journal_file::JournalFile;
pub use modules::{
    ComponentDigest, ModuleOverride, ModulePart, ModuleVersion, NewPart, NewVersion,
};
pub use outbox::{OutboxBounds, OutboxMessage, SinkQueue, SinkQueues};
pub use record_room::{RecordLimit, RecordLimits};
pub use spill::{Spill, SpillError};
pub use state::{ENTRY_BYTES, ModuleStateStore, StateScope};
pub use trace_limit::TraceRateLimit;
pub use trail::{Blob, Filter, Room, Seal, SealKind, Trail, TrailRow, TrailSettings};
pub use trail_use::{DroppedRows, Outline, RowClass, UsedBytes};
pub use writes::StoreHealth;

use database::Database;
use rusqlite::{Connection, Transaction};
use std::{path::Path, time::Duration};

/// How long another process may hold the database before a write fails.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Limits of a store; all of them settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreSettings {
    /// How large the database may become, in bytes. Its log of writes, beside it, takes a few million more.
    pub max_bytes: u64,
    /// How much of it the records of jobs may take.
    pub records: RecordLimits,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings {
            max_bytes: 1 << 30,
            records: RecordLimits::default(),
        }
    }
}

/// The store.
#[derive(Debug)]
pub struct Store {
    database: Database,
    records: RecordLimits,
}

impl Store {
    /// Opens a store, making its file if there is none (readable by its owner only), and brings one of an earlier Peal up
    /// to date. Nobody but root and this user may be able to write there or to put another file in its place.
    pub fn open(path: &Path, settings: StoreSettings) -> Result<Store, StoreError> {
        let database = Database::open(
            path,
            settings.max_bytes,
            &layout::STORE,
            DatabaseDurability::Process,
        )?;
        Ok(Store {
            database,
            records: settings.records,
        })
    }

    /// How writing and reading go.
    pub fn health(&self) -> StoreHealth {
        self.database.health()
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.read(work)
    }

    /// Writes all of it or nothing.
    fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.write(work)
    }
}

/// SQLite's integers are signed; times and sizes stay far below the difference.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
