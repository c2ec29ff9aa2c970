//! Why a sink takes a message not, or not now.
use peal_model::{Status, code};
use peal_store::StoreError;
use std::io::{self, ErrorKind};
use thiserror::Error;

/// Why a sink refuses a message. Nothing of it was carried anywhere.
#[derive(Debug, Error)]
pub enum SinkWriteError {
    /// No more may wait.
    #[error("sink {name:?} is full: {messages} messages or {bytes} bytes may wait there")]
    Full {
        /// The sink.
        name: String,
        /// How many messages may wait.
        messages: usize,
        /// How many bytes they may have.
        bytes: usize,
    },
    /// The sink takes no messages any more.
    #[error("sink {name:?} is being closed")]
    Closed {
        /// The sink.
        name: String,
    },
    /// The message is longer than the sink's setting allows.
    #[error("a message of {bytes} bytes for sink {name:?}: {most} are the most")]
    TooLong {
        /// The sink.
        name: String,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// There is nothing in it.
    #[error("an empty message for sink {name:?}")]
    Empty {
        /// The sink.
        name: String,
    },
    /// Something in it could be taken for the beginning of another message, or is no text.
    #[error(
        "a message for sink {name:?} has {what} at byte {at}: it must be UTF-8 without control characters but tabs"
    )]
    NoLine {
        /// The sink.
        name: String,
        /// What is there.
        what: String,
        /// Where.
        at: usize,
    },
    /// A part of a mail is not what it must be.
    #[error("the {part} of a mail for sink {name:?} is {value:?}: it must be {right}")]
    Mail {
        /// The sink.
        name: String,
        /// Which part.
        part: &'static str,
        /// What it is, or the beginning of it.
        value: String,
        /// What would have been right.
        right: &'static str,
    },
    /// The sink's admin does not let requesters choose this.
    #[error("sink {name:?} does not allow {part} {value:?} to be chosen")]
    Denied {
        /// The sink.
        name: String,
        /// What was to be chosen.
        part: &'static str,
        /// What it was to be.
        value: String,
    },
    /// The sink carries something else.
    #[error("sink {name:?} carries {carries}")]
    Kind {
        /// The sink.
        name: String,
        /// What it carries.
        carries: &'static str,
    },
    /// What was to be kept could not be.
    #[error("sink {name:?} cannot keep a message: {source}")]
    Store {
        /// The sink.
        name: String,
        /// What the store says.
        source: StoreError,
    },
    /// The system has no random numbers, of which each mail needs one to be told from others.
    #[error("sink {name:?} has no random numbers: {source}")]
    Random {
        /// The sink.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file could not be written. It is as it was before.
    #[error("sink {name:?} cannot write its file: {source}")]
    File {
        /// The sink.
        name: String,
        /// What the system says.
        source: io::Error,
    },
}

impl SinkWriteError {
    /// What a requester is told.
    pub fn status(&self) -> Status {
        match self {
            SinkWriteError::Full { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
            SinkWriteError::Closed { .. } => code::PMIX_ERR_NOT_AVAILABLE,
            SinkWriteError::Denied { .. } => code::PMIX_ERR_NO_PERMISSIONS,
            SinkWriteError::TooLong { .. }
            | SinkWriteError::Empty { .. }
            | SinkWriteError::NoLine { .. }
            | SinkWriteError::Mail { .. }
            | SinkWriteError::Kind { .. } => code::PMIX_ERR_BAD_PARAM,
            SinkWriteError::Store {
                source: StoreError::Full { .. } | StoreError::OutboxFull { .. },
                ..
            } => code::PMIX_ERR_OUT_OF_RESOURCE,
            SinkWriteError::Store { .. } | SinkWriteError::Random { .. } => code::PMIX_ERROR,
            SinkWriteError::File { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    code::PMIX_ERR_OUT_OF_RESOURCE
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    code::PMIX_ERR_NO_PERMISSIONS
                }
                _ => code::PMIX_ERROR,
            },
        }
    }
}
