//! Identity of a peer, as stated in the handshake.
use crate::{Dialect, SingletonReply};
use peal_model::{Bytes, Proc, Text};

/// User and group of a process, as the peer states them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimedUser {
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// Credential of a peer (`psec` module of OpenPMIx and its data).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// Module `none`, without data.
    None,
    /// Module `native`. The statement proves nothing: the server must ask the socket.
    Native(ClaimedUser),
    /// Module `munge`, the text of a munge credential with its NUL.
    Munge(Bytes),
    /// Another module.
    Other {
        /// Name of the module.
        module: Text,
        /// Data of the credential.
        bytes: Bytes,
    },
}

/// Source of a tool's or launcher's identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolIdentifier {
    /// The server assigns it.
    Wanted,
    /// The tool has its own.
    Own(Proc),
    /// The server that started the tool assigned it, so the tool is a client, too.
    Started(Proc),
}

/// Kind of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerKind {
    /// A proc of a job, started by the server's host environment.
    Client(Proc),
    /// A tool.
    Tool(ClaimedUser, ToolIdentifier),
    /// A tool that starts jobs.
    Launcher(ClaimedUser, ToolIdentifier),
    /// A proc that was not started as part of a job.
    Singleton(ClaimedUser, Proc),
    /// The scheduler of the system.
    Scheduler(ClaimedUser, Proc),
}

impl PeerKind {
    /// Returns the proc that the peer states; `None` if it requests an identifier.
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

    /// Returns the user that the peer states. A client states it only in its credential.
    pub fn user(&self) -> Option<ClaimedUser> {
        match self {
            PeerKind::Client(_) => None,
            PeerKind::Tool(user, _)
            | PeerKind::Launcher(user, _)
            | PeerKind::Singleton(user, _)
            | PeerKind::Scheduler(user, _) => Some(*user),
        }
    }

    /// Returns the form of the welcome that the peer expects.
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

/// Form of a server's answer to a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WelcomeForm {
    /// An index.
    Client,
    /// The server's name.
    Tool,
    /// A name for the tool and the server's name.
    NamedTool,
}
