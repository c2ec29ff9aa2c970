//! Messages between Peal's own processes: bounded frames of MessagePack. What a message says is
//! defined by the crates that send it (`peal-stub`, `peal-helper`, `peal-tenant`).
mod codec;
mod frame_reader;
mod named_fields;
mod nesting;

pub use codec::{CodecError, FrameLimit, MessageDecoder, encode};
pub use frame_reader::{FrameReader, ReadMessageError};
pub use named_fields::NamedFields;
