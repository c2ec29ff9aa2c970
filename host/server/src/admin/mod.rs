//! Admin channel, by which permitted callers query and control a running server.
//!
//! The socket is in a directory that only root or the server's user can write. The kernel reports
//! the credentials of each caller. A connection carries one typed request, and every call of an
//! admin is recorded. Other users may ask only for what they hold themselves. Requests that concern the process as a whole (drain, stop, reload) become a
//! [`ProcessCommand`] for the owner of the process; all others are executed here.

mod access;
mod activity;
mod chain;
mod chain_position;
mod channel;
mod check;
mod client;
mod cluster_modules;
mod dispatch;
mod live_data;
mod modules;
mod protocol;
mod quotas;
mod registered_jobs;
mod socket;
mod watch;
mod watched_event;
mod watcher_shares;

pub use access::{AdminGroup, Caller, UnixGroupError};
pub use activity::{
    ACTIVITY_VERSION, ActivityCodeCount, ActivityCounts, ActivityDenial, ActivityFurther,
    ActivityJob, ActivityJobs, ActivityMissed, ActivityModule, ActivityModules, ActivityProc,
    ActivityProcState, ActivityReport, ActivityServer, ActivitySink, EventPassage, PassageStep,
};
pub use chain::{
    Chain, ChainHandler, ChainLevels, ChainLocation, ChainOwner, ChainPlace, ChainProc,
    ChainSources,
};
pub use chain_position::{ChainPosition, PassedOver, chain_positions};
pub use channel::{AdminChannel, JobJournal};
pub use client::{AdminConnection, AdminRequestError, Answers, request, request_on_behalf};
pub use cluster_modules::{
    ClusterAbandoned, ClusterModuleCall, ClusterModuleList, ClusterNodeModules, ClusterNodeState,
    ClusterRollout, ClusterRolloutStage, ClusterSetStatus, NewClusterSet,
};
pub use dispatch::{AdminParts, JobRegistrar, ProcessCommand, SuccessorOrigin};
pub use live_data::{
    LatestEntries, LiveData, ModuleRate, NumberedEntry, RateTrend, UNKNOWN_ID, UserNaming,
};
pub use modules::{
    ChangeKind, Deployed, ModuleCall, ModuleChange, ModuleList, ModuleSigner, ModuleState,
    ModuleStatus, ShadowDifference, ShadowReport, UserRefused, VersionStatus,
};
pub use protocol::{
    AdminEnvelope, AdminReply, AdminRequest, ClusterPlace, ContinuedFrom, JobRegistration,
    JobStatus, MAX_JOB_SIZE, MAX_REPLY, MAX_REQUEST, NewJob, PROTOCOL, ReloadReport, ServerPhase,
    ServerStatus, Trouble, TroubleKind,
};
pub use quotas::{ResourceLimits, ResourceUse, UserQuotas, UserResources};
pub use registered_jobs::AdminJob;
pub(crate) use socket::AdminSocket;
pub use socket::{SocketClaim, SocketError};
pub use watched_event::json_value;
pub use watched_event::{WatchedChain, WatchedEvent, WatchedInfo, WatchedResult, WatchedStatus};
pub use watcher_shares::WatcherLimits;
