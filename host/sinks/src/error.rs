//! Errors of opening sinks. Each message names the sink.
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
    /// A file that a setting names could not be read.
    #[error("sink {name:?}: {purpose} {path:?} could not be read: {source}")]
    Read {
        /// The sink.
        name: String,
        /// The purpose of the file.
        purpose: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file of a secret is readable by other users.
    #[error(
        "sink {name:?}: {file} {path:?} belongs to user {owner} and has mode {mode:o}; it must belong to user {me} \
         or root and be readable by its owner only (mode 600 or 400)"
    )]
    Exposed {
        /// The sink.
        name: String,
        /// The purpose of the file.
        file: &'static str,
        /// The file.
        path: PathBuf,
        /// The uid of the file's owner.
        owner: u32,
        /// The mode of the file.
        mode: u32,
        /// The uid of this process.
        me: u32,
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
