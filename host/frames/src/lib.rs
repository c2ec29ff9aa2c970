//! Messages between Peal's own processes: bounded frames of MessagePack. What a message says is
//! defined by the crates that send it (`peal-stub`, `peal-helper`).
mod codec;
mod nesting;

pub use codec::{CodecError, FrameLimit, MessageDecoder, encode};
