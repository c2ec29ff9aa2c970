//! Errors of the audit trail.
use crate::{EntryError, ExportError, FrameError, SignerError};
use peal_store::StoreError;
use std::{path::PathBuf, time::Duration};
use thiserror::Error;

/// Error of the audit trail.
#[derive(Debug, Error)]
pub enum AuditError {
    /// An error of the database.
    #[error("the audit trail: {0}")]
    Store(#[from] StoreError),
    /// The trail is full and no record may be dropped.
    #[error(
        "the audit trail: {database_error}; no record may be dropped, since decisions stay for {} (audit.decision_days) and calls for {} (audit.min_call_age_ms): increase audit.max_bytes",
        humantime::format_duration(*.age),
        humantime::format_duration(*.call_age)
    )]
    NothingToDrop {
        /// The error of the database.
        database_error: Box<StoreError>,
        /// The age below which decisions stay.
        age: Duration,
        /// The age below which calls and denials stay.
        call_age: Duration,
    },
    /// A record could not be sealed.
    #[error(transparent)]
    Signer(#[from] SignerError),
    /// An entry could not be serialized or read.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The trail does not end with the record of its head seal.
    #[error(
        "the audit trail {path:?} was changed outside of the server: it should end with record {left}, and ends with {found}. \
         `peal audit verify` shows the damage; to begin a new trail, move the file away, with the files of its name that end in -wal, -shm, -tail and -tail2"
    )]
    Broken {
        /// The path of the trail.
        path: PathBuf,
        /// The last record according to the seal.
        left: u64,
        /// The last record found.
        found: u64,
    },
    /// The journal does not match the trail or was changed.
    #[error(
        "the audit journal {path:?} was changed outside of the server: frame {frame}: {fault}. \
         The frames before it are intact; to continue without the journal's records, move the file away"
    )]
    Journal {
        /// The path of the journal.
        path: PathBuf,
        /// The number of the frame, from 1.
        frame: u64,
        /// The error of the frame.
        fault: FrameError,
    },
    /// An error of an export.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The writer thread could not be started.
    #[error("the audit trail's thread could not be started: {0}")]
    Thread(std::io::Error),
}
