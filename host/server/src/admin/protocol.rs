//! What is said on the admin socket: one request on a line of JSON, and its replies, each on a line of its own.
//!
//! A request is `{"peal": 1, "call": {"verb": "status"}}`. There is one to a connection. Every call has one reply; `drain`
//! and `stop` have a second one, `{"reply": "ended"}`, just before the server ends. `watch` has one more for each event before that.
use super::{
    chain::Chain,
    modules::{Deployed, ModuleCall, ModuleChange, ModuleList, ShadowReport, UserRefused},
    watched_event::WatchedEvent,
};
use crate::metrics::Snapshot;
use peal_model::counted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of the protocol. It grows when a request or a reply no longer means what it did.
pub const PROTOCOL: u32 = 1;

/// The longest request, in bytes.
pub const MAX_REQUEST: usize = 16 * 1024;

/// The longest reply, in bytes.
pub const MAX_REPLY: usize = 16 << 20;

/// The most procs that a job may be registered with.
pub const MAX_JOB_SIZE: u32 = 65_535;

/// What a caller sends. What is called is read only once the version is known to be understood.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminEnvelope<C = AdminRequest> {
    /// The version that the caller speaks.
    pub peal: u32,
    /// What it asks for.
    pub call: C,
}

/// What can be asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// All that is counted and measured.
    Stats,
    /// Which server it is, and how it is.
    Status,
    /// The jobs that it knows.
    Jobs,
    /// The hosted chains.
    Chains,
    /// Events, as they pass the hosted chains.
    Watch {
        /// Of these codes; none means all.
        codes: Vec<i32>,
    },
    /// Let the procs of a job connect, which the caller starts.
    Register(NewJob),
    /// Say again how the procs of a job that was registered find their server.
    Environment {
        /// Its name.
        nspace: String,
    },
    /// Watch a process that the caller started as a proc of a job, so that its end is noticed even if it never connects.
    Started {
        /// The job's name.
        nspace: String,
        /// The proc's rank.
        rank: u32,
        /// The process id.
        pid: u32,
    },
    /// Forget a job that was registered. None of its procs may be connected.
    Deregister {
        /// Its name.
        nspace: String,
    },
    /// Accept no more jobs and connections, and end when the last connection has ended.
    Drain,
    /// End now. Clients find their connections closed.
    Stop,
    /// Read the configuration again.
    Reload,
    /// Something about the modules.
    Module(ModuleCall),
}

/// A job to be registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Its name.
    pub nspace: String,
    /// How many procs it has.
    pub size: u32,
    /// The user that they run as; the caller, unless root says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Their group; that of the user, unless root says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl fmt::Display for AdminRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminRequest::Stats => f.write_str("stats"),
            AdminRequest::Status => f.write_str("status"),
            AdminRequest::Jobs => f.write_str("jobs"),
            AdminRequest::Chains => f.write_str("chains"),
            AdminRequest::Watch { codes } if codes.is_empty() => f.write_str("watch all events"),
            AdminRequest::Watch { codes } => write!(f, "watch events {codes:?}"),
            AdminRequest::Register(NewJob { nspace, size, .. }) => {
                write!(f, "register {nspace:?} with {}", counted(*size, "proc"))
            }
            AdminRequest::Environment { nspace } => write!(f, "environment {nspace:?}"),
            AdminRequest::Started { nspace, rank, pid } => {
                write!(f, "started {nspace:?} rank {rank} as process {pid}")
            }
            AdminRequest::Deregister { nspace } => write!(f, "deregister {nspace:?}"),
            AdminRequest::Drain => f.write_str("drain"),
            AdminRequest::Stop => f.write_str("stop"),
            AdminRequest::Reload => f.write_str("reload"),
            AdminRequest::Module(call) => call.fmt(f),
        }
    }
}

/// What comes back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdminReply {
    /// To `stats`.
    Stats(Snapshot),
    /// To `status`.
    Status(ServerStatus),
    /// To `jobs`.
    Jobs {
        /// In the order of their names.
        jobs: Vec<JobStatus>,
    },
    /// To `chains`.
    Chains {
        /// In the order in which they run.
        chains: Vec<Chain>,
    },
    /// To `watch`: from now on.
    Watching,
    /// To `watch`, for each event.
    Event(WatchedEvent),
    /// To `watch`: whoever does not keep up misses events.
    Missed {
        /// How many, since he was last told; whatever their codes.
        events: u64,
    },
    /// To `register` and `environment`.
    Registered(JobRegistration),
    /// To `started`: it is watched.
    Started,
    /// To `deregister`: it is done.
    Deregistered,
    /// To `drain`: it has begun.
    Draining,
    /// To `stop`: it has begun.
    Stopping,
    /// To `reload`.
    Reloaded(ReloadReport),
    /// To `module`, what `list`.
    Modules(ModuleList),
    /// To `module`, what `diff`.
    Differences {
        /// One for each owner of a shadow of that name.
        shadows: Vec<ShadowReport>,
    },
    /// To `module`, where it changes something.
    Deployed(Deployed),
    /// To `drain`, `stop` and `watch`, at their end: the server is gone.
    Ended,
    /// To anything: it is not done.
    Refused {
        /// Why.
        reason: String,
    },
}

