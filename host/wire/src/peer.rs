//! Who connects: what a peer says of itself in the handshake.
use crate::{Dialect, SingletonReply};
use peal_model::{Bytes, Proc, Text};

/// The user and group that a process runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimedUser {
    /// The effective user id.
    pub uid: u32,
    /// The effective group id.
    pub gid: u32,
}

/// How a peer shows who it is (the `psec` module and what it sends).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Module `none`: it does not.
    None,
    /// Module `native`: it says so. Worth nothing without a look at the socket.
    Native(ClaimedUser),
    /// Module `munge`: the text of a munge credential with its NUL.
    Munge(Bytes),
    /// Another module.
    Other {
        /// Its name.
        module: Text,
        /// What it sends.
        bytes: Bytes,
    },
}

/// Where a tool or launcher has its identifier from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolIdentifier {
    /// It wants one from the server.
    Wanted,
    /// It brings its own.
    Own(Proc),
    /// From the server that started it: it is a client, too.
    Started(Proc),
}

/// What kind of process a peer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerKind {
    /// A proc of a job that the server's host started.
    Client(Proc),
    /// A tool.
    Tool(ClaimedUser, ToolIdentifier),
    /// A tool that starts jobs.
    Launcher(ClaimedUser, ToolIdentifier),
    /// A proc that nobody started as part of a job.
    Singleton(ClaimedUser, Proc),
    /// The scheduler of the system.
    Scheduler(ClaimedUser, Proc),
}

impl PeerKind {
    /// The proc that the peer says it is; nothing if it wants an identifier.
    pub fn proc(&self) -> Option<&Proc> {
        match self {
            PeerKind::Client(proc)
            | PeerKind::Singleton(_, proc)
            | PeerKind::Scheduler(_, proc) => Some(proc),
            PeerKind::Tool(_, identity) | PeerKind::Launcher(_, identity) => match identity {
                ToolIdentifier::Wanted => None,
                ToolIdentifier::Own(proc) | ToolIdentifier::Started(proc) => Some(proc),
            },
        }
    }

    /// The user that the peer says it runs as; a client says so in its credential only.
    pub fn user(&self) -> Option<ClaimedUser> {
        match self {
            PeerKind::Client(_) => None,
            PeerKind::Tool(user, _)
            | PeerKind::Launcher(user, _)
            | PeerKind::Singleton(user, _)
            | PeerKind::Scheduler(user, _) => Some(*user),
        }
    }

    /// In which form the peer expects to be welcomed.
    pub fn welcome_form(&self, dialect: &Dialect) -> WelcomeForm {
        match self {
            PeerKind::Client(_) => WelcomeForm::Client,
            PeerKind::Tool(_, ToolIdentifier::Wanted)
            | PeerKind::Launcher(_, ToolIdentifier::Wanted) => WelcomeForm::NamedTool,
            PeerKind::Singleton(..) if dialect.singleton_reply() == SingletonReply::Client => {
                WelcomeForm::Client
            }
            _ => WelcomeForm::Tool,
        }
    }
}

/// What a server answers to a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WelcomeForm {
    /// An index.
    Client,
    /// The server's name.
    Tool,
    /// A name for the tool and the server's name.
    NamedTool,
}
