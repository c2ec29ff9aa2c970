//! Messages as frames: a length of four bytes, little-endian, then as many bytes of MessagePack.
//!
//! MessagePack is read by `rmp-serde`. The length of a frame is bounded before its bytes are taken,
//! and the nesting of a message before it is read.
use crate::nesting;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Length of the header of a frame, in bytes.
pub(crate) const HEADER: usize = 4;

/// Longest frame, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameLimit(pub usize);

impl Default for FrameLimit {
    fn default() -> FrameLimit {
        FrameLimit(64 << 20)
    }
}

/// Reason why a message cannot be encoded or decoded.
#[derive(Debug, Error)]
pub enum CodecError {
    /// The frame is too long.
    #[error("message has {len} bytes; the limit is {max}")]
    TooLong {
        /// Length of the message.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The message cannot be written.
    #[error("message not encoded: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The bytes are no message.
    #[error("message not understood: {0}")]
    Decode(#[from] rmp_serde::decode::Error),
    /// The message nests too deeply.
    #[error("message nests deeper than a value may")]
    TooDeep,
    /// Bytes follow the message in its frame.
    #[error("{0} bytes follow the message in its frame")]
    Trailing(usize),
    /// The bytes should be one message.
    #[error("{0} bytes have no single message")]
    NotSingle(usize),
}

/// Encodes a message as a frame.
///
/// # Errors
///
/// Fails if the message is longer than the limit.
pub fn encode<T: Serialize>(message: &T, limit: FrameLimit) -> Result<Vec<u8>, CodecError> {
    // The length is known only after the message is written, so its place is left free.
    let mut frame = vec![0; HEADER];
    message.serialize(&mut rmp_serde::Serializer::new(&mut frame))?;
    let len = frame.len().saturating_sub(HEADER);
    let too_long = || CodecError::TooLong { len, max: limit.0 };
    if len > limit.0 {
        return Err(too_long());
    }
    let header = u32::try_from(len).map_err(|_| too_long())?.to_le_bytes();
    for (place, byte) in frame.iter_mut().zip(header) {
        *place = byte;
    }
    Ok(frame)
}

/// Decodes the contents of one frame.
///
/// # Errors
///
/// Fails if the bytes are no message, or more than one.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let mut rest = bytes;
    // Checked first: the reader recurses for each level, and could exhaust the stack.
    if !nesting::is_bounded(bytes) {
        return Err(CodecError::TooDeep);
    }
    let message = T::deserialize(&mut rmp_serde::Deserializer::new(&mut rest))?;
    match rest.len() {
        0 => Ok(message),
        left => Err(CodecError::Trailing(left)),
    }
}

/// Decoder of a stream of frames, which come in pieces of any length.
#[derive(Debug)]
pub struct MessageDecoder {
    buffer: Vec<u8>,
    /// Number of bytes at the beginning of the buffer that were decoded.
    taken: usize,
    limit: FrameLimit,
}

impl MessageDecoder {
    /// Creates a decoder of frames up to this length.
    pub fn new(limit: FrameLimit) -> MessageDecoder {
        MessageDecoder {
            buffer: Vec::new(),
            taken: 0,
            limit,
        }
    }

    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        // What was decoded goes when more comes, so that several frames in one piece are not moved
        // for each of them.
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next message, or `None` until all of its bytes have come.
    ///
    /// # Errors
    ///
    /// Fails if a frame is too long or has no valid message. The stream is then of no use any more.
    pub fn next_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CodecError> {
        let open = self.undecoded();
        let Some((header, rest)) = open.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let max = self.limit.0;
        let len = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        // The header alone decides, so that a peer cannot make the buffer grow beyond the limit.
        if len > max {
            return Err(CodecError::TooLong { len, max });
        }
        let Some(contents) = rest.get(..len) else {
            return Ok(None);
        };
        let message = decode(contents)?;
        self.taken = self.taken.saturating_add(HEADER).saturating_add(len);
        Ok(Some(message))
    }

    /// Returns the bytes that were added and not decoded.
    pub fn undecoded(&self) -> &[u8] {
        self.buffer.get(self.taken..).unwrap_or_default()
    }

    /// Returns the number of bytes of a message that has not come completely.
    pub fn pending(&self) -> usize {
        self.undecoded().len()
    }
}
