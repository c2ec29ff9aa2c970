//! `peal event`: raises events at running servers, and watches them.
mod notify;
pub mod print;
mod watch;
mod watch_nodes;

use crate::{
    args::{EventCommand, ToolArgs},
    node,
};
use anyhow::Result;
use peal_client::{AttachTarget, ToolSettings};
use std::process::ExitCode;

/// Runs the command.
pub fn run(command: EventCommand) -> Result<ExitCode> {
    if let EventCommand::Watch(args) = command
        && args.cluster
    {
        return watch_nodes::run(args);
    }
    node::as_tool(async {
        match command {
            EventCommand::Notify(args) => notify::notify(args).await,
            EventCommand::Watch(args) => watch::watch(args).await,
        }
    })
}

/// Returns the settings of a tool that attaches to the named server.
pub fn tool_settings(server: ToolArgs) -> Result<ToolSettings> {
    let attach = match server {
        ToolArgs { pid: Some(pid), .. } => AttachTarget::Pid(pid),
        ToolArgs {
            nspace: Some(nspace),
            ..
        } => AttachTarget::Nspace(nspace),
        ToolArgs { uri: Some(uri), .. } => AttachTarget::Uri(uri),
        ToolArgs {
            pid: None,
            nspace: None,
            uri: None,
        } => AttachTarget::Any,
    };
    Ok(ToolSettings {
        attach,
        ..ToolSettings::read()?
    })
}
