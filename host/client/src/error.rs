//! What can go wrong for a client.
use crate::{Call, NotFormed, ServerInfo};
use peal_core::{
    policy,
    registration::{RegistrationError, RegistrationId},
};
use peal_model::{Info, Key, Proc, Status};
use peal_wire::{ServerUri, WireError};
use std::{fmt::Write, path::PathBuf, time::Duration};
use thiserror::Error;

/// Why a client's call failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// A variable of the environment is missing: the program was not started by a PMIx server.
    #[error(
        "{variable} is not set: start the program under a PMIx server, as with `peal run -n 4 -- PROGRAM`"
    )]
    NotSet {
        /// Which one.
        variable: &'static str,
    },
    /// A variable of the environment cannot be understood.
    #[error("{variable} is {value:?}, it should be {wanted}")]
    BadVariable {
        /// Which one.
        variable: &'static str,
        /// As it is.
        value: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// No rendezvous file leads to the server that a tool looks for.
    #[error(
        "no file {wanted} in {}{}: is the server running, does it serve tools, and is this its directory?",
        .directory.display(),
        strangers(*.passed_by)
    )]
    NoServer {
        /// Its name.
        wanted: String,
        /// Where it was looked for.
        directory: PathBuf,
        /// How many files of that name belong to other users, who must not choose a tool's server.
        passed_by: usize,
    },
    /// The directory holds more than is looked through, and no file of that name was among it.
    #[error("no {wanted} among the first {limit} files below {}: name the file itself", .directory.display())]
    TooMuchToSearch {
        /// The name of the file.
        wanted: String,
        /// Where it was looked for.
        directory: PathBuf,
        /// How many files and directories are looked at.
        limit: usize,
    },
    /// Several servers could be meant.
    #[error("{} could be meant by {wanted}: name one of them", listed(.found))]
    SeveralServers {
        /// The name of the rendezvous files.
        wanted: String,
        /// The files.
        found: Vec<PathBuf>,
    },
    /// A rendezvous file that was named cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is no rendezvous file.
    #[error("{} begins with {line:?}, it should be NSPACE.RANK;tcp4://ADDRESS:PORT", .path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// Its first line, or the beginning of it.
        line: String,
    },
    /// The server cannot be reached.
    #[error("cannot reach the server at {server}: {source}")]
    Unreachable {
        /// Its name and address.
        server: ServerUri,
        /// What the system says.
        source: std::io::Error,
    },
    /// The server closed the connection instead of welcoming us, or said no.
    #[error("the server at {server} refused the connection{}; its trace says why, which whoever runs it can read", said(.status))]
    Unwelcome {
        /// Its name and address.
        server: ServerUri,
        /// What it said, if anything.
        status: Option<Status>,
    },
    /// The server has not answered the handshake in time.
    #[error("the server at {server} did not answer the handshake within {limit:?}")]
    NoWelcome {
        /// Its name and address.
        server: ServerUri,
        /// How long it had.
        limit: Duration,
    },
    /// The two halves of the handshake do not fit.
    #[error("the handshake with the server at {server} failed: {source}")]
    Handshake {
        /// Its name and address.
        server: ServerUri,
        /// What is wrong.
        source: Box<WireError>,
    },
    /// There is no server: the client has finalized, or the tool has none at present.
    #[error("{call} needs a server: this client has finalized, or this tool must attach to one")]
    NoConnection {
        /// What was called.
        call: Call,
    },
    /// There is no server and never was: the program runs alone.
    #[error("{call} needs a server, and this program runs alone")]
    Alone {
        /// What was called.
        call: Call,
    },
    /// The connection to the server is gone.
    #[error("{call}: the connection to the server at {server} is lost")]
    Lost {
        /// What was called.
        call: Call,
        /// The server's name and address.
        server: ServerUri,
    },
    /// The answer has not come in time. If it still comes, it is dropped.
    #[error("{call} was not answered within {limit:?}{}", by(.server))]
    TimedOut {
        /// What was called.
        call: Call,
        /// Who did not answer; nobody if there is no server any more.
        server: Option<Box<ServerInfo>>,
        /// How long it could take.
        limit: Duration,
    },
    /// What was given cannot be said in the protocol.
    #[error("{call} cannot be packed for the server at {server}: {source}")]
    Pack {
        /// What was called.
        call: Call,
        /// The server's name and address.
        server: ServerUri,
        /// What is wrong.
        source: Box<WireError>,
    },
    /// A path or a name cannot be registered for cleanup, since commas separate them there.
    #[error(
        "{path:?} cannot be registered under {key}, where a comma separates paths: register the directory that it is in"
    )]
    CommaInPath {
        /// The path or name.
        path: PathBuf,
        /// The key string.
        key: &'static str,
    },
    /// The answer is not as the protocol has it.
    #[error("the answer of the server at {server} to {call} cannot be unpacked: {source}")]
    Unpack {
        /// What was called.
        call: Call,
        /// The server's name and address.
        server: ServerUri,
        /// What is wrong.
        source: Box<WireError>,
    },
    /// The server answered something else than what was asked for.
    #[error("the server's answer to {call} does not fit the request")]
    UnfitAnswer {
        /// What was called.
        call: Call,
    },
    /// The server answered with an error.
    #[error("{call} is refused by the server at {server}: {status}{}", reasons(.infos))]
    Refused {
        /// What was called.
        call: Call,
        /// The server's name and address.
        server: ServerUri,
        /// The status that it gave.
        status: Status,
        /// Why, if it says so: the reasons of a policy, for one.
        infos: Vec<Info>,
    },
    /// There is no such value.
    #[error("{proc} has no value {key:?}")]
    NotFound {
        /// Whose value.
        proc: Proc,
        /// Which one.
        key: Key,
    },
    /// The registration is refused by the rules of order.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// There is no such registration, or no more.
    #[error("no handler is registered under number {}", .id.0)]
    NotRegistered {
        /// The number.
        id: RegistrationId,
    },
    /// The tool is not attached to that server.
    #[error("this tool is not attached to {server}; it is attached to {}", listed(.attached))]
    NotAttached {
        /// The server.
        server: Proc,
        /// The servers that there are.
        attached: Vec<Proc>,
    },
    /// A group to which somebody invited is not there.
    #[error("group {group:?} is not formed: {why}")]
    NotFormed {
        /// What it should have been called.
        group: String,
        /// Why.
        why: NotFormed,
    },
    /// Nobody has said what became of an invitation that was accepted. It is declined after all.
    #[error("{leader} has not said within {limit:?} what became of group {group:?}")]
    NotJoined {
        /// What it should have been called.
        group: String,
        /// Who leads.
        leader: Proc,
        /// How long was waited.
        limit: Duration,
    },
    /// No thread for handlers could be started.
    #[error("cannot start a thread for handlers: {0}")]
    Thread(std::io::Error),
}

