//! Errors of artefacts and registries.
use crate::{credentials::CredentialsError, manifest::MANIFEST};
use peal_config::ArtifactReference;
use peal_sandbox::Digest;
use std::{io, path::PathBuf, time::Duration};
use thiserror::Error;

/// Error of an artefact that is not one of Peal's modules, or not the one that its digest names.
#[derive(Debug, Error)]
pub enum ArtifactError {
    /// The bytes of the manifest have another digest.
    #[error("the manifest has sha256 {found}; {expected} was asked for")]
    OtherManifest {
        /// Digest that was asked for.
        expected: Digest,
        /// Digest of the bytes.
        found: Digest,
    },
    /// The bytes of the component have another digest.
    #[error("the component has sha256 {found}; the manifest names {expected}")]
    OtherComponent {
        /// Digest in the manifest.
        expected: Digest,
        /// Digest of the bytes.
        found: Digest,
    },
    /// The component has another size.
    #[error("the component has {found} bytes; the manifest names {expected}")]
    OtherSize {
        /// Size in the manifest.
        expected: u64,
        /// Size of the bytes.
        found: u64,
    },
    /// The manifest cannot be read.
    #[error("the manifest is not one of {MANIFEST}: {0}")]
    Manifest(String),
    /// The artefact is not a component of WebAssembly.
    #[error("{0}")]
    NotAComponent(String),
    /// The component exceeds the limit.
    #[error("the component has {size} bytes; the limit is {limit} (registry.max_component_bytes)")]
    TooLarge {
        /// Size in bytes.
        size: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The store cannot be used.
    #[error("cannot use the store of artefacts at {}: {source} (registry.store_dir)", path.display())]
    Store {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// Error of an exchange with a registry.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The registry could not be asked, or refused.
    #[error("{registry}: {reason}")]
    Exchange {
        /// Name of the registry.
        registry: String,
        /// The error.
        reason: String,
    },
    /// The registry took too long.
    #[error("{registry}: no complete answer within {} ms (registry.timeout_ms)", limit.as_millis())]
    Timeout {
        /// Name of the registry.
        registry: String,
        /// Limit.
        limit: Duration,
    },
    /// The file of certificates cannot be used.
    #[error("cannot use the certificates in {}: {reason} (registry.ca)", path.display())]
    Certificates {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// The client cannot be set up.
    #[error("cannot ask registries: {0}")]
    Client(String),
    /// The credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The registry sent something that is not what was asked for.
    #[error("{reference}: {source}")]
    Artifact {
        /// Name of the artefact.
        reference: Box<ArtifactReference>,
        /// The error.
        source: ArtifactError,
    },
}
