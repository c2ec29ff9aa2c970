//! Errors of submitting a message to a sink.
use peal_model::{Status, code};
use peal_store::StoreError;
use std::io::{self, ErrorKind};
use thiserror::Error;

/// Reason for which a sink refused a message. Nothing of the message was delivered.
#[derive(Debug, Error)]
pub enum SinkWriteError {
    /// The queue is full.
    #[error("sink {name:?} is full; its limits are {messages} messages and {bytes} bytes")]
    Full {
        /// The sink.
        name: String,
        /// The maximum number of messages.
        messages: usize,
        /// The maximum size in bytes.
        bytes: usize,
    },
    /// The user has its share of the queue.
    #[error(
        "sink {name:?} has no room for more of this user; a user's limits are {messages} messages (sink.max_queue_messages_per_user) and {bytes} bytes (sink.max_queue_bytes_per_user)"
    )]
    UserFull {
        /// The sink.
        name: String,
        /// The maximum number of messages of one user.
        messages: usize,
        /// The maximum size of the messages of one user in bytes.
        bytes: usize,
    },
    /// The sink is closed.
    #[error("sink {name:?} is closed")]
    Closed {
        /// The sink.
        name: String,
    },
    /// The message is too long.
    #[error("a message for sink {name:?} has {bytes} bytes; the limit is {most}")]
    TooLong {
        /// The sink.
        name: String,
        /// The length of the message in bytes.
        bytes: usize,
        /// The maximum length in bytes.
        most: usize,
    },
    /// The message is empty.
    #[error("a message for sink {name:?} is empty")]
    Empty {
        /// The sink.
        name: String,
    },
    /// The message is not one line of text.
    #[error(
        "a message for sink {name:?} has {character} at byte {at}: it must be UTF-8 without control characters but tabs"
    )]
    NoLine {
        /// The sink.
        name: String,
        /// The offending character.
        character: String,
        /// Its position in bytes.
        at: usize,
    },
    /// The message is not text.
    #[error(
        "a message for sink {name:?} has {character} at byte {at}: it must be UTF-8 without control characters but tabs and line feeds"
    )]
    NoText {
        /// The sink.
        name: String,
        /// The offending character.
        character: String,
        /// Its position in bytes.
        at: usize,
    },
    /// The message is not one JSON object.
    #[error("a message for sink {name:?} is not one JSON object: {source}")]
    NoObject {
        /// The sink.
        name: String,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A part of a mail is invalid.
    #[error("the {part} of a mail for sink {name:?} is {value:?}: it must be {right}")]
    Mail {
        /// The sink.
        name: String,
        /// The part.
        part: &'static str,
        /// Its value, shortened.
        value: String,
        /// The valid values.
        right: &'static str,
    },
    /// The configuration of the sink forbids a choice of the requester.
    #[error("sink {name:?} does not allow the {part} {value:?}")]
    Denied {
        /// The sink.
        name: String,
        /// The part of the mail.
        part: &'static str,
        /// The value.
        value: String,
    },
    /// The sink takes another kind of message.
    #[error("sink {name:?} takes {carries}")]
    Kind {
        /// The sink.
        name: String,
        /// The kind of message that the sink takes.
        carries: &'static str,
    },
    /// The message could not be stored.
    #[error("a message for sink {name:?} could not be stored: {source}")]
    Store {
        /// The sink.
        name: String,
        /// The error of the store.
        source: StoreError,
    },
    /// The system has no random numbers, which the id of a message needs.
    #[error(
        "an id of a message for sink {name:?} could not be made without random numbers: {source}"
    )]
    Random {
        /// The sink.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file could not be written. It is unchanged.
    #[error("the file of sink {name:?} could not be written: {source}")]
    File {
        /// The sink.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl SinkWriteError {
    /// Refuses a message with more bytes than a sink accepts.
    pub(crate) fn check_size(name: &str, bytes: usize, most: usize) -> Result<(), SinkWriteError> {
        if bytes > most {
            Err(SinkWriteError::TooLong {
                name: name.to_owned(),
                bytes,
                most,
            })
        } else {
            Ok(())
        }
    }

    /// Returns the status for the requester.
    pub fn status(&self) -> Status {
        match self {
            SinkWriteError::Full { .. } | SinkWriteError::UserFull { .. } => {
                code::PMIX_ERR_OUT_OF_RESOURCE
            }
            SinkWriteError::Closed { .. } => code::PMIX_ERR_NOT_AVAILABLE,
            SinkWriteError::Denied { .. } => code::PMIX_ERR_NO_PERMISSIONS,
            SinkWriteError::TooLong { .. }
            | SinkWriteError::Empty { .. }
            | SinkWriteError::NoLine { .. }
            | SinkWriteError::NoText { .. }
            | SinkWriteError::NoObject { .. }
            | SinkWriteError::Mail { .. }
            | SinkWriteError::Kind { .. } => code::PMIX_ERR_BAD_PARAM,
            // To the requester a full store is the same as a full queue.
            SinkWriteError::Store {
                source:
                    StoreError::Full { .. }
                    | StoreError::OutboxFull { .. }
                    | StoreError::MailFull { .. },
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
