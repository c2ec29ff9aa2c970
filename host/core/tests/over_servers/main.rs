//! Jobs that are placed over several servers: fences of their procs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod cluster;
mod fences;
#[path = "../group/random.rs"]
#[allow(dead_code, reason = "the simulation of groups uses more of it")]
mod random;
