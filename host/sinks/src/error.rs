//! Errors of opening sinks. Each message names the sink.
use crate::CredentialError;
use peal_store::StoreError;
use std::path::PathBuf;
use thiserror::Error;

/// Error of opening sinks.
#[derive(Debug, Error)]
pub enum SinkError {
    /// Two sinks have the same name.
    #[error("two sinks are named {name:?}: each name must be unique")]
    Twice {
        /// The name.
        name: String,
    },
    /// A setting has an invalid value.
    #[error("sink {name:?}: {setting} is {value}, it must be {right}")]
    Setting {
        /// The sink.
        name: String,
        /// The setting.
        setting: &'static str,
        /// The value.
        value: String,
        /// The valid values.
        right: &'static str,
    },
    /// A secret or a certificate of a sink is unusable.
    #[error("sink {name:?}: {source}")]
    Credential {
        /// The sink.
        name: String,
        /// The problem.
        source: CredentialError,
    },
    /// A certificate, key or name is unusable for TLS.
    #[error("sink {name:?}: TLS cannot be used with {subject}: {reason}")]
    Tls {
        /// The sink.
        name: String,
        /// The file or name.
        subject: String,
        /// The error.
        reason: String,
    },
    /// The file of a sink could not be opened.
    #[error("sink {name:?}: {path:?} could not be opened: {source}")]
    File {
        /// The sink.
        name: String,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A sink with durability `store` was configured without a store.
    #[error("sink {name:?} has durability `store`, and no store is configured")]
    NoStore {
        /// The sink.
        name: String,
    },
    /// An error of the store.
    #[error("sinks could not be opened: {0}")]
    Store(#[from] StoreError),
    /// The thread of a sink could not be started.
    #[error("the thread of sink {name:?} could not be started: {source}")]
    Thread {
        /// The sink.
        name: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl SinkError {
    /// Returns the error of the sink with this name for its secret or certificate.
    pub(crate) fn credential(name: &str, source: CredentialError) -> SinkError {
        SinkError::Credential {
            name: name.to_owned(),
            source,
        }
    }
}
