//! Errors of a client.
use crate::{Call, NotFormed, ServerInfo};
use peal_core::{
    policy,
    registration::{RegistrationError, RegistrationId},
};
use peal_model::{Info, Key, Proc, Status};
use peal_wire::{ServerUri, WireError};
use std::{fmt::Write, path::PathBuf, time::Duration};
use thiserror::Error;

/// Reason why a client's call failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// A variable of the environment is missing: the program was not started by a PMIx server.
    #[error(
        "{variable} is not set: start the program under a PMIx server, as with `peal run -n 4 -- PROGRAM`"
    )]
    NotSet {
        /// Name of the variable.
        variable: &'static str,
    },
    /// A variable of the environment cannot be parsed.
    #[error("{variable} is {value:?}, it should be {expected}")]
    BadVariable {
        /// Name of the variable.
        variable: &'static str,
        /// Value of the variable.
        value: String,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// No rendezvous file leads to the requested server.
    #[error(
        "no file {name} in {}{}: check that the server runs, serves tools and uses this directory",
        .directory.display(),
        files_of_others(*.passed_by)
    )]
    NoServer {
        /// Name of the file.
        name: String,
        /// Directory that was searched.
        directory: PathBuf,
        /// Number of files of that name that belong to other users, who must not choose a tool's
        /// server.
        passed_by: usize,
    },
    /// The directory holds more files than the search limit, and no file of that name was among
    /// those searched.
    #[error("no {name} among the first {limit} files below {}: name the file itself", .directory.display())]
    TooMuchToSearch {
        /// Name of the file.
        name: String,
        /// Directory that was searched.
        directory: PathBuf,
        /// Limit of the search: number of files and directories.
        limit: usize,
    },
    /// More than one server fits.
    #[error("{name} fits several files, {}: name one of them", listed(.found))]
    SeveralServers {
        /// Name or prefix of the rendezvous files.
        name: String,
        /// Files that fit.
        found: Vec<PathBuf>,
    },
    /// A named rendezvous file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    UnreadableFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A file is not a rendezvous file.
    #[error("{} begins with {line:?}, it should be NSPACE.RANK;tcp4://ADDRESS:PORT", .path.display())]
    BadFile {
        /// Path of the file.
        path: PathBuf,
        /// First line of the file, or the beginning of it.
        line: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach the server at {server}: {source}")]
    Unreachable {
        /// Name and address of the server.
        server: ServerUri,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The server closed the connection during the handshake, or refused it with a status.
    #[error("the server at {server} refused the connection{}; the reason is in its trace, which its admins can read", status_text(.status))]
    Unwelcome {
        /// Name and address of the server.
        server: ServerUri,
        /// Status that the server sent, if any.
        status: Option<Status>,
    },
    /// The server did not answer the handshake in time.
    #[error("the server at {server} did not answer the handshake within {limit:?}")]
    NoWelcome {
        /// Name and address of the server.
        server: ServerUri,
        /// Time limit of the handshake.
        limit: Duration,
    },
    /// The server's answer to the handshake is invalid.
    #[error("the handshake with the server at {server} failed: {source}")]
    Handshake {
        /// Name and address of the server.
        server: ServerUri,
        /// Error of the decoder.
        source: Box<WireError>,
    },
    /// There is no server: the client has finalized, or the tool has none at present.
    #[error("{call} needs a server: this client has finalized, or this tool must attach to one")]
    NoConnection {
        /// Call that failed.
        call: Call,
    },
    /// The program runs without a server, and never had one.
    #[error("{call} needs a server, and this program runs without one")]
    Alone {
        /// Call that failed.
        call: Call,
    },
    /// The connection to the server is lost.
    #[error("{call}: the connection to the server at {server} is lost")]
    Lost {
        /// Call that failed.
        call: Call,
        /// Name and address of the server.
        server: ServerUri,
    },
    /// The reply did not come in time. A later reply is dropped.
    #[error("{call} was not answered within {limit:?}{}", by(.server))]
    TimedOut {
        /// Call that failed.
        call: Call,
        /// Server that did not answer; `None` if there is no server any more.
        server: Option<Box<ServerInfo>>,
        /// Time limit of the call.
        limit: Duration,
    },
    /// The arguments of the call cannot be encoded in the protocol.
    #[error("{call} cannot be packed for the server at {server}: {source}")]
    Pack {
        /// Call that failed.
        call: Call,
        /// Name and address of the server.
        server: ServerUri,
        /// Error of the encoder.
        source: Box<WireError>,
    },
    /// A path or name with a comma cannot be registered for cleanup, since commas separate paths
    /// there.
    #[error(
        "{path:?} cannot be registered under {key}, where a comma separates paths: register the directory that it is in"
    )]
    CommaInPath {
        /// Path or name.
        path: PathBuf,
        /// Key string of the directive.
        key: &'static str,
    },
    /// The reply cannot be decoded.
    #[error("the answer of the server at {server} to {call} cannot be unpacked: {source}")]
    Unpack {
        /// Call that failed.
        call: Call,
        /// Name and address of the server.
        server: ServerUri,
        /// Error of the decoder.
        source: Box<WireError>,
    },
    /// The reply is of another kind than the request.
    #[error("the server's answer to {call} does not fit the request")]
    UnfitAnswer {
        /// Call that failed.
        call: Call,
    },
    /// The server replied with an error status.
    #[error("{call} is refused by the server at {server}: {status}{}", reasons(.infos))]
    Refused {
        /// Call that failed.
        call: Call,
        /// Name and address of the server.
        server: ServerUri,
        /// Status of the reply.
        status: Status,
        /// Further infos of the reply, such as the reasons of a policy.
        infos: Vec<Info>,
    },
    /// The proc has no such value.
    #[error("{proc} has no value {key:?}")]
    NotFound {
        /// Requested proc.
        proc: Proc,
        /// Requested key.
        key: Key,
    },
    /// The registration violates the placement rules.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// There is no such registration, or it has ended.
    #[error("no handler is registered under number {}", .id.0)]
    NotRegistered {
        /// Id of the registration.
        id: RegistrationId,
    },
    /// There is no such pull of output, or it has ended.
    #[error("no output is pulled under number {id}")]
    NoSuchPull {
        /// Id of the pull.
        id: u64,
    },
    /// The tool is not attached to that server.
    #[error("this tool is not attached to {server}; it is attached to {}", listed(.attached))]
    NotAttached {
        /// Server that was named.
        server: Proc,
        /// Servers that the tool is attached to.
        attached: Vec<Proc>,
    },
    /// A group by invitation was not formed.
    #[error("group {group:?} is not formed: {reason}")]
    NotFormed {
        /// Name of the group.
        group: String,
        /// Reason.
        reason: NotFormed,
    },
    /// The leader did not announce the result of an accepted invitation in time. The client then
    /// declines it.
    #[error("{leader} did not announce the result of group {group:?} within {limit:?}")]
    NotJoined {
        /// Name of the group.
        group: String,
        /// Leader of the group.
        leader: Proc,
        /// Time limit.
        limit: Duration,
    },
    /// The thread for handlers could not be started.
    #[error("cannot start a thread for handlers: {0}")]
    Thread(std::io::Error),
}

