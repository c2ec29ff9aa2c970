//! Monitoring: parsed requests, and the table of all monitors.
mod entry;
mod heartbeat_deadline;
mod read;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use read::read;
pub(crate) use table::{EndedMonitor, MonitorAction, MonitorTable, NewMonitor, SampleUse};
pub use table::{MonitorId, MonitorLimits};
pub use usage::{
    PROC_ELAPSED, TREE_MEMORY, TREE_PEAK_MEMORY, TREE_PROCESSES, TREE_TIME, UsageOf, UsageRequest,
};

use crate::targets::UnknownTarget;
use peal_model::{Event, Info, Key, Proc, Status, Value, code, key};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc, time::Duration};
use thiserror::Error;

/// A request of `PMIx_Process_monitor`. RFC "Job control and monitoring".
#[derive(Clone, PartialEq, Debug)]
pub enum Monitor {
    /// Monitors the liveness of the requester and raises an alert.
    Watch(MonitorSpec),
    /// Measures resource usage, once or at a rate.
    Usage(Sampling),
    /// Ends monitors of the requester (`PMIX_MONITOR_CANCEL`).
    Cancel(MonitorSelector),
    /// A heartbeat (`PMIX_SEND_HEARTBEAT`). Libraries usually send a message of its own for that.
    Beat,
}

/// A selection of monitors to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonitorSelector {
    /// All monitors of the requester.
    All,
    /// The monitor with this id.
    One(String),
}

/// A request for a liveness monitor.
#[derive(Clone, PartialEq, Debug)]
pub struct MonitorSpec {
    /// The requester's name for it (`PMIX_MONITOR_ID`).
    pub id: Option<String>,
    /// The source of liveness.
    pub signs: LivenessSource,
    /// The complete event of the alert.
    pub alert: Arc<Event>,
}

/// The evidence that a proc lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LivenessSource {
    /// Heartbeats of the proc (`PMIX_MONITOR_HEARTBEAT`).
    Heartbeats {
        /// Time between two heartbeats (`PMIX_MONITOR_HEARTBEAT_TIME`).
        time: Duration,
        /// Number of heartbeats that may be missed (`PMIX_MONITOR_HEARTBEAT_DROPS`).
        drops: u32,
    },
    /// Changes of a file (`PMIX_MONITOR_FILE`).
    File {
        /// The absolute path.
        path: PathBuf,
        /// The changes that count.
        traces: FileChanges,
        /// Time between two checks (`PMIX_MONITOR_FILE_CHECK_TIME`).
        check: Duration,
        /// Number of checks that may show no change (`PMIX_MONITOR_FILE_DROPS`).
        drops: u32,
    },
}

/// The changes of a file that count as liveness; any of them is enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a directive of its own, and all combinations make sense"
)]
#[derive(Serialize, Deserialize)]
pub struct FileChanges {
    /// Growth (`PMIX_MONITOR_FILE_SIZE`).
    pub size: bool,
    /// Reading (`PMIX_MONITOR_FILE_ACCESS`).
    pub access: bool,
    /// Writing (`PMIX_MONITOR_FILE_MODIFY`).
    pub modify: bool,
}

/// The stat of a file. Times are in nanoseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileStat {
    /// Size, in bytes.
    pub size: u64,
    /// Time of the last read.
    pub accessed: i128,
    /// Time of the last write.
    pub modified: i128,
}

/// A request for resource usage.
#[derive(Clone, PartialEq, Debug)]
pub struct Sampling {
    /// The requester's name for it (`PMIX_MONITOR_ID`).
    pub id: Option<String>,
    /// The usage to measure.
    pub usage: Arc<UsageRequest>,
    /// Procs on other nodes, which this server does not measure.
    pub elsewhere: Vec<Proc>,
    /// Time between two samples (`PMIX_MONITOR_RESOURCE_RATE`); none for a single sample.
    pub rate: Option<Duration>,
    /// The event of each sample but the first, which is the reply.
    pub update: Arc<Event>,
}

