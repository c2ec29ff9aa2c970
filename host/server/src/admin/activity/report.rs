//! Representation of a server's activity on the admin socket: reports that are streamed to watchers.
//!
//! The first report of a stream is complete. Later ones contain only the sections that have changed.
//! A section replaces the previous one of its name; that of the counts is in each report. Denials and
//! passages of events are added to the earlier ones. Counters only grow; a reader computes rates from two reports and their times.
use crate::admin::{
    chain::{Chain, ChainOwner},
    modules::ModuleState,
    protocol::{JobStatus, ServerPhase, Trouble},
    quotas::UserQuotas,
    watched_event::WatchedStatus,
};
use serde::{Deserialize, Serialize};

/// Version of the reports. It grows when the meaning of a field changes. Readers ignore unknown fields.
pub const ACTIVITY_VERSION: u32 = 1;

/// Report about the activity of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActivityReport {
    /// Version of the report.
    pub version: u32,
    /// Number of the report in its stream, from 1.
    pub number: u64,
    /// Time since the start of the server, in milliseconds.
    pub uptime_ms: u64,
    /// User whose activity the report is limited to; none for an administrator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_user: Option<u32>,
    /// Identity and state of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ActivityServer>,
    /// Numbers of events and denials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<ActivityCounts>,
    /// Jobs and their procs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<ActivityJobs>,
    /// Hosted chains, in the order in which they run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chains: Option<Vec<Chain>>,
    /// Modules in each of their roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<ActivityModules>,
    /// Sinks; empty for a user that may not administer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sinks: Option<Vec<ActivitySink>>,
    /// Users and what they hold of limited resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UserQuotas>,
    /// Numbers of what these sections have no room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further: Option<ActivityFurther>,
    /// Denials since the previous report, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<ActivityDenial>,
    /// Events that have passed the chains since the previous report, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<EventPassage>,
    /// Numbers of denials and passages that the reader missed since the previous report.
    #[serde(default, skip_serializing_if = "ActivityMissed::is_nothing")]
    pub missed: ActivityMissed,
}

/// Numbers of what the sections of a report have no room for. Those of jobs, procs and modules are in
/// their sections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActivityFurther {
    /// Number of further handlers in chains.
    pub handlers: u64,
    /// Number of further sinks.
    pub sinks: u64,
    /// Number of further users.
    pub users: u64,
}

/// Identity and state of a server, as every user may see them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityServer {
    /// Release of the server.
    pub release: String,
    /// Name of the node.
    pub node: String,
    /// Process id of the server.
    pub pid: u32,
    /// Phase of the server.
    pub phase: ServerPhase,
    /// Number of open connections of procs and tools; none for a user that may not administer.
    pub connections: Option<u64>,
    /// Problems of the server; empty for a user that may not administer.
    pub troubles: Vec<Trouble>,
}

/// Numbers of events and denials.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActivityCounts {
    /// Time of the counts since the start of the server, in milliseconds. Rates are differences of counts
    /// by differences of this time.
    #[serde(default)]
    pub at_ms: u64,
    /// Number of events by code, since the first of the present watchers came.
    pub events: Vec<ActivityCodeCount>,
    /// Number of events whose codes are not counted apart.
    pub further_events: u64,
    /// True if so many users raise events that those of the reader are not counted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub uncounted: bool,
    /// Number of denials since the start of the server.
    pub denials: u64,
}

/// Number of events with one code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityCodeCount {
    /// Code.
    pub code: WatchedStatus,
    /// Number of events.
    pub count: u64,
}

/// Jobs of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActivityJobs {
    /// Jobs in the order of their names.
    pub jobs: Vec<ActivityJob>,
    /// Number of further jobs, which the report has no room for.
    pub further: u64,
}

/// Job and its procs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityJob {
    /// Job.
    #[serde(flatten)]
    pub status: JobStatus,
    /// Procs on this node in the order of their ranks.
    pub procs: Vec<ActivityProc>,
    /// Number of further procs, which the report has no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_procs: u64,
}

/// Proc of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityProc {
    /// Rank of the proc.
    pub rank: u32,
    /// State of the proc.
    pub state: ActivityProcState,
    /// Process id, if known.
    pub pid: Option<u32>,
}

