//! Errors of deploying modules.
use peal_config::Problems;
use thiserror::Error;

/// Reason for which the running set stays.
#[derive(Debug, Error)]
pub enum DeployError {
    /// The new set is invalid.
    #[error(transparent)]
    Unfit(#[from] Problems),
    /// No module has this name.
    #[error("there is no module {name:?}{}", hint(.similar_name.as_deref()))]
    NoSuchModule {
        /// The name.
        name: String,
        /// A similar name.
        similar_name: Option<String>,
    },
    /// The module is not a shadow.
    #[error("module {name:?} should be a shadow: set mode = \"shadow\" in its [[module]]")]
    NoShadow {
        /// The name.
        name: String,
    },
    /// No earlier version exists.
    #[error("the running version has no previous version")]
    NoPrevious,
    /// The version is not stored.
    #[error("there is no version {number}; there are {stored_versions}")]
    NoSuchVersion {
        /// The number of the version.
        number: u64,
        /// The stored versions.
        stored_versions: String,
    },
    /// The server is in no cluster.
    #[error("this server is in no cluster: its configuration has no [cluster]")]
    NoCluster,
    /// The request asks for no change.
    #[error("the request changes nothing: only requests that do can be checked")]
    NoChange,
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default()
}
