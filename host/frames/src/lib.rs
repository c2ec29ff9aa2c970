//! Messages between Peal's own processes: bounded frames of MessagePack. What a message says is
//! defined by the crates that send it (`peal-stub`, `peal-helper`, `peal-audit`, `peal-tenant`).
mod codec;
mod descriptors;
mod named_fields;
mod nesting;
mod stream;

pub use codec::{CodecError, FrameLimit, MessageDecoder, encode};
pub use descriptors::{
    DescriptorStream, MAX_DESCRIPTORS, MessageWithDescriptors, decode_single,
    receive_with_descriptors, send_with_descriptors,
};
pub use named_fields::{NamedFields, named_bytes, of_named_bytes};
pub use stream::{MessageStream, StreamError};
