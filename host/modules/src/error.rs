//! Why the modules of a server stay as they are.
use peal_config::Problems;
use thiserror::Error;

/// Why the modules of a server stay as they are.
#[derive(Debug, Error)]
pub enum DeployError {
    /// The others cannot take their place.
    #[error(transparent)]
    Unfit(#[from] Problems),
    /// There is no module of that name.
    #[error("there is no module {name:?}{}", hint(.near.as_deref()))]
    NoSuchModule {
        /// The name.
        name: String,
        /// One that is nearly so.
        near: Option<String>,
    },
    /// It takes part already.
    #[error("module {name:?} is no shadow: write mode = \"shadow\" into its [[module]]")]
    NoShadow {
        /// The name.
        name: String,
    },
    /// There is nothing to return to.
    #[error("there is no version before this one")]
    NoPrevious,
    /// That version is not kept.
    #[error("there is no version {number}; there are {kept}")]
    NoSuchVersion {
        /// Its number.
        number: u64,
        /// Those that are kept.
        kept: String,
    },
    /// There is no server any more.
    #[error("the server has stopped")]
    Stopped,
}

fn hint(near: Option<&str>) -> String {
    near.map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default()
}
