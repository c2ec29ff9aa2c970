//! Host environments on the library, against a server of the test: what the library sends and does for
//! each function, upcall and answer. The tests share one process and its state, so that one runs at a
//! time.
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the tests are the host environments that keep the conditions"
)]

mod answers;
mod events;
mod fork;
mod host;
mod registrations;
mod server;
mod upcalls;
