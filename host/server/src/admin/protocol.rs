//! Protocol of the admin socket. A request is one line of JSON; each reply is a line of its own.
//!
//! A request is `{"peal": 1, "call": {"verb": "status"}}`. A connection carries one request, and
//! every request has one reply. `drain` and `stop` have a second reply, `{"reply": "ended"}`, just
//! before the server ends. `watch` has one more reply for each event before that, and
//! `activity` one for each report.
use super::{
    activity::ActivityReport,
    chain::Chain,
    modules::{Deployed, ModuleCall, ModuleChange, ModuleList, ShadowReport, UserRefused},
    quotas::UserQuotas,
    watched_event::WatchedEvent,
};
use crate::metrics::Snapshot;
use peal_core::job::JobProgress;
use peal_model::counted;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Version of the protocol. It grows when the meaning of a request or a reply changes.
pub const PROTOCOL: u32 = 1;

/// Upper bound of the length of a request, in bytes.
pub const MAX_REQUEST: usize = 16 * 1024;

/// Upper bound of the recorded characters of the requester that a caller names.
const MAX_BEHALF: usize = 200;

/// Upper bound of the length of a reply, in bytes.
pub const MAX_REPLY: usize = 16 << 20;

/// Upper bound of the procs of a registered job.
pub const MAX_JOB_SIZE: u32 = 65_535;

/// Message of a caller. The call is parsed only after the version was checked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminEnvelope<C = AdminRequest> {
    /// Protocol version of the caller.
    pub peal: u32,
    /// Call.
    pub call: C,
    /// Requester for whom the caller says that it calls, as in `the web console, from 127.0.0.1`. It goes into
    /// the record of the call and gives no rights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behalf: Option<String>,
}

impl AdminRequest {
    /// Parses the line of a caller.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the line.
    pub fn parse(line: &[u8]) -> Result<AdminRequest, String> {
        AdminEnvelope::parse(line).map(|envelope| envelope.call)
    }
}

impl AdminEnvelope {
    /// Parses the line of a caller.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the line.
    pub fn parse(line: &[u8]) -> Result<AdminEnvelope, String> {
        let of = |error: serde_json::Error| format!("the request is invalid: {error}");
        let request: AdminEnvelope<serde_json::Value> = serde_json::from_slice(line).map_err(of)?;
        if request.peal != PROTOCOL {
            return Err(format!(
                "the request has protocol version {}; this server supports version {PROTOCOL}",
                request.peal
            ));
        }
        Ok(AdminEnvelope {
            peal: request.peal,
            call: serde_json::from_value(request.call).map_err(of)?,
            behalf: request.behalf,
        })
    }

    /// Returns the call in words, for its record.
    pub(crate) fn words(&self) -> String {
        let call = &self.call;
        match &self.behalf {
            Some(behalf) => {
                let behalf: String = behalf.chars().take(MAX_BEHALF).collect();
                format!("{call} (for {behalf:?})")
            }
            None => call.to_string(),
        }
    }
}

/// Admin request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case", deny_unknown_fields)]
pub enum AdminRequest {
    /// Returns all metrics.
    Stats,
    /// Returns what users hold of limited resources. Users that may not administer get their own
    /// part.
    Users,
    /// Returns the identity and the state of the server.
    Status,
    /// Returns the registered jobs.
    Jobs,
    /// Returns the hosted chains.
    Chains,
    /// Streams events that have passed the hosted chains.
    Watch {
        /// Codes of the events; empty for all.
        codes: Vec<i32>,
    },
    /// Streams reports of the activity. Users that may not administer get their own part.
    Activity {
        /// Time between two reports, in milliseconds. The server has bounds for it.
        interval_ms: u32,
    },
    /// Registers a job whose procs the caller starts, so that they may connect.
    Register(NewJob),
    /// Returns the environment of a registered job again.
    Environment {
        /// Namespace of the job.
        nspace: String,
    },
    /// Watches a process that the caller started as a proc of a job. Its end is noticed even if it
    /// never connects.
    Started {
        /// Namespace of the job.
        nspace: String,
        /// Rank of the proc.
        rank: u32,
        /// Process id.
        pid: u32,
    },
    /// Removes a registered job. None of its procs may be connected.
    Deregister {
        /// Namespace of the job.
        nspace: String,
    },
    /// Accepts no more jobs and connections, and ends the server after the last connection has
    /// ended.
    Drain,
    /// Ends the server at once. The connections of clients are closed.
    Stop,
    /// Reads the configuration again.
    Reload,
    /// Hands the server over to the process at the other end, which goes on with its clients and jobs. A process
    /// of the server's user may do so.
    HandOver,
    /// Has the supervisor start a process of the installed release, which goes on with the server. Root and the
    /// server's user may do so.
    Upgrade,
    /// Executes a request about modules.
    Module(ModuleCall),
    /// Checks a request that changes something, as far as that is possible without the change.
    Check {
        /// Request.
        call: Box<AdminRequest>,
    },
}

