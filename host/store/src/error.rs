//! What can go wrong with a store. Every message names the file.
use crate::BUSY;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the store cannot do what it should.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Its file is not there and cannot be made.
    #[error("cannot make the store {path:?}: {source}")]
    Create {
        /// Its file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Others can change it.
    #[error(
        "the store cannot be {path:?}: {by:?} belongs to user {owner} and has mode {mode:o}; the store and where it lies must \
         belong to root or this user, who alone may write there (a directory may be sticky instead)"
    )]
    Exposed {
        /// Its file.
        path: PathBuf,
        /// What others can change: a file of the store, or a directory that it is in.
        by: PathBuf,
        /// Whose that is.
        owner: u32,
        /// Who may do what with it.
        mode: u32,
    },
    /// Its file cannot be opened.
    #[error("cannot open the store {path:?}: {source}")]
    Open {
        /// Its file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file is something else.
    #[error(
        "{path:?} is no store of Peal's, it is {what}: name another file, this one is left as it is"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The file was written by a later Peal.
    #[error("the store {path:?} has layout {found}, this Peal knows {latest} and earlier")]
    TooNew {
        /// Its file.
        path: PathBuf,
        /// Its layout.
        found: u32,
        /// The latest that this Peal knows.
        latest: u32,
    },
    /// The file is damaged.
    #[error(
        "the store {path:?} is damaged: {what}. Move it away, with the files of its name that end in -wal and -shm, to \
         begin a new one; `sqlite3 {} .recover` shows what is left", .path.display()
    )]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// What SQLite found.
        what: String,
    },
    /// The file may only be read.
    #[error("the store {path:?} cannot be written: it, or where it lies, is read-only")]
    ReadOnly {
        /// Its file.
        path: PathBuf,
    },
    /// The file system has no shared memory for the log of writes.
    #[error(
        "the store {path:?} lies on a file system that SQLite's WAL does not work on; a local one is needed"
    )]
    NoLog {
        /// Its file.
        path: PathBuf,
    },
    /// There is no room.
    #[error(
        "the store {path:?} is full: it has its largest size, or there is no room left where it lies"
    )]
    Full {
        /// Its file.
        path: PathBuf,
    },
    /// Another process writes, and does not end.
    #[error("the store {path:?} was held by another process for more than {BUSY:?}")]
    Busy {
        /// Its file.
        path: PathBuf,
    },
    /// A statement failed.
    #[error("the store {path:?} failed: {source}")]
    Sql {
        /// Its file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A job of that name has no record, or none any more.
    #[error("the store {path:?} has no record of job {nspace:?}")]
    UnknownJob {
        /// Its file.
        path: PathBuf,
        /// The job.
        nspace: String,
    },
    /// A module's state would become larger than it may.
    #[error("the state of module {module:?} would take {wanted} bytes, it may take {quota}")]
    Quota {
        /// Whose it is.
        module: String,
        /// How many bytes it would take.
        wanted: u64,
        /// How many it may.
        quota: u64,
    },
    /// The state of all modules that is kept for one scope would become larger than it may.
    #[error("the state of all modules of {scope} would take {wanted} bytes, it may take {total}")]
    Total {
        /// For whom it is kept.
        scope: String,
        /// How many bytes it would take.
        wanted: u64,
        /// How many it may.
        total: u64,
    },
    /// No more messages can be kept for a sink.
    #[error(
        "{messages} messages or {bytes} bytes wait for sink {sink:?} already, which is all that may"
    )]
    OutboxFull {
        /// The sink.
        sink: String,
        /// How many messages may wait.
        messages: u64,
        /// How many bytes they may have.
        bytes: u64,
    },
    /// What is on its way into a trail cannot be kept, or read.
    #[error("cannot use {path:?}, which holds what is on its way into the audit trail: {source}")]
    Tail {
        /// The file beside the trail.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It cannot be said, or found out, who is to deliver messages.
    #[error(
        "cannot make, open or lock {path:?}, which says that messages in the store are being delivered: {source}"
    )]
    Hold {
        /// The file beside the store.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

impl StoreError {
    /// What went wrong while a file was being opened.
    pub(crate) fn at_opening(path: &Path, source: rusqlite::Error) -> StoreError {
        match StoreError::later(path, source) {
            StoreError::Sql { path, source } => StoreError::Open { path, source },
            told => told,
        }
    }

    /// What went wrong with a store that is open.
    pub(crate) fn later(path: &Path, source: rusqlite::Error) -> StoreError {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => StoreError::Foreign {
                path,
                what: "not a database of SQLite",
            },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
                path,
                what: source.to_string(),
            },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            _ => StoreError::Sql { path, source },
        }
    }
}
