//! Errors of decoding and encoding.
use crate::{Quoted, Version};
use peal_model::{CommandCode, DataType, IdentError, MixedArray, Status, UnknownNumber, code};
use thiserror::Error;

/// Reason why bytes are not a message, or why a message cannot be encoded for the peer. An error is
/// short however long the bytes are: texts are [`Quoted`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end within a part.
    #[error("{part} needs {needed} bytes, but only {left} are left")]
    Truncated {
        /// Name of the part.
        part: &'static str,
        /// Length of the part in bytes, as far as known.
        needed: u64,
        /// Number of bytes left.
        left: usize,
    },
    /// More bytes or elements than the limits allow.
    #[error("{part} has length {len}; the limit is {limit}")]
    TooLong {
        /// Name of the part.
        part: &'static str,
        /// Length, in bytes or elements.
        len: u64,
        /// Largest length allowed, in the same unit.
        limit: u64,
    },
    /// Values nest too deeply.
    #[error("values nest too deeply; the limit is {limit} levels")]
    TooDeep {
        /// Largest number of levels allowed.
        limit: usize,
    },
    /// The decoded message would take too much memory.
    #[error("decoded message takes too much memory; the limit is {limit} bytes")]
    TooBig {
        /// Largest size allowed, in bytes.
        limit: usize,
    },
    /// Bytes follow the end.
    #[error("{count} bytes follow the end of {part}")]
    Trailing {
        /// Name of the part that ended.
        part: &'static str,
        /// Number of bytes that follow.
        count: usize,
    },
    /// A packed field has the wrong number of values.
    #[error("field of {data_type} has {count} values, expected {expected}")]
    Count {
        /// Type of the field.
        data_type: DataType,
        /// Number of values that the field announces.
        count: i32,
        /// Number of values expected.
        expected: u64,
    },
    /// A number is out of the range of its type.
    #[error("{part} {number} is out of the range of its type")]
    OutOfRange {
        /// Name of the number.
        part: &'static str,
        /// The number.
        number: i128,
    },
    /// A field of a described buffer has another type than the message at this position.
    #[error("field has type {found}, expected {expected}")]
    TypeMismatch {
        /// Type that the field announces.
        found: DataType,
        /// Type expected.
        expected: DataType,
    },
    /// A data type that values cannot have, or that the peer's release lacks.
    #[error("values of {data_type} cannot be exchanged with release {version}")]
    TypeUnknown {
        /// The type.
        data_type: DataType,
        /// Release of the peer.
        version: Version,
    },
    /// A number that is no command, or that of a command that Peal does not carry. The server
    /// answers `PMIX_ERR_NOT_SUPPORTED`.
    #[error("{number} is not a command")]
    UnknownCommand {
        /// Number received.
        number: u8,
    },
    /// A command that the peer's release lacks.
    #[error("release {version} has no command {command:?}")]
    CommandNotInRelease {
        /// The command.
        command: CommandCode,
        /// Release of the peer.
        version: Version,
    },
    /// A reply that does not match the command.
    #[error("{reply} is not a reply to {command:?}")]
    ReplyMismatch {
        /// Command of the request.
        command: CommandCode,
        /// Kind of reply.
        reply: &'static str,
    },
    /// A message with the event tag that is not an event.
    #[error("message with the event tag has command {number}, expected {expected}")]
    NotAnEvent {
        /// Command received.
        number: u8,
        /// Command of an event.
        expected: u8,
    },
    /// Bytes that are not UTF-8 in a name.
    #[error("{part} {text} is not UTF-8")]
    NotUtf8 {
        /// Name of the text.
        part: &'static str,
        /// The bytes.
        text: Quoted,
    },
    /// A string without its NUL, or with a negative length.
    #[error("{part} does not end in NUL")]
    Unterminated {
        /// Name of the text.
        part: &'static str,
    },
    /// A floating-point number that is not decimal text.
    #[error("{text} is not a decimal number")]
    NotANumber {
        /// The text.
        text: Quoted,
    },
    /// A number without a member in an enumeration.
    #[error(transparent)]
    UnknownNumber(#[from] UnknownNumber),
    /// A namespace or key that the Standard does not allow.
    #[error(transparent)]
    Ident(#[from] IdentError),
    /// An array of values of different types.
    #[error(transparent)]
    Mixed(#[from] MixedArray),
    /// The first sixteen bytes of a connection are not a handshake header.
    #[error("handshake header has pindex {pindex} and tag {tag:#x}, expected -1 and 0xffffffff")]
    NotAHandshake {
        /// Pindex received.
        pindex: i32,
        /// Tag received.
        tag: u32,
    },
    /// A text that does not begin with a release number.
    #[error("{text} is not a release such as 4.2.2rc2")]
    Version {
        /// The text.
        text: Quoted,
    },
    /// An encoding that Peal does not support.
    #[error("encoding {name} is not supported, expected v4, v41, v51 or v61")]
    Encoding {
        /// Name of the bfrops module.
        name: Quoted,
    },
    /// A credential with a length that its security module does not have.
    #[error("credential of module {module} has {len} bytes, expected {expected}")]
    Credential {
        /// Security module.
        module: &'static str,
        /// Length received, in bytes.
        len: usize,
        /// Length expected, in bytes.
        expected: usize,
    },
    /// A topology with raw structures of another length than hwloc's.
    #[error("support structures of a topology have {len} bytes, expected {expected}")]
    Topology {
        /// Length given, in bytes.
        len: usize,
        /// Length expected, in bytes.
        expected: usize,
    },
    /// A server URI that is not of the form `NSPACE.RANK;tcp4://ADDRESS:PORT`.
    #[error("server URI {text}: {reason}")]
    Uri {
        /// The text.
        text: Quoted,
        /// Reason of the rejection.
        reason: &'static str,
    },
}

impl WireError {
    /// Returns the status with which a malformed request is answered.
    pub fn status(&self) -> Status {
        match self {
            WireError::UnknownCommand { .. } | WireError::CommandNotInRelease { .. } => {
                code::PMIX_ERR_NOT_SUPPORTED
            }
            WireError::Truncated { .. } => code::PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER,
            WireError::TypeUnknown { .. } => code::PMIX_ERR_UNKNOWN_DATA_TYPE,
            // The message is well formed, and only a value in it is not allowed.
            WireError::UnknownNumber(_) | WireError::Ident(_) => code::PMIX_ERR_BAD_PARAM,
            _ => code::PMIX_ERR_UNPACK_FAILURE,
        }
    }
}
