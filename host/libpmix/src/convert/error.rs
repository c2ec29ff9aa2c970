//! Reasons why a value cannot be converted, and their statuses.
use peal_model::{DataType, IdentError, Status, UnknownNumber, code};
use thiserror::Error;

/// Error of a conversion between a C value and a value of the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConvertError {
    /// A pointer that must not be null is null.
    #[error("{what} is a null pointer")]
    NullPointer {
        /// Noun for the pointer's target.
        what: &'static str,
    },
    /// The address of an array is no multiple of the alignment of its elements.
    #[error("array of {element} begins at an address that is no multiple of {align}")]
    Misaligned {
        /// Type of the elements.
        element: DataType,
        /// Alignment of an element, in bytes.
        align: usize,
    },
    /// The caller's value is larger than a limit of [`super::ReadBounds`].
    #[error("{what} is {found}; the limit is {limit}")]
    TooLarge {
        /// Noun for what is counted.
        what: &'static str,
        /// Number found; counting may have stopped there.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A key or namespace is not UTF-8.
    #[error("{what} is not UTF-8")]
    NotUtf8 {
        /// "key" or "namespace".
        what: &'static str,
    },
    /// A key or namespace is too long, or has characters that are not allowed.
    #[error(transparent)]
    Identifier(#[from] IdentError),
    /// A number is not in its enumeration.
    #[error(transparent)]
    UnknownNumber(#[from] UnknownNumber),
    /// The data type does not exist.
    #[error("{0} is unknown")]
    UnknownType(DataType),
    /// The data type has no form here: a value holds none of it, or the model has none.
    #[error("{data_type} is not supported {place}")]
    UnsupportedType {
        /// The data type.
        data_type: DataType,
        /// "in a value" or "in an array".
        place: &'static str,
    },
    /// A topology or cpuset is not hwloc's, or hwloc's library is missing.
    #[error("{what} needs libhwloc.so.15 and the source hwloc")]
    NoHwloc {
        /// "cpuset" or "topology".
        what: &'static str,
    },
    /// hwloc could not convert a topology or cpuset.
    #[error("hwloc cannot convert the {what}")]
    Hwloc {
        /// "cpuset" or "topology".
        what: &'static str,
    },
    /// The C heap has no memory left.
    #[error("allocation of {bytes} bytes failed")]
    NoMemory {
        /// Number of bytes.
        bytes: usize,
    },
}

impl ConvertError {
    /// Returns the status for the caller.
    pub fn status(&self) -> Status {
        match self {
            ConvertError::NullPointer { .. }
            | ConvertError::Misaligned { .. }
            | ConvertError::TooLarge { .. }
            | ConvertError::NotUtf8 { .. }
            | ConvertError::Identifier(_)
            | ConvertError::UnknownNumber(_) => code::PMIX_ERR_BAD_PARAM,
            ConvertError::UnknownType(_) => code::PMIX_ERR_UNKNOWN_DATA_TYPE,
            ConvertError::UnsupportedType { .. } | ConvertError::NoHwloc { .. } => {
                code::PMIX_ERR_NOT_SUPPORTED
            }
            ConvertError::Hwloc { .. } => code::PMIX_ERROR,
            ConvertError::NoMemory { .. } => code::PMIX_ERR_NOMEM,
        }
    }
}

impl From<ConvertError> for Status {
    fn from(error: ConvertError) -> Status {
        error.status()
    }
}
