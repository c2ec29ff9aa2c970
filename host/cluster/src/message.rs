//! Messages between the state machines of servers, and records of the sequence, as bytes.
use crate::MembershipRecord;
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

/// Maximum length of a record in bytes.
const MAX_RECORD: FrameLimit = FrameLimit(64 << 10);

/// Encodes a record of the sequence.
///
/// # Errors
///
/// Fails if it is longer than 64 KiB.
pub fn encode_record(record: &MembershipRecord) -> Result<Vec<u8>, CodecError> {
    named_bytes(Vec::new(), record, MAX_RECORD)
}

/// Decodes a record of the sequence.
///
/// # Errors
///
/// Fails if the bytes are no record of a kind that is known, or longer than 64 KiB.
pub fn decode_record(bytes: &[u8]) -> Result<MembershipRecord, CodecError> {
    of_named_bytes(bytes, MAX_RECORD)
}
