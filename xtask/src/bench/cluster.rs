//! Many servers in one process that join a cluster on one NATS server.
use super::{
    arm::Values,
    launch::{self, Scratch},
    programs::Programs,
};
use crate::test_servers;
use anyhow::Result;
use std::process::Command;

/// Measures the join of all servers, and events of some to all others.
pub fn measure(programs: &Programs, servers: u32, events: u32) -> Result<Values> {
    let scratch = Scratch::new()?;
    let mut command = Command::new(&programs.cluster_bench);
    command
        .arg(test_servers::nats_server(&programs.test_servers))
        .arg(scratch.path())
        .args(["--servers", &servers.to_string()])
        .args(["--events", &events.to_string()]);
    launch::values(&launch::finish(command, &scratch)?)
}
