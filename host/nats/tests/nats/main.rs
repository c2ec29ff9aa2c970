//! Files of clusters, and the real NATS server with them: permissions of nodes, checks, streams.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code"
)]
mod asks;
mod checks;
mod config;
mod deployment;
mod network;
mod permissions;
mod site;
mod support;
