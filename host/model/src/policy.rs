//! Requests to policies and their outcomes.
use crate::{Info, PolicySubject, Proc, Range, Status};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// User and group of a process, as the kernel reports them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UserIdentity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

impl fmt::Display for UserIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} and group {}", self.uid, self.gid)
    }
}

/// A Unix group of a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnixGroup {
    /// Group id.
    pub gid: u32,
    /// Name of the group, if it is known.
    pub name: Option<String>,
}

/// Target proc of a request, with its owner.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetProc {
    /// The proc; its rank may be the wildcard.
    pub proc: Proc,
    /// User and group of its job; `None` if the job is not known here.
    pub owner: Option<UserIdentity>,
}

/// A request as policies see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyRequest {
    /// Subject of the request, with the data of its hook.
    pub subject: PolicySubject,
    /// Requester; `None` for a tool without a name.
    pub requester: Option<Proc>,
    /// User and group of the requester, as the kernel reports them.
    pub identity: Option<UserIdentity>,
    /// Unix groups of the requester's process, as the kernel reports them, that of `identity`
    /// first; empty if there is no process.
    pub groups: Arc<[UnixGroup]>,
    /// User and group of the server.
    pub server: UserIdentity,
    /// Target procs.
    pub targets: Vec<TargetProc>,
}

/// Change of a request by a policy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Amendment {
    /// Replacement of the directives or, for an event or a connection, of the infos.
    pub infos: Option<Vec<Info>>,
    /// Replacement of an event's range.
    pub range: Option<Range>,
    /// Replacement of the data to be logged.
    pub data: Option<Vec<Info>>,
}

/// Outcome of one policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PolicyOutcome {
    /// No decision: later policies decide.
    Pass,
    /// The request is granted.
    Grant,
    /// The request is denied, with the status for the requester.
    Deny(Status),
}

/// A log request, as one channel sees it. RFC "Logging extension".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LogRequest {
    /// Requester; `None` for the host environment.
    pub source: Option<Proc>,
    /// User and group of the requester, as the kernel reports them.
    pub identity: Option<UserIdentity>,
    /// Timestamp of the requester, in seconds since the epoch.
    pub timestamp: Option<u64>,
    /// Data to be logged, complete.
    pub data: Vec<Info>,
    /// Directives of the request.
    pub directives: Vec<Info>,
}

/// A mail that a log channel submits, in its parts. The sink checks them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mail {
    /// Sender: an address, or `Name <address>`; the sink's own if absent.
    pub sender: Option<String>,
    /// Recipients: addresses, or `Name <address>`.
    pub recipients: Vec<String>,
    /// Subject, one line.
    pub subject: String,
    /// Text with line feeds.
    pub text: String,
    /// Mail server; the sink's own if absent.
    pub server: Option<String>,
    /// Port of the mail server; that of the sink's own server if absent.
    pub port: Option<u16>,
}

impl Mail {
    /// Returns the length of all parts together, in bytes.
    pub fn size(&self) -> usize {
        let parts = self
            .recipients
            .iter()
            .chain(&self.sender)
            .chain(&self.server);
        parts
            .chain([&self.subject, &self.text])
            .map(String::len)
            .sum()
    }
}
