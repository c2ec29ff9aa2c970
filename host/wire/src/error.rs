//! What can be wrong with bytes, or with what shall become bytes.
use crate::{Quoted, Version};
use peal_model::{CommandCode, DataType, IdentError, MixedArray, Status, UnknownNumber, code};
use thiserror::Error;

/// Why bytes are not a message, or why a message cannot be put into bytes for this peer. However long the bytes, an
/// error is short: texts are [`Quoted`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end inside of something.
    #[error("{what} needs {needed} bytes, {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Its length in bytes, as far as known.
        needed: u64,
        /// The bytes that were there.
        left: usize,
    },
    /// More bytes or elements than the limits allow.
    #[error("{what} of length {len} is longer than the {limit} allowed")]
    TooLong {
        /// What is too long.
        what: &'static str,
        /// Its length, in bytes or elements.
        len: u64,
        /// The most allowed, in the same unit.
        limit: u64,
    },
    /// Values inside of values inside of values.
    #[error("values nest deeper than the {limit} levels allowed")]
    TooDeep {
        /// The most levels allowed.
        limit: usize,
    },
    /// A small message that would fill a large memory.
    #[error("the decoded message takes more than the {limit} bytes of memory allowed")]
    TooBig {
        /// The most memory allowed, in bytes.
        limit: usize,
    },
    /// Bytes after the end.
    #[error("{count} bytes follow the end of {what}")]
    Trailing {
        /// What had ended.
        what: &'static str,
        /// How many bytes follow.
        count: usize,
    },
    /// A packed field holds another number of values than it must.
    #[error("a field of {data_type} holds {count} values, not {wanted}")]
    Count {
        /// The type of the field.
        data_type: DataType,
        /// How many values it says it holds.
        count: i32,
        /// How many it must hold.
        wanted: u64,
    },
    /// A number that its type cannot hold.
    #[error("{what} {number} is out of the range of its type")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// The number.
        number: i128,
    },
    /// A fully described field of another type than the message has at this place.
    #[error("a field of {found} stands where one of {wanted} must be")]
    TypeMismatch {
        /// The type that the field says it has.
        found: DataType,
        /// The type that the message has there.
        wanted: DataType,
    },
    /// A data type that values cannot have, or not towards this peer.
    #[error("{data_type} is no type of a value towards release {version}")]
    TypeUnknown {
        /// The type.
        data_type: DataType,
        /// The release of the peer.
        version: Version,
    },
    /// A command that no release has, or that Peal does not carry. The server answers `PMIX_ERR_NOT_SUPPORTED`.
    #[error("{number} is not a command")]
    UnknownCommand {
        /// The number received.
        number: u8,
    },
    /// A command that the peer is too old for.
    #[error("release {version} has no command {command:?}")]
    CommandNotInRelease {
        /// The command.
        command: CommandCode,
        /// The release of the peer.
        version: Version,
    },
    /// A reply that does not belong to the request.
    #[error("{reply} is no reply to {command:?}")]
    ReplyMismatch {
        /// The request's command.
        command: CommandCode,
        /// The kind of reply.
        reply: &'static str,
    },
    /// A message on the event tag that is no event.
    #[error("command {number} on the event tag, where {wanted} must be")]
    NotAnEvent {
        /// The command received.
        number: u8,
        /// The command of an event.
        wanted: u8,
    },
    /// Bytes where a name must be UTF-8.
    #[error("{what} {text} is not UTF-8")]
    NotUtf8 {
        /// What it is.
        what: &'static str,
        /// The bytes.
        text: Quoted,
    },
    /// A string without its NUL, or with a length below zero.
    #[error("{what} does not end in NUL")]
    Unterminated {
        /// What it is.
        what: &'static str,
    },
    /// A floating-point number travels as decimal text, and this is none.
    #[error("{text} is not a decimal number")]
    NotANumber {
        /// The text.
        text: Quoted,
    },
    /// A number that no member of an enumeration has.
    #[error(transparent)]
    UnknownNumber(#[from] UnknownNumber),
    /// A namespace or key that the Standard does not allow.
    #[error(transparent)]
    Ident(#[from] IdentError),
    /// An array of values of different types.
    #[error(transparent)]
    Mixed(#[from] MixedArray),
    /// The first sixteen bytes of a connection are no handshake header.
    #[error("a handshake header has pindex -1 and tag 0xffffffff, not {pindex} and {tag:#x}")]
    NotAHandshake {
        /// The pindex received.
        pindex: i32,
        /// The tag received.
        tag: u32,
    },
    /// A text that does not begin with a release number.
    #[error("{text} is not a release such as 4.2.2rc2")]
    Version {
        /// The text.
        text: Quoted,
    },
    /// An encoding that Peal does not speak.
    #[error("encoding {name} is none of v4, v41, v51, v61")]
    Encoding {
        /// The name of the bfrops module.
        name: Quoted,
    },
    /// A credential whose length does not fit its security module.
    #[error("a credential of module {module} has {wanted} bytes, not {len}")]
    Credential {
        /// The security module.
        module: &'static str,
        /// The length received, in bytes.
        len: usize,
        /// The length it must have, in bytes.
        wanted: usize,
    },
    /// A topology whose raw structures have another length than hwloc's.
    #[error("the support structures of a topology have {wanted} bytes, not {len}")]
    Topology {
        /// The length given, in bytes.
        len: usize,
        /// The length they must have, in bytes.
        wanted: usize,
    },
    /// A server URI that is not of the form `NSPACE.RANK;tcp4://ADDRESS:PORT`.
    #[error("server URI {text}: {reason}")]
    Uri {
        /// The text.
        text: Quoted,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl WireError {
    /// The status that tells the sender of a request what was wrong with it.
    pub fn status(&self) -> Status {
        match self {
            WireError::UnknownCommand { .. } | WireError::CommandNotInRelease { .. } => {
                code::PMIX_ERR_NOT_SUPPORTED
            }
            WireError::Truncated { .. } => code::PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER,
            WireError::TypeUnknown { .. } => code::PMIX_ERR_UNKNOWN_DATA_TYPE,
            WireError::UnknownNumber(_) | WireError::Ident(_) => code::PMIX_ERR_BAD_PARAM,
            _ => code::PMIX_ERR_UNPACK_FAILURE,
        }
    }
}
