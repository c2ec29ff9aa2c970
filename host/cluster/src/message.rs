//! Messages between the state machines of servers as bytes: the bodies of frames.
use peal_core::server::InterServerMessage;
use peal_frames::{CodecError, FrameLimit, named_bytes, of_named_bytes};
use std::sync::Arc;

/// Encodes a message.
///
/// # Errors
///
/// Fails if it is longer than the limit.
pub fn encode_message(
    message: &InterServerMessage,
    limit: FrameLimit,
) -> Result<Arc<[u8]>, CodecError> {
    named_bytes(Vec::new(), message, limit).map(Arc::from)
}

/// Decodes a message.
///
/// # Errors
///
/// Fails if the bytes are no message of a kind that is known, or longer than the limit.
pub fn decode_message(bytes: &[u8], limit: FrameLimit) -> Result<InterServerMessage, CodecError> {
    of_named_bytes(bytes, limit)
}
