//! Errors of loading and of initializing modules.
use crate::contract::{CONTRACT_VERSION, ContractMismatch, REBUILD};
use crate::interface::PACKAGE;
use crate::text::{MAX_QUOTED, row};
use crate::{
    CallFailure, Capability, EngineError, FailureKind, FormatError, Inspection,
    RegistrationLimitError,
};
use thiserror::Error;

/// Failure to load a module.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The bytes are not a component.
    #[error("module {module}: {reason}")]
    Format {
        /// Name of the module.
        module: String,
        /// Reason of the inspection.
        reason: FormatError,
    },
    /// The component exports no role.
    #[error(
        "module {module} exports no role such as peal:pmix/event-handler@0.1.0, only [{}]",
        row(exports, MAX_QUOTED)
    )]
    NoRole {
        /// Name of the module.
        module: String,
        /// Exports of the component.
        exports: Vec<String>,
    },
    /// The component is built for a contract that this release does not have.
    #[error("module {module} {mismatch}")]
    Contract {
        /// Name of the module.
        module: String,
        /// Contract of the component.
        mismatch: ContractMismatch,
    },
    /// The component imports a capability that is not granted.
    #[error("module {module} imports {interface}, which it is not granted (add {:?} to its grants)", interface.name())]
    NotGranted {
        /// Name of the module.
        module: String,
        /// The capability.
        interface: Capability,
    },
    /// The component imports an interface that Peal does not offer.
    #[error("module {module} imports {interface}, which Peal does not offer")]
    UnknownImport {
        /// Name of the module.
        module: String,
        /// Name of the interface.
        interface: String,
    },
    /// The component is invalid, or its imports or exports differ from the contract.
    #[error(
        "module {module} does not match the contract {PACKAGE} {CONTRACT_VERSION}: {reason}; {REBUILD}"
    )]
    Unfit {
        /// Name of the module.
        module: String,
        /// Reason of wasmtime.
        reason: String,
    },
    /// The engine that the module needs could not be made.
    #[error("module {module}: {reason}")]
    Engine {
        /// Name of the module.
        module: String,
        /// Failure of the engine.
        reason: EngineError,
    },
    /// No instance could be made.
    #[error("module {module} does not start: {failure}")]
    Start {
        /// Name of the module.
        module: String,
        /// Failure of the start.
        failure: CallFailure,
    },
}

impl LoadError {
    /// Returns the error about the contract of the component where that explains this one: the
    /// contract is newer, and its additions are missing here.
    pub(crate) fn explained(self, inspection: &Inspection) -> LoadError {
        let (module, reason) = match &self {
            LoadError::Unfit { module, reason } => (module, reason.clone()),
            // A role of another shape is found when it is looked up.
            LoadError::Start { module, failure } if failure.kind == FailureKind::Unavailable => {
                (module, failure.to_string())
            }
            _ => return self,
        };
        match ContractMismatch::of_failure(&inspection.contract, || reason) {
            Some(mismatch) => LoadError::Contract {
                module: module.clone(),
                mismatch,
            },
            None => self,
        }
    }
}

/// Failure of a module's `lifecycle.init`.
#[derive(Debug, Error)]
pub enum InitError {
    /// The module refused to start.
    #[error("module {module} refused to start: {reason}")]
    Refused {
        /// Name of the module.
        module: String,
        /// Reason that the module returned.
        reason: String,
    },
    /// The module requested registrations that exceed a limit.
    #[error("module {module} requested registrations beyond a limit: {reason}")]
    RegistrationLimit {
        /// Name of the module.
        module: String,
        /// The limit that is exceeded.
        reason: RegistrationLimitError,
    },
    /// The call failed.
    #[error("module {module} failed in init: {failure}")]
    Failed {
        /// Name of the module.
        module: String,
        /// The failure.
        failure: CallFailure,
    },
    /// The module was initialized before.
    #[error("module {module} is initialized already; load it again to change its settings")]
    Repeated {
        /// Name of the module.
        module: String,
    },
}
