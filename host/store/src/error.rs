//! Errors of a store. Each message names the file.
use crate::BUSY;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Error of a store.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file is missing and could not be created.
    #[error("the store {path:?} could not be created: {source}")]
    Create {
        /// The path of the store.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Other users can change the file.
    #[error(
        "the store cannot be {path:?}: {by:?} belongs to user {owner} and has mode {mode:o}; the store and the directories above it \
         must belong to root or the server's user and be writable by no other user (a directory may be sticky instead)"
    )]
    Exposed {
        /// The path of the store.
        path: PathBuf,
        /// The exposed path: a file of the store, or a directory above it.
        by: PathBuf,
        /// The uid of its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// The file could not be opened.
    #[error("the store {path:?} could not be opened: {source}")]
    Open {
        /// The path of the store.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file is not a store.
    #[error(
        "{path:?} should be a store of Peal's and is {found}: name another file, this one is not changed"
    )]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// The kind of file.
        found: &'static str,
    },
    /// The file was written by a later Peal.
    #[error("the store {path:?} has layout {found}, this Peal supports {latest} and earlier")]
    TooNew {
        /// The path of the store.
        path: PathBuf,
        /// The layout of the file.
        found: u32,
        /// The latest layout that this Peal supports.
        latest: u32,
    },
    /// The file is damaged.
    #[error(
        "the store {path:?} is damaged: {damage}. Move it away, with the files of its name that end in -wal and -shm, to \
         begin a new one; `sqlite3 {} .recover` shows what is left", .path.display()
    )]
    Damaged {
        /// The path of the store.
        path: PathBuf,
        /// The damage that SQLite found.
        damage: String,
    },
    /// The file is read-only.
    #[error("the store {path:?} should be writable, and the file or its file system is read-only")]
    ReadOnly {
        /// The path of the store.
        path: PathBuf,
    },
    /// The file system lacks shared memory, which the write-ahead log needs.
    #[error(
        "the store {path:?} is on a file system without support for SQLite's WAL; it should be on a local one"
    )]
    NoLog {
        /// The path of the store.
        path: PathBuf,
    },
    /// The disk is full, or the database has its maximum size.
    #[error(
        "the store {path:?} is full: it has its maximum size, or its file system has no space left"
    )]
    Full {
        /// The path of the store.
        path: PathBuf,
    },
    /// Another process locks the database.
    #[error("the store {path:?} was locked by another process for more than {BUSY:?}")]
    Busy {
        /// The path of the store.
        path: PathBuf,
    },
    /// A read took longer than its limit.
    #[error("reading the store {path:?} took longer than the time limit")]
    TooLong {
        /// The path of the store.
        path: PathBuf,
    },
    /// A statement failed.
    #[error("the store {path:?} failed: {source}")]
    Sql {
        /// The path of the store.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// A job has no record, or its record was dropped.
    #[error("the store {path:?} has no record of job {nspace:?}")]
    UnknownJob {
        /// The path of the store.
        path: PathBuf,
        /// The name of the job.
        nspace: String,
    },
    /// A module's state would exceed its quota.
    #[error("the state of module {module:?} would take {requested} bytes; the limit is {quota}")]
    Quota {
        /// The name of the module.
        module: String,
        /// The size in bytes that was refused.
        requested: u64,
        /// The limit in bytes.
        quota: u64,
    },
    /// The state of all modules for one scope would exceed its limit.
    #[error(
        "the state of all modules of {scope} would take {requested} bytes; the limit is {total}"
    )]
    Total {
        /// The scope.
        scope: String,
        /// The size in bytes that was refused.
        requested: u64,
        /// The limit in bytes.
        total: u64,
    },
    /// The queue of a sink is full.
    #[error(
        "the queue of sink {sink:?} is full; its limits are {messages} messages and {bytes} bytes"
    )]
    OutboxFull {
        /// The name of the sink.
        sink: String,
        /// The maximum number of messages.
        messages: u64,
        /// The maximum size in bytes.
        bytes: u64,
    },
    /// The messages of all sinks have their maximum size.
    #[error(
        "the messages of all sinks take {bytes} bytes, which is the limit (store.max_mail_bytes)"
    )]
    MailFull {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The state of all modules has its maximum size.
    #[error(
        "the state of all modules takes {bytes} bytes, which is the limit (store.max_state_bytes)"
    )]
    StateFull {
        /// The limit in bytes.
        bytes: u64,
    },
    /// The journal of a trail could not be read or written.
    #[error("the audit journal {path:?} could not be read or written: {source}")]
    Journal {
        /// The path of the journal.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The lock file of a holder of messages could not be used.
    #[error(
        "the lock file {path:?} for messages of sinks could not be created, opened or locked: {source}"
    )]
    Hold {
        /// The path of the lock file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl StoreError {
    /// Converts an error of opening a file.
    pub(crate) fn at_opening(path: &Path, source: rusqlite::Error) -> StoreError {
        // Only an unspecific error becomes `Open`: the messages of the others say what to do.
        match StoreError::later(path, source) {
            StoreError::Sql { path, source } => StoreError::Open { path, source },
            told => told,
        }
    }

    /// Converts an error of an open store.
    pub(crate) fn later(path: &Path, source: rusqlite::Error) -> StoreError {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => StoreError::Foreign {
                path,
                found: "not a database of SQLite",
            },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged {
                path,
                damage: source.to_string(),
            },
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            // Both say that another connection holds the lock, here or in another process.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            Some(ErrorCode::OperationInterrupted) => StoreError::TooLong { path },
            _ => StoreError::Sql { path, source },
        }
    }
}
