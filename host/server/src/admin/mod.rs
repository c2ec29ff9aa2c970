//! The admin channel: by which root, and whom the site trusts, ask a running server and tell it what to do.
//!
//! A socket in a directory that nobody else can write, the kernel's word on who calls, one typed request to a connection,
//! and a record of every call. What a server does by itself is done here; what concerns the process as a whole (drain,
//! stop, reload) becomes an [`Order`] for whoever runs it.

mod access;
mod chain;
mod channel;
mod client;
mod dispatch;
mod modules;
mod protocol;
mod socket;
mod watch;
mod watched_event;

pub use access::{AdminGroup, Caller, UnixGroupError};
pub use chain::{
    Chain, ChainHandler, ChainLevels, ChainOwner, ChainPlace, ChainProc, ChainSources,
};
pub use channel::AdminChannel;
pub use client::{Answers, AskError, ask};
pub use dispatch::{AdminParts, JobRegistrar, ProcessCommand};
pub use modules::{
    ChangeKind, Deployed, ModuleCall, ModuleChange, ModuleList, ModuleSigner, ModuleState,
    ModuleStatus, ShadowDifference, ShadowReport, UserRefused, VersionStatus,
};
pub use protocol::{
    AdminEnvelope, AdminReply, AdminRequest, JobRegistration, JobStatus, MAX_JOB_SIZE, MAX_REPLY,
    MAX_REQUEST, NewJob, PROTOCOL, ReloadReport, ServerPhase, ServerStatus, Trouble, TroubleKind,
};
pub use socket::{SocketClaim, SocketError};
pub use watched_event::json_value;
pub use watched_event::{WatchedChain, WatchedEvent, WatchedInfo, WatchedResult, WatchedStatus};