impl AdminRequest {
    /// Returns true for a request that changes nothing. Programs such as dashboards make many of them.
    pub(crate) fn is_read(&self) -> bool {
        matches!(
            self,
            AdminRequest::Stats
                | AdminRequest::Users
                | AdminRequest::Status
                | AdminRequest::Jobs
                | AdminRequest::Chains
                | AdminRequest::Watch { .. }
                | AdminRequest::Activity { .. }
                | AdminRequest::Check { .. }
                | AdminRequest::Module(ModuleCall::List | ModuleCall::Diff { .. })
        )
    }
}

/// Job to register.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Namespace of the job.
    pub nspace: String,
    /// Number of procs.
    pub size: u32,
    /// User that the procs run as; the caller by default. Only root may name another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group of the procs; the group of the user by default. Only root may name another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl fmt::Display for AdminRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminRequest::Stats => f.write_str("stats"),
            AdminRequest::Users => f.write_str("users"),
            AdminRequest::Status => f.write_str("status"),
            AdminRequest::Jobs => f.write_str("jobs"),
            AdminRequest::Chains => f.write_str("chains"),
            AdminRequest::Watch { codes } if codes.is_empty() => f.write_str("watch all events"),
            AdminRequest::Watch { codes } => write!(f, "watch events {codes:?}"),
            AdminRequest::Activity { .. } => f.write_str("watch the activity"),
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
            AdminRequest::HandOver => f.write_str("hand over"),
            AdminRequest::Upgrade => f.write_str("upgrade"),
            AdminRequest::Module(call) => call.fmt(f),
            AdminRequest::Check { call } => write!(f, "check: {call}"),
        }
    }
}

/// Reply of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum AdminReply {
    /// Reply to `stats`.
    Stats(Snapshot),
    /// Reply to `users`.
    Users(UserQuotas),
    /// Reply to `status`.
    Status(ServerStatus),
    /// Reply to `jobs`.
    Jobs {
        /// Jobs in the order of their names.
        jobs: Vec<JobStatus>,
    },
    /// Reply to `chains`.
    Chains {
        /// Chains in the order in which they run.
        chains: Vec<Chain>,
    },
    /// Reply to `watch`: events are streamed from now on.
    Watching,
    /// Event, after `watch`.
    Event(WatchedEvent),
    /// Number of events that a slow watcher missed, after `watch`.
    Missed {
        /// Number of events since the last such reply, whatever their codes.
        events: u64,
    },
    /// Reply to `activity`: reports are streamed from now on.
    Reporting,
    /// Report, after `activity`.
    Activity(Box<ActivityReport>),
    /// Reply to `register` and `environment`.
    Registered(JobRegistration),
    /// Reply to `started`: the process is watched.
    Started,
    /// Reply to `deregister`: the job was removed.
    Deregistered,
    /// Reply to `drain`: the server drains.
    Draining,
    /// Reply to `stop`: the server stops.
    Stopping,
    /// Reply to `reload`.
    Reloaded(ReloadReport),
    /// Reply to `hand-over`: messages with descriptors follow.
    HandingOver,
    /// Reply to `upgrade`: the new process has the server.
    Upgrading,
    /// Reply to `upgrade` of a server without a supervisor, which may start no process: the caller should start it.
    StartSuccessor,
    /// Reply to `module` with `list`.
    Modules(ModuleList),
    /// Reply to `module` with `cluster`: the change is stored, and nodes follow it.
    Deploying {
        /// Set on its way, or else that of all nodes; none for no modules of the cluster.
        set: Option<u64>,
    },
    /// Reply to `module` with `diff`.
    Differences {
        /// Reports, one for each owner of a shadow module of that name.
        shadows: Vec<ShadowReport>,
    },
    /// Reply to `module` with a request that changes modules.
    Deployed(Deployed),
    /// Reply to `check`: nothing was changed.
    Checked {
        /// Reply that the request would have now.
        would: Box<AdminReply>,
    },
    /// Last reply to `drain`, `stop`, `watch` and `activity`: the server has ended.
    Ended,
    /// Reply to any request that was refused.
    Refused {
        /// Reason of the refusal.
        reason: String,
    },
}

