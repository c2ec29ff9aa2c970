//! Messages between Peal's own processes: bounded frames of MessagePack. What a message says is
//! defined by the crates that send it (`peal-stub`, `peal-helper`, `peal-audit`).
mod codec;
mod nesting;
mod stream;

pub use codec::{CodecError, FrameLimit, MessageDecoder, encode};
pub use stream::{MessageStream, StreamError};
