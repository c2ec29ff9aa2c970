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
    match command {
        EventCommand::Notify(args) => node::as_tool(notify::notify(args)),
        EventCommand::Watch(args) if args.cluster => watch_nodes::run(args),
        EventCommand::Watch(args) => node::as_tool(watch::watch(args)),
    }
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