/// The reason why a request is refused before any effect, with what would be right.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MonitorError {
    /// The kind of monitor is unknown.
    #[error(
        "{0:?} cannot be monitored; it should be pmix.monitor.mbeat, .fmon, .presuse, .ndresuse, .dkresuse, .netresuse or .cancel"
    )]
    UnknownKind(Key),
    /// A value has the wrong type or is out of bounds.
    #[error("{key} is {found}; it should be {expected}")]
    BadValue {
        /// The key string.
        key: &'static str,
        /// The value.
        found: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// A required directive is missing.
    #[error("{kind} needs {directive}")]
    Missing {
        /// The kind of monitor.
        kind: &'static str,
        /// The directive and its meaning.
        directive: &'static str,
    },
    /// A directive belongs to another kind of monitor.
    #[error("{key} does not go with {kind}")]
    Stray {
        /// The key string.
        key: &'static str,
        /// The kind of monitor.
        kind: &'static str,
    },
    /// A directive is given twice with different values.
    #[error("{0} is given twice, with different values; give it once")]
    Twice(&'static str),
    /// A required directive is not supported.
    #[error("{0:?} is not supported")]
    Unsupported(Key),
    /// Monitors must not raise events with this code.
    #[error(
        "{0} is not an event that a monitor raises; it should be one of monitoring, an error of the Standard, or between -3000 and -999999"
    )]
    BadCode(Status),
    /// The range and the targets of the event contradict each other.
    #[error(
        "the range of the event and its targets do not fit; pmix.evrange goes with PMIX_RANGE_CUSTOM, and with nothing else"
    )]
    BadRange,
    /// The event exceeds the limit on events.
    #[error("the event to be raised would be too large; name fewer procs in pmix.evrange")]
    TooLarge,
    /// The requester has a monitor with this id.
    #[error(
        "{requester} has a monitor {id:?}; give another pmix.monitor.id, or cancel that one first"
    )]
    IdTaken {
        /// The requester.
        requester: Proc,
        /// The id.
        id: String,
    },
    /// The requester has no monitor with this id.
    #[error("{requester} has no monitor {id:?}")]
    UnknownId {
        /// The requester.
        requester: Proc,
        /// The id.
        id: String,
    },
    /// The number of monitors has reached a limit.
    #[error("{holder} has {max} monitors; the limit is {max}")]
    TooMany {
        /// The proc, its user, or the server.
        holder: String,
        /// The limit.
        max: usize,
    },
    /// A proc whose usage is requested does not exist.
    #[error(transparent)]
    UnknownTarget(#[from] UnknownTarget),
    /// The request is about too many procs.
    #[error("{found} procs are to be monitored; one request should name at most {max}")]
    TooManyProcs {
        /// The number of procs.
        found: usize,
        /// The limit.
        max: usize,
    },
}

impl MonitorError {
    /// Returns the status for the requester.
    pub fn status(&self) -> Status {
        match self {
            MonitorError::UnknownKind(_) | MonitorError::Unsupported(_) => {
                code::PMIX_ERR_NOT_SUPPORTED
            }
            MonitorError::IdTaken { .. } => code::PMIX_ERR_EXISTS,
            MonitorError::UnknownId { .. } | MonitorError::UnknownTarget(_) => {
                code::PMIX_ERR_NOT_FOUND
            }
            MonitorError::TooMany { .. } | MonitorError::TooLarge => code::PMIX_ERR_OUT_OF_RESOURCE,
            MonitorError::BadValue { .. }
            | MonitorError::Missing { .. }
            | MonitorError::Stray { .. }
            | MonitorError::Twice(_)
            | MonitorError::BadCode(_)
            | MonitorError::BadRange
            | MonitorError::TooManyProcs { .. } => code::PMIX_ERR_BAD_PARAM,
        }
    }
}

/// Returns the id of a request as an info for replies and events.
pub(crate) fn named(id: Option<&String>) -> Option<Info> {
    id.map(|id| Info::new(key::PMIX_MONITOR_ID, Value::string(id)))
}