impl ClientError {
    /// Returns the status of the Standard for this error.
    pub fn status(&self) -> Status {
        use peal_model::code::*;
        match self {
            ClientError::NotSet { .. }
            | ClientError::BadVariable { .. }
            | ClientError::NoConnection { .. } => PMIX_ERR_INIT,
            // The C library returns PMIX_ERR_UNREACH where it finds no server, and where one
            // refuses it.
            ClientError::NoServer { .. }
            | ClientError::Alone { .. }
            | ClientError::TooMuchToSearch { .. }
            | ClientError::SeveralServers { .. }
            | ClientError::UnreadableFile { .. }
            | ClientError::BadFile { .. }
            | ClientError::Unreachable { .. }
            | ClientError::Unwelcome { .. }
            | ClientError::NoWelcome { .. }
            | ClientError::Handshake { .. } => PMIX_ERR_UNREACH,
            ClientError::Lost { .. } => PMIX_ERR_LOST_CONNECTION,
            ClientError::TimedOut { .. } | ClientError::NotJoined { .. } => PMIX_ERR_TIMEOUT,
            ClientError::NotFormed { reason, .. } => reason.status(),
            ClientError::Pack { .. } => PMIX_ERR_PACK_FAILURE,
            ClientError::CommaInPath { .. } => PMIX_ERR_BAD_PARAM,
            ClientError::Unpack { source, .. } => source.status(),
            ClientError::UnfitAnswer { .. } => PMIX_ERR_UNPACK_FAILURE,
            ClientError::Refused { status, .. } => *status,
            ClientError::NotFound { .. }
            | ClientError::NotRegistered { .. }
            | ClientError::NoSuchPull { .. }
            | ClientError::NotAttached { .. } => PMIX_ERR_NOT_FOUND,
            ClientError::Registration(error) => error.status(),
            ClientError::Thread(_) => PMIX_ERR_OUT_OF_RESOURCE,
        }
    }
}

fn files_of_others(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(" of root or of this user ({count} of other users ignored)")
    }
}

fn by(server: &Option<Box<ServerInfo>>) -> String {
    server
        .as_ref()
        .map(|server| format!(" by the server at {server}"))
        .unwrap_or_default()
}

fn status_text(status: &Option<Status>) -> String {
    status
        .map(|status| format!(" with {status}"))
        .unwrap_or_default()
}

fn listed<T: std::fmt::Debug>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    if items.is_empty() {
        "none".to_owned()
    } else {
        items.join(", ")
    }
}

/// Escapes the control characters of a text, which could end a line or move the cursor.
fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|of| {
            if of.is_control() {
                of.escape_debug().collect::<Vec<_>>()
            } else {
                vec![of]
            }
        })
        .collect()
}

/// Length in bytes after which a server's reasons are cut off in an error message.
const REASONS: usize = 1024;

fn reasons(infos: &[Info]) -> String {
    let mut text = String::new();
    for info in infos {
        // Writing to a string cannot fail.
        let before = if text.is_empty() { ":" } else { "," };
        let _ = match info.value.as_str().filter(|_| info.key == policy::REASON) {
            Some(reason) => write!(text, "{before} {}", plain(reason)),
            None => write!(text, "{before} {info}"),
        };
        if text.len() > REASONS {
            text.truncate(text.floor_char_boundary(REASONS));
            text.push_str(" ...");
            break;
        }
    }
    text
}
