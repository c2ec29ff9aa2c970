//! Failures of a process that runs a user's modules.
use crate::message::PROTOCOL;
use peal_frames::{CodecError, StreamError};
use peal_sandbox::EngineError;
use std::{io, time::Duration};
use thiserror::Error;

/// Failure of a process that runs a user's modules, or of a connection to it.
#[derive(Debug, Error)]
pub enum TenantRuntimeError {
    /// The process could not be started.
    #[error("process not started: {0}")]
    Start(io::Error),
    /// A connection failed.
    #[error("connection: {0}")]
    Connection(#[from] io::Error),
    /// The other end sent what is no message, or a message is too long.
    #[error("message: {0}")]
    Message(#[from] CodecError),
    /// The first message or its connections did not come whole.
    #[error("the first message did not bring the connections")]
    Greeting,
    /// The other end is of another release.
    #[error("the server speaks version {0} of the protocol, not {PROTOCOL}")]
    Protocol(u32),
    /// The engine cannot start.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The process has ended.
    #[error("the process has ended")]
    Ended,
    /// The process did not answer in time.
    #[error("no answer within {0:?}; the process was ended")]
    Timeout(Duration),
    /// The process answered something else than it was asked for.
    #[error("the process answered another request")]
    Answer,
    /// The process refused.
    #[error("{0}")]
    Refused(String),
    /// The process ended several times, and is not started again before this time has passed.
    #[error("the process ended {ends} times; it is started again in {wait:?} at the earliest")]
    Paused {
        /// Number of ends within a short time.
        ends: u32,
        /// Time until the next start.
        wait: Duration,
    },
}

impl From<StreamError> for TenantRuntimeError {
    fn from(error: StreamError) -> TenantRuntimeError {
        match error {
            StreamError::Connection(error) => TenantRuntimeError::Connection(error),
            StreamError::Message(error) => TenantRuntimeError::Message(error),
        }
    }
}
