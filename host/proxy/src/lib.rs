//! What passes between a PMIx client and its server, with handlers in between: `peal attach` without sockets, clock and threads.
//!
//! A [`ClientProxy`] is given what either side sends and says what to send on. It changes nothing of that but this:
//!
//! - it makes requests of its own, and swallows the answers;
//! - events wait until it is said what handlers make of them; everything else overtakes them;
//! - events that only the handlers asked for do not reach the client. They are kept for it, as its server would have kept them,
//!   until it registers for them;
//! - the client cannot deregister codes for the handlers.
//!
//! A relay without handlers passes on every byte as it comes.
//!
//! ```text
//! relay.rs   a connection from its first byte
//! joined.rs  its two streams, once both sides have said hello
//! cut.rs     a stream cut into frames, of which few are looked at
//! asked.rs   the relay's own requests
//! heard.rs   events: what the client asked for, what is kept for it, what comes again
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
