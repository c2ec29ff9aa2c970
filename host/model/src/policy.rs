//! Requests to policies and their outcomes.
use crate::{App, Info, Proc, Range, Status, Text};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

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

/// Kind of request that is decided. Each hook has a chain of policies and a built-in rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "named after the requests that they are about")]
pub enum Hook {
    Connection,
    Event,
    JobControl,
    Monitor,
    Provision,
    Log,
    Group,
    Spawn,
    Publish,
    Lookup,
    Query,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Hook; 11] = [
        Hook::Connection,
        Hook::Event,
        Hook::JobControl,
        Hook::Monitor,
        Hook::Provision,
        Hook::Log,
        Hook::Group,
        Hook::Spawn,
        Hook::Publish,
        Hook::Lookup,
        Hook::Query,
    ];

    /// Returns the name, as in configurations and messages.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Connection => "connection",
            Hook::Event => "event",
            Hook::JobControl => "job-control",
            Hook::Monitor => "monitor",
            Hook::Provision => "provision",
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
        Hook::ALL
            .into_iter()
            .find(|hook| hook.name() == name)
            .ok_or(())
    }
}

/// Kind of a connecting peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConnectionKind {
    /// A proc of a job.
    Client,
    /// A tool, or a launcher.
    Tool,
}

/// Kind of a group operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GroupOperationKind {
    /// Construct, with the requester as a member: by a call, or after all invited procs have
    /// joined.
    Construct,
    /// Destruct.
    Destruct,
    /// Invitation of other procs.
    Invite,
    /// Acceptance of an invitation.
    Join,
}

impl fmt::Display for GroupOperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupOperationKind::Construct => "construct",
            GroupOperationKind::Destruct => "destruct",
            GroupOperationKind::Invite => "invite",
            GroupOperationKind::Join => "join",
        })
    }
}

/// Subject of a policy request, by hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PolicySubject {
    /// A connection.
    Connection(ConnectionKind),
    /// An event that is raised, and whether it reaches other users.
    Event {
        /// Event code.
        code: Status,
        /// Range of the event.
        range: Range,
    },
    /// A registration for events.
    Registration,
    /// Job control.
    JobControl,
    /// Monitoring of procs, files or resource usage.
    Monitor,
    /// Provision of the nodes of [`PolicyRequest::provision`], and by which module.
    Provision,
    /// A log request.
    Log,
    /// An operation on the group [`PolicyRequest::group_name`].
    Group(GroupOperationKind),
    /// A spawn of [`PolicyRequest::applications`].
    Spawn,
}

impl PolicySubject {
    /// Returns the hook of the subject.
    pub fn hook(self) -> Hook {
        match self {
            PolicySubject::Connection(_) => Hook::Connection,
            PolicySubject::Event { .. } | PolicySubject::Registration => Hook::Event,
            PolicySubject::JobControl => Hook::JobControl,
            PolicySubject::Monitor => Hook::Monitor,
            PolicySubject::Provision => Hook::Provision,
            PolicySubject::Log => Hook::Log,
            PolicySubject::Group(_) => Hook::Group,
            PolicySubject::Spawn => Hook::Spawn,
        }
    }
}

/// Target proc of a request, with its owner.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetProc {
    /// The proc; its rank may be the wildcard.
    pub proc: Proc,
    /// User and group of its job; `None` if the job is not known here.
    pub owner: Option<UserIdentity>,
}

/// Peer of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Process id as the kernel reports it; `None` if it is unknown.
    pub pid: Option<u32>,
    /// Release of its library, as the peer states it.
    pub release: String,
}

/// Nodes to be provisioned (`PMIX_JOB_CTRL_PROVISION`). RFC "Job control and monitoring".
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Provision {
    /// Names of the nodes; ranges are resolved.
    pub nodes: Vec<String>,
    /// Image for the nodes (`PMIX_JOB_CTRL_PROVISION_IMAGE`), if given.
    pub image: Option<String>,
}

/// An application to be spawned. In its texts, bytes that are not UTF-8 are replaced by U+FFFD.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Application {
    /// Program as requested; empty if none is named.
    pub command: String,
    /// Arguments, without the program.
    pub arguments: Vec<String>,
    /// Environment, `NAME=value`.
    pub environment: Vec<String>,
    /// Working directory, unless directives name another.
    pub directory: Option<String>,
    /// Number of procs; 0 if the number is invalid.
    pub procs: u32,
    /// Number of its directives in [`PolicyRequest::infos`], where those of all applications follow
    /// each other.
    pub directives: usize,
}

impl From<&App> for Application {
    fn from(app: &App) -> Application {
        let all = |texts: &mut dyn Iterator<Item = &Option<Text>>| {
            texts.flatten().map(Text::to_string).collect()
        };
        Application {
            command: app.program().map(Text::to_string).unwrap_or_default(),
            arguments: all(&mut app.args.iter().skip(1)),
            environment: all(&mut app.env.iter()),
            directory: app.cwd.as_ref().map(Text::to_string),
            procs: u32::try_from(app.max_procs).unwrap_or_default(),
            directives: app.infos.len(),
        }
    }
}

/// A request as policies see it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyRequest {
    /// Subject of the request.
    pub matter: PolicySubject,
    /// Requester; `None` for a tool without a name.
    pub requester: Option<Proc>,
    /// User and group of the requester, as the kernel reports them.
    pub identity: Option<UserIdentity>,
    /// Unix groups of the requester's process, as the kernel reports them, that of `identity`
    /// first; empty if there is no process.
    #[serde(default = "no_groups", skip_serializing_if = "is_empty")]
    pub groups: Arc<[UnixGroup]>,
    /// User and group of the server.
    pub server: UserIdentity,
    /// Peer of the connection, if the subject is a connection.
    pub peer: Option<PeerInfo>,
    /// Target procs.
    pub targets: Vec<TargetProc>,
    /// Codes of a registration; empty for all.
    pub codes: Vec<Status>,
    /// Nodes to be provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<Provision>,
    /// Name of the group; `None` if the request is about none, or if an answer to an invitation
    /// names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// Applications to be spawned as one job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Application>,
    /// Infos of the request: of an event, of a connecting tool, the data to be logged, the monitor,
    /// or the directives of applications.
    pub infos: Vec<Info>,
    /// Directives of the request: of job control, a registration, a monitor, a log request, a spawn
    /// or a group operation. For an invitation and its answer, the infos of their event.
    pub directives: Vec<Info>,
}

/// Returns the groups of a request that was recorded before requests had groups.
fn no_groups() -> Arc<[UnixGroup]> {
    Arc::default()
}

fn is_empty(groups: &[UnixGroup]) -> bool {
    groups.is_empty()
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
