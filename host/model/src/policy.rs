//! What policies are asked and what one of them says.
use crate::{Info, Proc, Range, Status};
use std::{fmt, str::FromStr};

/// User and group of a process, as the kernel knows them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} and group {}", self.uid, self.gid)
    }
}

/// What is decided about: each hook has a chain of policies and a default of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "named after the requests that they are about")]
pub enum Hook {
    Connection,
    Event,
    JobControl,
    Monitor,
    Log,
    Group,
    Spawn,
    Publish,
    Lookup,
    Query,
}

impl Hook {
    /// Every hook.
    pub const ALL: [Hook; 10] = [
        Hook::Connection,
        Hook::Event,
        Hook::JobControl,
        Hook::Monitor,
        Hook::Log,
        Hook::Group,
        Hook::Spawn,
        Hook::Publish,
        Hook::Lookup,
        Hook::Query,
    ];

    /// Its name, as configurations and messages have it.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Connection => "connection",
            Hook::Event => "event",
            Hook::JobControl => "job-control",
            Hook::Monitor => "monitor",
            Hook::Log => "log",
            Hook::Group => "group",
            Hook::Spawn => "spawn",
            Hook::Publish => "publish",
            Hook::Lookup => "lookup",
            Hook::Query => "query",
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Hook {
    type Err = ();
    fn from_str(name: &str) -> Result<Hook, ()> {
        Hook::ALL.into_iter().find(|hook| hook.name() == name).ok_or(())
    }
}

/// Who wants to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionKind {
    /// A proc of a job.
    Client,
    /// A tool, or a launcher.
    Tool,
}

/// What a policy is asked about, by the hook that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Matter {
    /// Whether somebody may connect.
    Connection(ConnectionKind),
    /// Whether an event may be raised, and reach other users.
    Event {
        /// What happened.
        code: Status,
        /// Whom it is meant for.
        range: Range,
    },
    /// Whether somebody may register for events.
    Registration,
    /// Whether procs may be controlled.
    JobControl,
}

impl Matter {
    /// The hook that asks.
    pub fn hook(self) -> Hook {
        match self {
            Matter::Connection(_) => Hook::Connection,
            Matter::Event { .. } | Matter::Registration => Hook::Event,
            Matter::JobControl => Hook::JobControl,
        }
    }
}

/// A proc that a request is about, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The proc; its rank may be the wildcard.
    pub proc: Proc,
    /// User and group of its job; none where the job is not known here.
    pub owner: Option<Identity>,
}

/// What is at the other end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its process by the kernel's word; none where that was not looked for or cannot be told.
    pub pid: Option<u32>,
    /// The release of its library by its own word.
    pub release: String,
}

/// A request as policies see it.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyRequest {
    /// What is asked.
    pub matter: Matter,
    /// Who asks; none for a tool that has no name yet.
    pub requester: Option<Proc>,
    /// As whom, by the kernel's word.
    pub identity: Option<Identity>,
    /// As whom the server runs.
    pub server: Identity,
    /// What is at the other end of a connection that is asked about.
    pub peer: Option<Peer>,
    /// Whom it is about.
    pub targets: Vec<Target>,
    /// The codes of a registration; none means all.
    pub codes: Vec<Status>,
    /// What it carries: an event's infos, what a tool said of itself.
    pub infos: Vec<Info>,
    /// How it is to be done: the directives of job control, or of a registration.
    pub directives: Vec<Info>,
}

/// How a policy changes what it is asked about.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Amendment {
    /// What stands in the place of the directives or, where a request is about an event or a connection, of the infos.
    pub infos: Option<Vec<Info>>,
    /// What stands in the place of an event's range.
    pub range: Option<Range>,
}

/// What one policy says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyOutcome {
    /// Nothing: those after it decide.
    Pass,
    /// Yes.
    Grant,
    /// No, with the status that the requester is told.
    Deny(Status),
}

/// A request to write to log channels, as one channel sees it. RFC "Logging extension".
#[derive(Clone, PartialEq, Debug)]
pub struct LogRequest {
    /// Who asks; none for the host environment.
    pub source: Option<Proc>,
    /// As whom, by the kernel's word.
    pub identity: Option<Identity>,
    /// Seconds since the epoch, as the requester gave them.
    pub timestamp: Option<u64>,
    /// What is to be written, all of it.
    pub data: Vec<Info>,
    /// How.
    pub directives: Vec<Info>,
}
