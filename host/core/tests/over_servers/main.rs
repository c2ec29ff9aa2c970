//! Jobs that are placed over several servers: fences of their procs, and gets of their values.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
mod cluster;
mod fences;
mod gets;
#[path = "../group/random.rs"]
#[allow(dead_code, reason = "the simulation of groups uses more of it")]
mod random;
