//! Running server, if there is one: its version and its problems.
use super::Finding;
use peal_model::counted;
use peal_server::admin::{AdminReply, AdminRequest, AdminRequestError, ServerStatus, request};
use std::{io::ErrorKind, path::Path};

/// Answer of the server at a socket.
pub enum ServerAnswer {
    /// No server listens.
    Missing,
    /// State of the server.
    Status(Box<ServerStatus>),
    /// A server listens, and gave no state.
    Failed(String),
}

/// Asks the server at this socket for its state.
pub fn ask(socket: &Path) -> ServerAnswer {
    let reply = match request(socket, &AdminRequest::Status) {
        Ok(mut answers) => answers.reply(),
        Err(error) => Err(error),
    };
    match reply {
        Ok(AdminReply::Status(status)) => ServerAnswer::Status(Box::new(status)),
        Ok(AdminReply::Refused { reason }) => ServerAnswer::Failed(reason),
        Ok(_) => ServerAnswer::Failed("it sent another reply than its state".to_owned()),
        Err(AdminRequestError::Connect { source, .. })
            if matches!(
                source.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            ServerAnswer::Missing
        }
        Err(error) => ServerAnswer::Failed(crate::error_text(&error.into())),
    }
}

/// Examines the answer of the server.
pub fn examine(answer: &ServerAnswer, socket: &Path) -> Finding {
    let status = match answer {
        ServerAnswer::Status(status) => status,
        ServerAnswer::Missing => {
            return Finding::skipped(format!("none listens at {}", socket.display()));
        }
        ServerAnswer::Failed(reason) => {
            return Finding::warning(
                format!("the one at {} gives no state: {reason}", socket.display()),
                "Its administrators and its own user may ask for it; `journalctl -u peal` shows what it does.",
            );
        }
    };
    let ServerStatus {
        version,
        pid,
        troubles,
        ..
    } = &**status;
    let found = format!("version {version}, process {pid}, at {}", socket.display());
    if !troubles.is_empty() {
        return Finding::warning(
            format!("{found}, with {}", counted(troubles.len(), "problem")),
            "`peal status` shows them",
        );
    }
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        return Finding::warning(
            found,
            format!("This program has version {own}. Restart the server to run it."),
        );
    }
    Finding::ok(found)
}
