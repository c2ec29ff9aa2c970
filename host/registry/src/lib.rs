//! Modules as artefacts in OCI registries.
//!
//! ```text
//! manifest.rs     form of an artefact: the layout of the CNCF for WebAssembly, with Peal's annotations
//! store.rs        artefacts on disk, each verified at every use
//! client.rs       push to registries and pull from them, within bounds of time and size
//! credentials.rs  user names and passwords, in the form of docker's config.json
//! ```
//!
//! A manifest is named by its digest and names its component by a digest, so that neither a registry
//! nor the store on disk is trusted.

mod client;
mod credentials;
mod error;
mod manifest;
mod store;

pub use client::{PulledArtifact, RegistryClient, RegistrySettings};
pub use credentials::{CredentialsError, usual_credentials};
pub use error::{ArtifactError, RegistryError};
pub use manifest::{
    Annotations, ArtifactManifest, BlobDescriptor, ComponentDescriptor, NewArtifact, annotation,
};
pub use store::{ArtifactStore, StoredArtifact};
