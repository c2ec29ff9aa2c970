//! Why modules do not load, and why they do not start.
use crate::text::{MAX_QUOTED, row};
use crate::{CallFailure, Capability, EngineError, FormatError, RegistrationLimitError};
use thiserror::Error;

/// Why a module does not load.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Its bytes are no component.
    #[error("module {module}: {reason}")]
    Format {
        /// Which module.
        module: String,
        /// What its bytes are instead.
        reason: FormatError,
    },
    /// It fills no role.
    #[error(
        "module {module} fills no role: it exports [{}], none of them an interface such as peal:pmix/event-handler@0.1.0",
        row(exports, MAX_QUOTED)
    )]
    NoRole {
        /// Which module.
        module: String,
        /// What it does export.
        exports: Vec<String>,
    },
    /// It imports a capability that it was not granted.
    #[error("module {module} imports {interface}, which it is not granted (add {:?} to its grants)", interface.name())]
    NotGranted {
        /// Which module.
        module: String,
        /// Which capability.
        interface: Capability,
    },
    /// It imports what this host does not offer.
    #[error("module {module} imports {interface}, which Peal does not offer")]
    UnknownImport {
        /// Which module.
        module: String,
        /// What it imports.
        interface: String,
    },
    /// It is not valid, or its imports or exports are not as the contract has them.
    #[error("module {module} does not fit: {reason}")]
    Unfit {
        /// Which module.
        module: String,
        /// What the engine found.
        reason: String,
    },
    /// The engine that it needs could not be made.
    #[error("module {module}: {reason}")]
    Engine {
        /// Which module.
        module: String,
        /// Why not.
        reason: EngineError,
    },
    /// No instance of it could be made.
    #[error("module {module} does not start: {failure}")]
    Start {
        /// Which module.
        module: String,
        /// What happened.
        failure: CallFailure,
    },
}

/// Why a module's `lifecycle.init` did not succeed.
#[derive(Debug, Error)]
pub enum InitError {
    /// It will not start.
    #[error("module {module} will not start: {reason}")]
    Refused {
        /// Which module.
        module: String,
        /// The reason it gives.
        reason: String,
    },
    /// It wishes for registrations that it cannot have.
    #[error("module {module} cannot be registered as it wishes: {reason}")]
    Wishes {
        /// Which module.
        module: String,
        /// What is wrong with them.
        reason: RegistrationLimitError,
    },
    /// It failed.
    #[error("module {module} failed in init: {failure}")]
    Failed {
        /// Which module.
        module: String,
        /// How.
        failure: CallFailure,
    },
    /// It is running already.
    #[error("module {module} has its settings already; load it anew to give it others")]
    Repeated {
        /// Which module.
        module: String,
    },
}