/// Identity and state of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Release of the server.
    pub version: String,
    /// Process id of the server.
    pub pid: u32,
    /// Time since the start, in seconds.
    pub uptime: u64,
    /// URI at which clients reach the server.
    pub uri: String,
    /// Phase of the server.
    pub phase: ServerPhase,
    /// Number of registered jobs.
    pub jobs: u64,
    /// Number of open connections of procs.
    pub connections: u64,
    /// Number of user modules that are not compiled and started yet.
    #[serde(default)]
    pub compiling: u64,
    /// Place of the server in its cluster; none without a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterPlace>,
    /// Process whose server this one goes on with; none for a server that has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continued: Option<ContinuedFrom>,
    /// Problems of the server.
    #[serde(default)]
    pub troubles: Vec<Trouble>,
}

/// Process whose server another one goes on with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContinuedFrom {
    /// Its release.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Time for which requests waited, in milliseconds.
    pub paused_ms: u64,
}

/// Place of a server in its cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterPlace {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the node.
    pub node: String,
    /// Number of the server; none while it is no member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Number of servers in the cluster, as far as this one knows.
    pub servers: u64,
}

/// Problem of a server that continues to serve.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trouble {
    /// Subject of the problem.
    pub kind: TroubleKind,
    /// Problem and its consequences, in one or more lines.
    pub message: String,
}

/// Subject of a problem.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// The audit trail cannot be written.
    Audit,
    /// The store cannot be written.
    Store,
    /// The configuration is invalid; the previous one stays active.
    Configuration,
    /// The server does not meet the others of its cluster.
    Cluster,
    /// Modules that a user installed are invalid; the previous ones stay active.
    UserModules,
    /// A module is not called because it has failed repeatedly.
    Quarantine,
    /// The artefact of a module could not be fetched.
    Artifacts,
}

impl fmt::Display for TroubleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TroubleKind::Audit => "audit",
            TroubleKind::Store => "store",
            TroubleKind::Configuration => "configuration",
            TroubleKind::Cluster => "cluster",
            TroubleKind::UserModules => "user-modules",
            TroubleKind::Quarantine => "quarantine",
            TroubleKind::Artifacts => "artifacts",
        })
    }
}

/// Phase of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerPhase {
    /// The server accepts jobs and connections.
    Serving,
    /// The server waits for the last connection to end.
    Draining,
    /// The server is ending.
    Stopping,
    /// The server has ended; only its process remains.
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

impl From<JobProgress> for JobStatus {
    fn from(job: JobProgress) -> JobStatus {
        JobStatus {
            nspace: job.spec.nspace.to_string(),
            size: job.spec.size(),
            uid: job.spec.identity.uid,
            gid: job.spec.identity.gid,
            expected: job.expected,
            connected: job.connected,
            finalized: job.finalized,
            lost: job.lost,
            elapsed: None,
        }
    }
}

/// Job and the progress of its procs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobStatus {
    /// Namespace of the job.
    pub nspace: String,
    /// Number of procs.
    pub size: u32,
    /// User that the procs run as.
    pub uid: u32,
    /// Group of the procs.
    pub gid: u32,
    /// Number of procs that have not connected yet.
    pub expected: u32,
    /// Number of connected procs.
    pub connected: u32,
    /// Number of procs that have finalized.
    pub finalized: u32,
    /// Number of procs that ended or lost their connection without having finalized.
    pub lost: u32,
    /// Time since the start or the registration of the job, in seconds; none if the host environment
    /// does not know the job.
    #[serde(default)]
    pub elapsed: Option<u64>,
}

/// Registered job and the environment by which its procs find the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRegistration {
    /// Namespace of the job.
    pub nspace: String,
    /// Number of procs.
    pub size: u32,
    /// Environment variables that all procs need.
    pub environment: Vec<(String, String)>,
    /// Name of the variable that holds the rank of a proc, from zero to the size less one.
    pub rank_variable: String,
}

impl JobRegistration {
    /// Returns the environment of one rank.
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

/// Result of a reload of the configuration. Settings are named by their keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReloadReport {
    /// Settings that changed and are in effect.
    pub applied: Vec<String>,
    /// Settings that changed and take effect at the next start.
    pub needs_restart: Vec<String>,
    /// Changes of the modules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleChange>,
    /// Users whose installed modules are refused, newly or still, so that their previous modules
    /// stay active.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<UserRefused>,
    /// Modules whose artefacts are fetched, newly or still. They run when they have come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetching: Vec<String>,
}

impl ReloadReport {
    /// Returns true if nothing changed.
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
                call: AdminRequest::Status,
                behalf: None
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
