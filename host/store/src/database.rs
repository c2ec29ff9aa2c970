//! An SQLite database with checks of its file, transactional writes and counts.
use crate::{
    BUSY, StoreError,
    layout::{self, Layout},
    path_checks, stored,
    writes::{StoreHealth, Writes},
};
use rusqlite::{Connection, MAIN_DB, OpenFlags, Transaction, TransactionBehavior};
use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Maximum size of the write-ahead log in bytes after its content was moved into the database.
const LOG_BYTES: u32 = 4 << 20;

/// Durability of a completed write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DatabaseDurability {
    /// The write survives the end of the process. The last writes may be lost in a crash of the
    /// machine.
    #[default]
    Process,
    /// The write also survives a crash of the machine: each write waits for the disk.
    Machine,
}

/// Part of a database that a write may fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// The whole database.
    Whole,
    /// All but a sixteenth, for data that users cause. The rest is reserved for other writes.
    Users,
}

/// Divisor that gives the reserved part.
const RESERVED_PART: u64 = 16;

/// Steps of SQLite's machine between two looks at the clock.
const STEPS: i32 = 10_000;

/// An open database.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    /// Maximum number of pages.
    pages: u64,
    connection: Mutex<Connection>,
    writes: Writes,
}

/// Switches to a write-ahead log and returns the mode in effect. SQLite does not apply its busy
/// timeout to this statement, so it is repeated here.
fn with_a_log(connection: &Connection) -> Result<String, rusqlite::Error> {
    let start = Instant::now();
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)) {
            Err(error) if is_busy(&error) && start.elapsed() < BUSY => {
                thread::sleep(Duration::from_millis(5))
            }
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

impl Database {
    /// Opens the database; creates its file if it is missing.
    pub(crate) fn open(
        path: &Path,
        max_bytes: u64,
        required: &Layout,
        durability: DatabaseDurability,
    ) -> Result<Database, StoreError> {
        // Use the resolved path from here on, so that the checks apply to the file that is opened.
        let path = &path_checks::checked_path(path)?;
        path_checks::check_files(path)?;
        let of = |error| StoreError::at_opening(path, error);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            // SQLite would create the file with mode 644, readable by all users.
            .mode(0o600)
            .open(path);
        if let Err(source) = made
            && source.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(StoreError::Create {
                path: path.to_owned(),
                source,
            });
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            // The connection has a mutex around it. Without the flag `CREATE` it never makes a file
            // with another mode.
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(path, flags).map_err(of)?;
        connection.busy_timeout(BUSY).map_err(of)?;
        // Without the right to write, SQLite opens the file for reading and reports no error.
        if connection.is_readonly(MAIN_DB).map_err(of)? {
            return Err(StoreError::ReadOnly {
                path: path.to_owned(),
            });
        }
        // Check before the switch to a write-ahead log, which writes to the file: a refused file
        // stays unchanged.
        layout::check(&connection, path, required)?;
        let mode = with_a_log(&connection).map_err(of)?;
        // Where shared memory is not available, SQLite keeps the old mode and reports no error.
        if mode != "wal" {
            return Err(StoreError::NoLog {
                path: path.to_owned(),
            });
        }
        connection
            .pragma_update(None, "synchronous", durability.word())
            .map_err(of)?;
        connection
            .pragma_update(None, "journal_size_limit", LOG_BYTES)
            .map_err(of)?;
        connection
            // Each connection has to enable them; otherwise `on delete cascade` does nothing.
            .pragma_update(None, "foreign_keys", true)
            .map_err(of)?;
        let page: u32 = connection
            .pragma_query_value(None, "page_size", |row| row.get(0))
            .map_err(of)?;
        let pages = (max_bytes / u64::from(page.max(1))).max(1);
        limit_pages(&connection, pages).map_err(of)?;
        layout::migrate(&mut connection, path, required)?;
        // In a directory that other users can write to, one of them may have created a file of
        // SQLite's first.
        path_checks::check_files(path)?;
        Ok(Database {
            path: path.clone(),
            pages,
            connection: Mutex::new(connection),
            writes: Writes::default(),
        })
    }

    /// Opens an existing database for reading.
    pub(crate) fn open_to_read(path: &Path, required: &Layout) -> Result<Database, StoreError> {
        let of = |error| StoreError::at_opening(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let path = &path_checks::resolved_path(path)?;
        let connection = Connection::open_with_flags(path, flags).map_err(of)?;
        connection.busy_timeout(BUSY).map_err(of)?;
        layout::check(&connection, path, required)?;
        // One transaction: all reads see the same state while another process writes.
        connection.execute_batch("begin").map_err(of)?;
        Ok(Database {
            path: path.clone(),
            pages: 0,
            connection: Mutex::new(connection),
            writes: Writes::default(),
        })
    }

    /// Returns the path of the database.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns counts of writes and reads.
    pub(crate) fn health(&self) -> StoreHealth {
        self.writes.health()
    }

    /// Has every read fail that is not complete after this time from now.
    pub(crate) fn limit_reads(&self, time: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        let is_over = move || begun.elapsed() > time;
        let set = self.lock().progress_handler(STEPS, Some(is_over));
        set.map_err(|error| StoreError::later(&self.path, error))
    }

    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = work(&self.lock()).map_err(|error| StoreError::later(&self.path, error));
        done.inspect_err(|error| self.writes.not_read(error))
    }

    /// Runs `work` in a transaction.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.write_within(Room::Whole, work)
    }

    /// Runs `work` in a transaction that fails if the database would exceed this part of its
    /// maximum size.
    pub(crate) fn write_within<T>(
        &self,
        room: Room,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = {
            let mut connection = self.lock();
            let limited = match room {
                Room::Whole => Ok(()),
                Room::Users => limit_pages(&connection, self.pages - self.pages / RESERVED_PART),
            };
            let done = limited.and_then(|()| transact(&mut connection, work));
            match room {
                Room::Whole => done,
                Room::Users => limit_pages(&connection, self.pages).and(done),
            }
        };
        let done = done.map_err(|error| StoreError::later(&self.path, error));
        // The connection is unlocked by now: a line in the trace may block.
        self.writes.record(&self.path, done.as_ref().err());
        done
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic during a transaction rolled it back, so the poisoned connection is usable.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the maximum number of pages. A database that is larger keeps its size.
fn limit_pages(connection: &Connection, pages: u64) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "max_page_count", stored(pages), |_| Ok(()))
}

fn transact<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // A transaction that reads before it writes fails at once if another process wrote in between:
    // the busy timeout does not apply to it. This one takes the lock for writing first.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}

impl DatabaseDurability {
    fn word(self) -> &'static str {
        match self {
            DatabaseDurability::Process => "normal",
            DatabaseDurability::Machine => "full",
        }
    }
}
