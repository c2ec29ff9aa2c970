//! What must outlive the process, in SQLite: the record of jobs, the state of modules, and the calls of administrators.
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
mod error;
mod jobs;
mod layout;
mod modules;
mod place;
mod spill;
mod state;
mod writes;

pub use admin::{ADMIN_CALLS_KEPT, AdminCall, AdminRecord};
pub use error::StoreError;
pub use jobs::{JOBS_KEPT, JobRecord};
pub use modules::{ComponentDigest, ModuleOverride, ModuleVersion, NewVersion};
pub use spill::{Spill, SpillError};
pub use state::{ENTRY_BYTES, ModuleState, Scope};
pub use writes::Health;

use rusqlite::{Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};
use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use writes::Writes;

/// How long another process may hold the database before a write fails.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// How long the log of writes may stay, in bytes, once its content is in the database.
const LOG_BYTES: u32 = 4 << 20;

/// Limits of a store; all of them settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreSettings {
    /// How large the database may become, in bytes. Its log of writes, beside it, takes a few million more.
    pub max_bytes: u64,
}

impl Default for StoreSettings {
    fn default() -> Self {
        StoreSettings { max_bytes: 1 << 30 }
    }
}

/// The store.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Mutex<Connection>,
    writes: Writes,
}

/// Has writes go to a log first, and says how they really go. For this alone SQLite does not wait for others who have the file
/// open just now.
fn with_a_log(connection: &Connection) -> Result<String, rusqlite::Error> {
    let start = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)) {
            Err(error) if is_busy(&error) && start.elapsed() < BUSY => thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

impl Store {
    /// Opens a store, making its file if there is none (readable by its owner only), and brings one of an earlier Peal up
    /// to date. Nobody but root and this user may be able to write there or to put another file in its place.
    pub fn open(path: &Path, settings: StoreSettings) -> Result<Store, StoreError> {
        // From here on where it really is.
        let path = &place::checked(path)?;
        place::check_files(path)?;
        let of = |error| StoreError::at_opening(path, error);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        if let Err(source) = made
            && source.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(StoreError::Create { path: path.to_owned(), source });
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(path, flags).map_err(of)?;
        connection.busy_timeout(BUSY).map_err(of)?;
        if connection.is_readonly(MAIN_DB).map_err(of)? {
            return Err(StoreError::ReadOnly { path: path.to_owned() });
        }
        layout::check(&connection, path)?;
        let mode = with_a_log(&connection).map_err(of)?;
        if mode != "wal" {
            return Err(StoreError::NoLog { path: path.to_owned() });
        }
        connection.pragma_update(None, "synchronous", "normal").map_err(of)?;
        connection.pragma_update(None, "journal_size_limit", LOG_BYTES).map_err(of)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(of)?;
        let page: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(of)?;
        // A database that is larger already stays as large as it is.
        let pages = stored((settings.max_bytes / u64::from(page.max(1))).max(1));
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).map_err(of)?;
        layout::migrate(&mut connection, path)?;
        // In a directory of all, somebody may have been quicker than SQLite with a file of its.
        place::check_files(path)?;
        Ok(Store { path: path.clone(), connection: Mutex::new(connection), writes: Writes::default() })
    }

    /// How writing and reading go.
    pub fn health(&self) -> Health {
        self.writes.health()
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let done = work(&self.lock()).map_err(|error| StoreError::later(&self.path, error));
        done.inspect_err(|error| self.writes.not_read(error))
    }

    /// Writes all of it or nothing.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let done = {
            let mut connection = self.lock();
            connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
                let value = work(&transaction)?;
                transaction.commit()?;
                Ok(value)
            })
        };
        let done = done.map_err(|error| StoreError::later(&self.path, error));
        self.writes.record(&self.path, done.as_ref().err());
        done
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction that a panic cut short was rolled back when it was dropped.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// SQLite's integers are signed; times and sizes stay far below the difference.
fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn read(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