/// Which server it is, and how it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its release.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been there, in seconds.
    pub uptime: u64,
    /// Where clients find it.
    pub uri: String,
    /// Whether it serves, or is about to end.
    pub phase: ServerPhase,
    /// How many jobs it knows.
    pub jobs: u64,
    /// How many connections of their procs are open.
    pub connections: u64,
    /// How many modules of users are not yet compiled and started.
    #[serde(default)]
    pub compiling: u64,
    /// What is wrong with it.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

/// Something that is wrong with a running server, which serves all the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// What it is about.
    pub kind: TroubleKind,
    /// What is wrong, and what follows; one line or several.
    pub message: String,
}

/// What is wrong with a running server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// The audit trail cannot be written.
    Audit,
    /// The store cannot be written.
    Store,
    /// The configuration cannot be used: what ran before does.
    Configuration,
    /// What a user installed cannot be used: what they had before stays.
    UserModules,
    /// A module has failed too often and is not called.
    Quarantine,
}

impl fmt::Display for TroubleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TroubleKind::Audit => "audit",
            TroubleKind::Store => "store",
            TroubleKind::Configuration => "configuration",
            TroubleKind::UserModules => "user-modules",
            TroubleKind::Quarantine => "quarantine",
        })
    }
}

/// Whether a server serves, or is about to end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerPhase {
    /// It accepts jobs and connections.
    Serving,
    /// It waits for the last connection to end.
    Draining,
    /// It ends.
    Stopping,
    /// It has ended, all but the process.
    Ended,
}

impl fmt::Display for ServerPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerPhase::Serving => "serving",
            ServerPhase::Draining => "draining",
            ServerPhase::Stopping => "stopping",
            ServerPhase::Ended => "ended",
        })
    }
}

/// A job and how far its procs are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub nspace: String,
    /// How many procs it has.
    pub size: u32,
    /// The user that they run as.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// How many have not connected yet.
    pub expected: u32,
    /// How many are connected.
    pub connected: u32,
    /// How many have left in order.
    pub finalized: u32,
    /// How many ended or lost their connection without.
    pub lost: u32,
}

/// A job that was registered, and how its procs find their server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRegistration {
    /// Its name.
    pub nspace: String,
    /// How many procs it has.
    pub size: u32,
    /// The environment that they all need.
    pub environment: Vec<(String, String)>,
    /// The variable that holds each one's rank, from zero to the size less one.
    pub rank_variable: String,
}

impl JobRegistration {
    /// The environment of one rank.
    pub fn of_rank(&self, rank: u32) -> impl Iterator<Item = (&str, String)> {
        let common = self
            .environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        common.chain(std::iter::once((
            self.rank_variable.as_str(),
            rank.to_string(),
        )))
    }
}

/// What came of reading the configuration again. Settings are named by their keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReloadReport {
    /// What changed and holds from now on.
    pub applied: Vec<String>,
    /// What changed and holds only from the next start on.
    pub needs_restart: Vec<String>,
    /// What changed among the modules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleChange>,
    /// Users whose modules stay as they are, since what they installed cannot be used, whether that is new or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<UserRefused>,
}

impl ReloadReport {
    /// Whether all is as it was.
    pub fn is_unchanged(&self) -> bool {
        self.applied.is_empty() && self.needs_restart.is_empty() && self.modules.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_replies_look_as_documented() {
        let json = |request: &str| serde_json::from_str::<AdminEnvelope>(request);
        let status = json(r#"{"peal": 1, "call": {"verb": "status"}}"#).unwrap();
        assert_eq!(
            status,
            AdminEnvelope {
                peal: 1,
                call: AdminRequest::Status
            }
        );
        let register =
            json(r#"{"peal":1,"call":{"verb":"register","nspace":"a","size":2}}"#).unwrap();
        let job = NewJob {
            nspace: "a".into(),
            size: 2,
            uid: None,
            gid: None,
        };
        assert_eq!(register.call, AdminRequest::Register(job));
        for bad in [
            r#"{"peal": 1, "call": {"verb": "dance"}}"#,
            r#"{"peal": 1, "call": {"verb": "register", "nspace": "a", "size": -1}}"#,
            r#"{"peal": 1, "call": {"verb": "register", "nspace": "a", "size": 1, "colour": "red"}}"#,
            r#"{"peal": 1, "call": {"verb": "status"}, "more": 1}"#,
            r#"{"peal": 1}"#,
        ] {
            assert!(json(bad).is_err(), "{bad}");
        }
        let reply = |reply: &AdminReply| serde_json::to_string(reply).unwrap();
        assert_eq!(reply(&AdminReply::Ended), r#"{"reply":"ended"}"#);
        assert_eq!(
            reply(&AdminReply::Refused {
                reason: "no".into()
            }),
            r#"{"reply":"refused","reason":"no"}"#
        );
        let stats = AdminReply::Stats(crate::Metrics::default().snapshot());
        assert_eq!(
            serde_json::from_str::<AdminReply>(&reply(&stats)).unwrap(),
            stats
        );
    }

    #[test]
    fn name_cannot_forge_recorded_call() {
        let call = AdminRequest::Deregister {
            nspace: "a\" done\nstop".into(),
        };
        assert_eq!(call.to_string(), "deregister \"a\\\" done\\nstop\"");
    }
}
