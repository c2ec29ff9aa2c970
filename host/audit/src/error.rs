//! What can go wrong with the trail.
use crate::{EntryError, ExportError, FrameError, SealKeyError};
use peal_store::StoreError;
use std::{path::PathBuf, time::Duration};
use thiserror::Error;

/// Why the trail cannot do what it should.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The database.
    #[error("the audit trail: {0}")]
    Store(#[from] StoreError),
    /// It is full, and nothing in it may go.
    #[error(
        "the audit trail: {full}; nothing in it may go, since decisions stay for {} (audit.decision_days), so make audit.max_bytes larger",
        humantime::format_duration(*.age)
    )]
    NothingToDrop {
        /// The error of the database.
        full: StoreError,
        /// The age below which decisions stay.
        age: Duration,
    },
    /// The key that it is signed with.
    #[error(transparent)]
    Key(#[from] SealKeyError),
    /// What is to be recorded, or was, makes no sense.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// It does not end as it was left.
    #[error(
        "the audit trail {path:?} was changed by somebody else: it was left with record {left}, and ends with {found}. \
         `peal audit verify` says more; move it away, with the files of its name that end in -wal, -shm and -tail, to begin a new one"
    )]
    Broken {
        /// Its file.
        path: PathBuf,
        /// The last record by its seal.
        left: u64,
        /// The last one that is there.
        found: u64,
    },
    /// What waits to be put into it is not as it was left.
    #[error(
        "{path:?}, which holds what is on its way into the audit trail, was changed by somebody else: frame {frame}: {fault}. \
         What stands before that frame is as it was; move the file away to go on without what is in it"
    )]
    Journal {
        /// Its file.
        path: PathBuf,
        /// Which frame, from 1.
        frame: u64,
        /// What is wrong with it.
        fault: FrameError,
    },
    /// What was exported.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// That thread cannot be had.
    #[error("the audit trail's thread cannot start: {0}")]
    Thread(std::io::Error),
}
