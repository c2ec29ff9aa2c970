//! State machines of one server, stepped by hand or compared with independent models. One program: each
//! further one compiles the state machines again.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#[path = "../carried/mod.rs"]
mod carried;
mod connect;
mod controlling;
mod defaults;
mod gate;
mod gate_groups;
mod gate_log;
mod gate_modules;
mod gate_spawn;
mod job_control;
mod log;
mod log_directives;
mod log_routing;
mod monitor_requests;
mod nodes;
mod order;
mod policy;
mod published;
#[path = "../support/mod.rs"]
mod support;
