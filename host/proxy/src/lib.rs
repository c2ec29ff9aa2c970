//! Proxy between a PMIx client and its server that lets handlers see events: `peal attach` without
//! sockets, clock and threads.
//!
//! A [`ClientProxy`] takes the bytes of either side and returns the bytes to be sent on. It changes
//! only this:
//!
//! - The proxy makes requests of its own and removes the replies.
//! - Events wait for the verdict of the handlers; all other messages overtake them.
//! - Events for which only handlers are registered do not reach the client. They are kept, as the
//!   server would have kept them, until the client registers for them.
//! - The client cannot deregister codes for which handlers are registered.
//!
//! A proxy without handlers passes on every byte unchanged.
//!
//! ```text
//! proxy.rs           a connection from its first byte
//! interception.rs    its two streams after the handshake
//! frame_splitter.rs  a stream split into frames, few of which are inspected
//! own_requests.rs    requests of the proxy itself
//! client_events.rs   registrations of the client, kept events, repeated events
//! ```

mod client_events;
mod frame_splitter;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod interception;
mod own_requests;
mod proxy;

pub use own_requests::{OwnRequestError, OwnRequestId};
pub use proxy::{ClientProxy, EventDisposition, ProxyEvent, ProxySide};
