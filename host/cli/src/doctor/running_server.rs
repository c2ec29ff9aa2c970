//! Running server, if there is one: its version and its problems.
use super::Finding;
use peal_model::counted;
use peal_server::admin::{AdminReply, AdminRequest, AdminRequestError, ServerStatus, request};
use std::{io::ErrorKind, path::Path};

/// Answer of the server at a socket.
pub enum StatusAnswer {
    /// No server listens.
    Missing,
    /// State of the server.
    Status(Box<ServerStatus>),
    /// A server listens, and gave no state.
    Failed(String),
}

/// Asks the server at this socket for its state.
pub fn ask(socket: &Path) -> StatusAnswer {
    let reply = match request(socket, &AdminRequest::Status) {
        Ok(mut answers) => answers.reply(),
        Err(error) => Err(error),
    };
    match reply {
        Ok(AdminReply::Status(status)) => StatusAnswer::Status(Box::new(status)),
        Ok(AdminReply::Refused { reason }) => StatusAnswer::Failed(reason),
        Ok(_) => StatusAnswer::Failed("it sent another reply than its state".to_owned()),
        Err(AdminRequestError::Connect { source, .. })
            if matches!(
                source.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            StatusAnswer::Missing
        }
        Err(error) => StatusAnswer::Failed(crate::error_text(&error.into())),
    }
}

/// Examines the answer of the server.
pub fn examine(answer: &StatusAnswer, socket: &Path) -> Finding {
    let status = match answer {
        StatusAnswer::Status(status) => status,
        StatusAnswer::Missing => {
            return Finding::skipped(format!("none listens at {}", socket.display()));
        }
        StatusAnswer::Failed(reason) => {
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
