//! Wire format of OpenPMIx: handshake, framing and packing of releases 4.1 to 7. The crate turns
//! bytes into messages and back; it uses no sockets and no clock.
//!
//! A server handles a connection like this:
//!
//! ```
//! use peal_model::{CommandCode, Reply, Request, Status};
//! use peal_wire::*;
//!
//! # fn upcall(request: &Request) -> Reply { Reply::Status(Status(0)) }
//! fn serve(mut received: &[u8], limits: DecodeLimits) -> Result<Vec<u8>, WireError> {
//!     let Some(hello) = HelloDecoder::new(limits).feed(&mut received)? else {
//!         return Ok(Vec::new()); // a real server reads on and feeds the same decoder
//!     };
//!     let codec = Codec::of(&hello, limits);
//!     let mut sent = Welcome::Client { index: 0 }.encode();
//!     let mut frames = FrameDecoder::new(&limits);
//!     while let Some(frame) = frames.feed(&mut received)? {
//!         if frame.tag == Tag::HEARTBEAT {
//!             continue;
//!         }
//!         let payload = match codec.decode_request(&frame.payload) {
//!             Ok(Request::DeregisterEvents { .. }) => continue, // never answered
//!             Ok(request) => codec.encode_reply(request.command(), &upcall(&request))?,
//!             Err(error) => match codec.command_of(&frame.payload) {
//!                 Some(CommandCode::DeregisterEvents) => continue,
//!                 Some(CommandCode::JobData) => return Err(error), // closes, as there is no status
//!                 _ => codec.encode_status(error.status())?,
//!             },
//!         };
//!         sent.extend(Frame { pindex: 0, tag: frame.tag, payload }.encode()?);
//!     }
//!     Ok(sent)
//! }
//! ```
//!
//! A client sends [`Hello::encode`], waits with a [`WelcomeDecoder`], and then uses a [`Codec`] in
//! the other direction: [`Codec::encode_request`] with a [`Tag`] of its own,
//! [`Codec::decode_reply`] for the frame that comes back with that tag, and [`Codec::decode_event`]
//! for [`Tag::NOTIFY`].
//!
//! Differences between releases are rows in the tables of `dialect.rs`. [`DecodeLimits`] bounds
//! what a peer may make this process read and keep. Bytes after a complete message are refused: a
//! message of a release that sends more than this crate knows would be misunderstood.

mod codec;
mod dialect;
mod error;
mod field;
mod flex;
mod frame;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod handshake;
mod job_data;
mod limits;
mod packed;
mod peer;
mod quoted;
mod reader;
mod rendezvous;
mod reply;
mod request;
mod structs;
mod unsolicited;
mod value;
mod version;
mod welcome;
mod writer;

pub use codec::Codec;
pub use dialect::{
    BufferType, Dialect, Encoding, GroupDestruct, GroupReply, SingletonJobData, SingletonReply,
    UntypedArray,
};
pub use error::WireError;
pub use field::PackedField;
pub use frame::{Frame, FrameDecoder, Header, Tag};
pub use handshake::{Hello, HelloDecoder};
pub use limits::DecodeLimits;
pub use peer::{ClaimedUser, Credential, PeerKind, ToolIdentifier, WelcomeForm};
pub use quoted::Quoted;
pub use rendezvous::{GDS_HASH, ServerUri, variable};
pub use unsolicited::IofOutput;
pub use version::{Release, Version};
pub use welcome::{Welcome, WelcomeDecoder};
