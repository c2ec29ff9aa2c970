//! The store: data that must outlive the process, in SQLite. It holds the record of jobs, the state
//! of modules, the calls of admins and messages to be delivered. The audit trail has a database of
//! its own, with its journal beside it.
//!
//! All functions block; callers on tokio use a blocking thread. Several threads may use one
//! [`Store`], and several processes one file. Written data survive the end of the process. After a
//! crash of the machine the last writes may be missing, but none is there in part.
//!
//! **Errors.** A file that is damaged, of another program, of a later Peal or read-only is refused
//! when it is opened, and not changed. A write that fails later, most often for lack of space,
//! changes nothing: the caller gets the error and [`Store::health`] counts it. The first failure of
//! a series is logged, and so is the first write that succeeds again.

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
mod record_budget;
mod spill;
mod state;
mod trace_limit;
mod trail;
mod trail_use;
mod writes;

pub use admin::{ADMIN_CALLS_KEPT, AdminCall, AdminRecord};
pub use database::DatabaseDurability;
pub use error::StoreError;
pub use job_entries::{AddedEntries, JobEntryKind, JobRecordEntry, LeftOutEntries};
pub use jobs::{JOBS_KEPT, JobRecord, JobStart};
pub use journal_file::{JournalFile, JournalPart};
pub use modules::{
    ComponentDigest, ModuleOverride, ModulePart, ModuleVersion, NewPart, NewVersion,
};
pub use outbox::{OutboxBounds, OutboxMessage, SinkQueue, SinkQueues};
pub use record_budget::{LONGEST_JOB_ENTRY, RecordLimit, RecordLimits, RecordUsage};
pub use spill::{Spill, SpillError, SpillIndex, SpillParts};
pub use state::{ENTRY_BYTES, ModuleStateStore, StateScope};
pub use trace_limit::TraceRateLimit;
pub use trail::{Blob, Filter, Seal, SealKind, Trail, TrailRow, TrailSettings, TrailSize};
pub use trail_use::{DroppedRows, RowClass, RowSummary, UsedBytes};
pub use writes::StoreHealth;

use database::{Database, Room};
use rusqlite::{Connection, Transaction};
use std::{path::Path, time::Duration};

/// Time for which another process may lock the database before a write fails.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Limits of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreSettings {
    /// Maximum size of the database in bytes. A sixteenth is reserved for calls of admins, starts
    /// and ends of jobs, and versions of modules. The write-ahead log beside it takes a few MB more.
    pub max_bytes: u64,
    /// Maximum size of the messages of all sinks, in bytes.
    pub mail_bytes: u64,
    /// Maximum size of the state of all modules, in bytes. An eighth is reserved for modules of the
    /// site.
    pub state_bytes: u64,
    /// Maximum size of the calls of admins, in bytes. The oldest calls are removed.
    pub admin_bytes: u64,
    /// Limits of the records of jobs.
    pub records: RecordLimits,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings {
            max_bytes: 2 << 30,
            mail_bytes: 128 << 20,
            state_bytes: 128 << 20,
            admin_bytes: 128 << 20,
            records: RecordLimits::default(),
        }
    }
}

/// The store.
#[derive(Debug)]
pub struct Store {
    database: Database,
    settings: StoreSettings,
}

impl Store {
    /// Opens a store, creates its file if it is missing (readable by its owner only), and migrates
    /// one of an earlier Peal. Only root and this user may be able to write there or to replace the
    /// file.
    pub fn open(path: &Path, settings: StoreSettings) -> Result<Store, StoreError> {
        let database = Database::open(
            path,
            settings.max_bytes,
            &layout::STORE,
            DatabaseDurability::Process,
        )?;
        Ok(Store { database, settings })
    }

    /// Returns counts of writes and reads.
    pub fn health(&self) -> StoreHealth {
        self.database.health()
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.read(work)
    }

    /// Runs `work`, which stores data that users cause, in a transaction.
    fn write_for_users<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.write_within(Room::Users, work)
    }

    /// Runs `work` in a transaction.
    fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.database.write(work)
    }
}

/// Converts a number for SQLite, whose integers are signed. Times and sizes are far below the
/// difference.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
