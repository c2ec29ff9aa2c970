//! Errors of secrets and certificates in files. They do not name the part that uses them.
use std::path::PathBuf;
use thiserror::Error;

/// Error of a secret or a certificate.
#[derive(Debug, Error)]
pub enum CredentialError {
    /// The contents of a file are invalid. The error does not show them.
    #[error("{file} is {value}, it must be {right}")]
    Contents {
        /// The purpose of the file.
        file: &'static str,
        /// The kind of contents.
        value: String,
        /// The valid contents.
        right: &'static str,
    },
    /// A file that a setting names could not be read.
    #[error("{purpose} {path:?} could not be read: {source}")]
    Read {
        /// The purpose of the file.
        purpose: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file of a secret is readable by other users.
    #[error(
        "{file} {path:?} belongs to user {owner} and has mode {mode:o}; it must belong to user {me} \
         or root and be readable by its owner only (mode 600 or 400)"
    )]
    Exposed {
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
    /// A certificate is unusable for TLS.
    #[error("TLS cannot be used with {subject}: {reason}")]
    Tls {
        /// The file or name.
        subject: String,
        /// The error.
        reason: String,
    },
}
