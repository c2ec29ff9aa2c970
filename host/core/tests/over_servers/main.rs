//! Jobs that are placed over several servers: fences of their procs, gets of their values, and what servers may say.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#[path = "../carried/mod.rs"]
mod carried;
mod checkpoints;
mod cluster;
mod costs;
mod events;
mod fence_losses;
mod fence_trust;
mod fences;
mod fencing;
mod gets;
mod published;
mod published_model;
mod published_random;
#[path = "../group/random.rs"]
#[allow(dead_code, reason = "the simulation of groups uses more of it")]
mod random;
mod requests;
mod scale;
mod trust;
mod whole;
