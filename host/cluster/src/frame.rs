//! Frames: the units that the network between servers carries.
use crate::{MessageRange, MessageSeq, ProtocolVersion, version::VersionedContents};
use peal_core::group::ServerId;
use peal_frames::{CodecError, FrameLimit, named_bytes, of_named_bytes};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

/// First bytes of every frame, before its version.
const MARK: [u8; 2] = *b"PL";

/// Place of a part in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MessagePart {
    /// Further parts of the message follow.
    Continued,
    /// The message ends with this part.
    Final,
}

/// Frame of one server to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerFrame {
    /// The sender. Its number is given once, so a frame of an earlier run of a server is known as one.
    pub from: ServerId,
    /// The receiver.
    pub to: ServerId,
    /// The contents.
    pub contents: FrameContents,
}

/// Contents of a frame.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FrameContents {
    /// A part of a message.
    Message {
        /// The number of the part.
        seq: MessageSeq,
        /// Its place in the message.
        part: MessagePart,
        /// The bytes of the part.
        #[serde(with = "shared_bytes")]
        body: Arc<[u8]>,
    },
    /// Tells the number of the last part, so that its loss is seen, and asks for an acknowledgement.
    Last {
        /// The number.
        seq: MessageSeq,
    },
    /// Acknowledges all parts up to this number.
    Acknowledge {
        /// The number.
        through: MessageSeq,
    },
    /// Asks for parts again.
    Resend {
        /// The numbers of the parts.
        range: MessageRange,
    },
}

/// Reason for which bytes are no frame of this version.
#[derive(Debug, Error)]
pub enum FrameRefusal {
    /// The bytes do not begin as a frame does.
    #[error("{len} bytes are no frame of a Peal server: a frame begins with \"PL\" and a version")]
    NoFrame {
        /// The number of bytes.
        len: usize,
    },
    /// The frame has another major version.
    #[error(
        "frame has version {theirs} of the protocol between servers; this server understands {}.x",
        ProtocolVersion::CURRENT.major
    )]
    Version {
        /// The version of the frame.
        theirs: ProtocolVersion,
    },
    /// The frame is too long, or its contents are of no kind that is known.
    #[error("frame of version {theirs}: {cause}")]
    Contents {
        /// The version of the frame.
        theirs: ProtocolVersion,
        /// The reason.
        cause: CodecError,
    },
}

impl ServerFrame {
    /// Encodes the frame.
    ///
    /// # Errors
    ///
    /// Fails if it is longer than the limit.
    pub fn encode(&self, limit: FrameLimit) -> Result<Vec<u8>, CodecError> {
        named_bytes(ProtocolVersion::CURRENT.header(MARK), self, limit)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no frame, one of another major version, one of a kind that is not
    /// known, or longer than the limit.
    pub fn decode(bytes: &[u8], limit: FrameLimit) -> Result<ServerFrame, FrameRefusal> {
        let VersionedContents {
            version: theirs,
            contents,
        } = ProtocolVersion::read(MARK, bytes).ok_or(FrameRefusal::NoFrame { len: bytes.len() })?;
        if !ProtocolVersion::CURRENT.understands(theirs) {
            return Err(FrameRefusal::Version { theirs });
        }
        of_named_bytes(contents, limit).map_err(|cause| FrameRefusal::Contents { theirs, cause })
    }
}

/// Bytes in a frame. Derived code would write each byte as a number of its own.
mod shared_bytes {
    use serde::{Deserializer, Serializer};
    use std::sync::Arc;

    pub(super) fn serialize<S: Serializer>(
        bytes: &Arc<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[u8]>, D::Error> {
        serde_bytes::deserialize::<Vec<u8>, D>(deserializer).map(Arc::from)
    }
}
