//! `peal cluster`: NATS servers on which Peal's servers meet; and the cluster of `peal serve`.
mod dev;
mod init;
mod modules;
pub mod nodes;
mod recent_events;
mod requests;
mod serve;
mod service;
mod status;

pub use modules::{ServedModules, next_work, parts_of};
pub use recent_events::RecentEvents;
pub use requests::{EventPosition, NodeReply, NodeRequest, TrailState};
pub use serve::{ServedCluster, network, show, status_of};
pub use service::ObservedServer;

use crate::args::ClusterCommand;
use anyhow::Result;
use std::process::ExitCode;

/// Runs the command.
pub fn run(command: ClusterCommand) -> Result<ExitCode> {
    match command {
        ClusterCommand::Init(args) => init::init(args),
        ClusterCommand::Dev(args) => dev::dev(args),
        ClusterCommand::Status(args) => status::status(args),
    }
}
