//! Host environments on the library, against a server of the test: what the library sends and does for
//! each function, upcall and answer. The tests share one process and its state, so that one runs at a
//! time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail their tests"
)]
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc,
    reason = "the tests are the host environments, which keep the conditions"
)]

mod answers;
mod events;
mod fork;
mod host;
mod registrations;
mod server;
mod upcalls;
