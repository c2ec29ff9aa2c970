//! What policies are asked and what one of them says.
use crate::{App, Info, Proc, Range, Status, Text};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// User and group of a process, as the kernel knows them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct UserIdentity {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

impl fmt::Display for UserIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {} and group {}", self.uid, self.gid)
    }
}

/// A group of the system's that somebody belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnixGroup {
    /// Its number.
    pub gid: u32,
    /// Its name, where that is known.
    pub name: Option<String>,
}

/// What is decided about: each hook has a chain of policies and a default of its own.
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
    /// Every hook.
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

    /// Its name, as configurations and messages have it.
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

/// Who wants to connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConnectionKind {
    /// A proc of a job.
    Client,
    /// A tool, or a launcher.
    Tool,
}

/// What is to be done about a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GroupOperationKind {
    /// It is formed, with the requester in it: by a call, or since all who were invited have come.
    Construct,
    /// It is dissolved.
    Destruct,
    /// Others are invited to it.
    Invite,
    /// An invitation is accepted.
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

/// What a policy is asked about, by the hook that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PolicySubject {
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
    /// Whether procs, files or the use of resources may be watched.
    Monitor,
    /// Whether nodes are provided, and by whom: those of [`PolicyRequest::provision`].
    Provision,
    /// Whether something may be logged.
    Log,
    /// Whether somebody may take part in a group: that of [`PolicyRequest::group_name`].
    Group(GroupOperationKind),
    /// Whether a job may be spawned: that of [`PolicyRequest::applications`].
    Spawn,
}

impl PolicySubject {
    /// The hook that asks.
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

/// A proc that a request is about, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TargetProc {
    /// The proc; its rank may be the wildcard.
    pub proc: Proc,
    /// User and group of its job; none where the job is not known here.
    pub owner: Option<UserIdentity>,
}

/// What is at the other end of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Its process by the kernel's word; none where that was not looked for or cannot be told.
    pub pid: Option<u32>,
    /// The release of its library by its own word.
    pub release: String,
}

/// Nodes that are to be made ready for use (`PMIX_JOB_CTRL_PROVISION`). RFC "Job control and monitoring".
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Provision {
    /// The name of each; ranges are resolved.
    pub nodes: Vec<String>,
    /// What is to be put on them (`PMIX_JOB_CTRL_PROVISION_IMAGE`), if that is said.
    pub image: Option<String>,
}

/// An application that is to be started, in the words of a policy: what is not UTF-8 has U+FFFD in the place of what is not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Application {
    /// The program as it was asked for; empty where none is named.
    pub command: String,
    /// Its arguments, without its name.
    pub arguments: Vec<String>,
    /// Its environment, `NAME=value`.
    pub environment: Vec<String>,
    /// Where it starts, unless directives say otherwise.
    pub directory: Option<String>,
    /// How many procs; 0 where the number makes no sense.
    pub procs: u32,
    /// How many of [`PolicyRequest::infos`] are its directives; those of all applications follow each other there.
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
    /// What is asked.
    pub matter: PolicySubject,
    /// Who asks; none for a tool that has no name yet.
    pub requester: Option<Proc>,
    /// As whom, by the kernel's word.
    pub identity: Option<UserIdentity>,
    /// The groups of its process by the kernel's word, that of `identity` first; empty where there is no process.
    #[serde(default = "no_groups", skip_serializing_if = "is_empty")]
    pub groups: Arc<[UnixGroup]>,
    /// As whom the server runs.
    pub server: UserIdentity,
    /// What is at the other end of a connection that is asked about.
    pub peer: Option<PeerInfo>,
    /// Whom it is about.
    pub targets: Vec<TargetProc>,
    /// The codes of a registration; none means all.
    pub codes: Vec<Status>,
    /// The nodes that are to be provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<Provision>,
    /// What the group is called; none where it is about none, or an answer to an invitation names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// What is to be spawned, one job of them all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<Application>,
    /// What it carries: an event's infos, what a tool said of itself, what is to be logged, the monitor, the directives of applications.
    pub infos: Vec<Info>,
    /// How it is to be done: the directives of job control, of a registration, of a monitor, of a log request, of a job that is to be
    /// spawned, or of a request about a group; of an invitation and its answer the infos of their event.
    pub directives: Vec<Info>,
}

/// Of requests that were recorded when nobody asked for groups.
fn no_groups() -> Arc<[UnixGroup]> {
    Arc::default()
}

fn is_empty(groups: &[UnixGroup]) -> bool {
    groups.is_empty()
}

/// How a policy changes what it is asked about.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Amendment {
    /// What stands in the place of the directives or, where a request is about an event or a connection, of the infos.
    pub infos: Option<Vec<Info>>,
    /// What stands in the place of an event's range.
    pub range: Option<Range>,
    /// What stands in the place of what is to be logged.
    pub data: Option<Vec<Info>>,
}

/// What one policy says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PolicyOutcome {
    /// Nothing: those after it decide.
    Pass,
    /// Yes.
    Grant,
    /// No, with the status that the requester is told.
    Deny(Status),
}

/// A request to write to log channels, as one channel sees it. RFC "Logging extension".
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LogRequest {
    /// Who asks; none for the host environment.
    pub source: Option<Proc>,
    /// As whom, by the kernel's word.
    pub identity: Option<UserIdentity>,
    /// Seconds since the epoch, as the requester gave them.
    pub timestamp: Option<u64>,
    /// What is to be written, all of it.
    pub data: Vec<Info>,
    /// How.
    pub directives: Vec<Info>,
}

/// A mail as a log channel hands it over, in its parts. What it may say is for the sink to judge.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mail {
    /// Whom it is from: an address, or `Name <address>`. The sink's own, if there is none.
    pub sender: Option<String>,
    /// Who is to get it: addresses, or `Name <address>`.
    pub recipients: Vec<String>,
    /// Its subject: one line.
    pub subject: String,
    /// What it says: any text, with line feeds.
    pub text: String,
    /// The mail server that is to take it; the sink's own, if there is none.
    pub server: Option<String>,
    /// The port of that; the one of the sink's own server, if there is none.
    pub port: Option<u16>,
}

impl Mail {
    /// How long all its parts are, in bytes.
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
