//! Running server, if there is one: its version and its problems.
use super::Finding;
use crate::{admin, args::ServerArgs};
use peal_model::counted;
use peal_server::admin::{AdminReply, AdminRequest, ServerStatus};
use std::path::Path;

/// Asks the chosen server for its state.
pub fn ask(at: ServerArgs) -> Option<ServerStatus> {
    match admin::request(at, &AdminRequest::Status) {
        Ok((AdminReply::Status(status), _)) => Some(status),
        _ => None,
    }
}

/// Examines the state that the server gave.
pub fn examine(running: Option<&ServerStatus>, socket: &Path) -> Finding {
    let Some(status) = running else {
        return Finding::skipped(format!("none answers at {}", socket.display()));
    };
    let ServerStatus {
        version,
        pid,
        troubles,
        ..
    } = status;
    let own = env!("CARGO_PKG_VERSION");
    let found = format!("version {version}, process {pid}, at {}", socket.display());
    if !troubles.is_empty() {
        return Finding::warning(
            format!("{found}, with {}", counted(troubles.len(), "problem")),
            "`peal status` shows them",
        );
    }
    if version != own {
        return Finding::warning(
            found,
            format!("This program has version {own}. Restart the server to run it."),
        );
    }
    Finding::ok(found)
}