impl ClientError {
    /// The status that says it in the Standard's terms.
    pub fn status(&self) -> Status {
        use peal_model::code::*;
        match self {
            ClientError::NotSet { .. }
            | ClientError::BadVariable { .. }
            | ClientError::NoConnection { .. } => PMIX_ERR_INIT,
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
            ClientError::NotFormed { why, .. } => why.status(),
            ClientError::Pack { .. } => PMIX_ERR_PACK_FAILURE,
            ClientError::CommaInPath { .. } => PMIX_ERR_BAD_PARAM,
            ClientError::Unpack { source, .. } => source.status(),
            ClientError::UnfitAnswer { .. } => PMIX_ERR_UNPACK_FAILURE,
            ClientError::Refused { status, .. } => *status,
            ClientError::NotFound { .. }
            | ClientError::NotRegistered { .. }
            | ClientError::NotAttached { .. } => PMIX_ERR_NOT_FOUND,
            ClientError::Registration(error) => error.status(),
            ClientError::Thread(_) => PMIX_ERR_OUT_OF_RESOURCE,
        }
    }
}

fn strangers(count: usize) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(" that is root's or your own ({count} of other users are there)")
    }
}

fn by(server: &Option<Box<ServerInfo>>) -> String {
    server
        .as_ref()
        .map(|server| format!(" by the server at {server}"))
        .unwrap_or_default()
}

fn said(status: &Option<Status>) -> String {
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

/// A text without what could end a line or move the cursor.
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

/// What a server may say at most, in bytes, before an error message leaves out the rest.
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