/// State of a proc.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActivityProcState {
    /// The proc has not connected yet.
    Expected,
    /// The proc is connected.
    Connected,
    /// The process of the proc runs; the source of the report does not know whether it is connected.
    Running,
    /// The proc has finalized, and its process lives.
    Finalized,
    /// The proc has finalized, and its process has ended.
    Ended,
    /// The proc lost its connection or ended without having finalized.
    Lost,
}

impl ActivityProcState {
    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            ActivityProcState::Expected => "expected",
            ActivityProcState::Connected => "connected",
            ActivityProcState::Running => "running",
            ActivityProcState::Finalized => "finalized",
            ActivityProcState::Ended => "ended",
            ActivityProcState::Lost => "lost",
        }
    }
}

/// Modules of a server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActivityModules {
    /// Modules in the order of their owners, names and roles.
    pub modules: Vec<ActivityModule>,
    /// Number of further modules, which the report has no room for.
    pub further: u64,
}

/// Module in one of its roles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityModule {
    /// Owner of the module.
    pub owner: ChainOwner,
    /// Name of the module.
    pub name: String,
    /// Role of the module.
    pub role: String,
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls.
    pub failures: u64,
    /// Time of all calls, in microseconds.
    pub time_us: u64,
    /// Operating state, if known.
    pub state: Option<ModuleState>,
    /// Latest failure within the failure window. It may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Sink of log channels.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActivitySink {
    /// Name of the sink.
    pub name: String,
    /// Number of queued messages.
    pub queued: u64,
    /// Size of the queued messages, in bytes.
    pub queued_bytes: u64,
    /// Number of delivered messages.
    pub delivered: u64,
    /// Number of refused messages.
    pub refused: u64,
    /// Number of failed deliveries that are retried.
    pub retried: u64,
    /// Number of messages that were accepted and dropped undelivered.
    pub dropped: u64,
    /// True if the destination was unreachable at the last delivery.
    pub unreachable: bool,
}

/// Denial of a request, event or connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ActivityDenial {
    /// Time of the denial, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Hook.
    pub hook: String,
    /// Requester; none for a tool without a name.
    pub requester: Option<String>,
    /// User of the requester, if known.
    pub uid: Option<u32>,
    /// First procs that the request concerns.
    pub targets: Vec<String>,
    /// Policy or rule that denied. A user does not see the names of policies.
    pub by: String,
    /// Status in the reply.
    pub status: WatchedStatus,
    /// Reasons in the reply; empty without any.
    pub reason: String,
}

/// Passage of an event through the chains.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventPassage {
    /// Number of the event at this server, as in the trace and the audit trail. For a user the number among
    /// those in its reports.
    pub number: u64,
    /// Time of its end, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Code of the event.
    pub code: WatchedStatus,
    /// Proc that raised the event; none for the resource manager.
    pub source: Option<String>,
    /// User of the source, if known.
    pub uid: Option<u32>,
    /// Range of the event, by the Standard's name.
    pub range: String,
    /// Time until the event had passed the last chain, in microseconds. For a user the time until its last
    /// handler had returned; 0 without one.
    pub time_us: u64,
    /// Calls of handlers, in the order of the chains. A user sees those of its own.
    pub steps: Vec<PassageStep>,
    /// Number of further calls, which the report has no room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_steps: u64,
}

/// Call of a handler for an event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PassageStep {
    /// Owner of the chain.
    pub owner: ChainOwner,
    /// Name of the handler.
    pub handler: String,
    /// Name of the module.
    pub module: String,
    /// Status that the handler returned, or that takes its place if the call failed.
    pub status: WatchedStatus,
    /// Reason of the failure, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Time of the call, in microseconds.
    pub time_us: u64,
}

/// Numbers of what a reader missed, because it read too slowly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActivityMissed {
    /// Number of denials.
    pub denials: u64,
    /// Number of passages.
    pub passages: u64,
}

impl ActivityMissed {
    /// Returns true if nothing was missed.
    pub fn is_nothing(&self) -> bool {
        *self == ActivityMissed::default()
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}
