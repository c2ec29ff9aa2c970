//! Why sinks cannot be opened. Every message names the sink.
use peal_store::StoreError;
use std::path::PathBuf;
use thiserror::Error;

/// Why the sinks cannot be opened.
#[derive(Debug, Error)]
pub enum SinkError {
    /// Two sinks have one name.
    #[error("there are two sinks of the name {name:?}: each needs one of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// A setting is not as it can be.
    #[error("sink {name:?}: {what} is {value}, it must be {right}")]
    Setting {
        /// The sink.
        name: String,
        /// The setting.
        what: &'static str,
        /// What it is.
        value: String,
        /// What would have been right.
        right: &'static str,
    },
    /// A file that a setting names is not to be had.
    #[error("sink {name:?}: {what} {path:?} cannot be read: {source}")]
    Read {
        /// The sink.
        name: String,
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Others can read a password.
    #[error(
        "sink {name:?}: the password file {path:?} belongs to user {owner} and has mode {mode:o}; it must belong to user {me} \
         or root, who alone may read it (mode 600 or 400)"
    )]
    Exposed {
        /// The sink.
        name: String,
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who may do what with it.
        mode: u32,
        /// Who runs this.
        me: u32,
    },
    /// Certificates or keys are of no use.
    #[error("sink {name:?}: TLS cannot be used with {what}: {why}")]
    Tls {
        /// The sink.
        name: String,
        /// Which file or name.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file of a sink cannot be opened.
    #[error("sink {name:?}: {path:?} cannot be opened: {source}")]
    File {
        /// The sink.
        name: String,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A sink's messages are to be kept, and there is no store.
    #[error("sink {name:?} is to survive the end of the process: there must be a store")]
    NoStore {
        /// The sink.
        name: String,
    },
    /// The store does not do what it should.
    #[error("sinks cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// There is no thread to be had.
    #[error("sink {name:?} has no thread: {source}")]
    Thread {
        /// The sink.
        name: String,
        /// What the system says.
        source: std::io::Error,
    },
}
