//! Monitoring: what a request to be watched asks for, and the book of all that is watched.
mod entry;
mod heartbeat_deadline;
mod read;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use read::read;
pub use table::MonitorId;
pub(crate) use table::{
    EndedMonitor, MonitorAction, MonitorLimits, MonitorTable, NewMonitor, SampleUse,
};
pub use usage::{TREE_MEMORY, TREE_PEAK_MEMORY, TREE_PROCESSES, TREE_TIME, UsageOf, UsageRequest};

use crate::targets::UnknownTarget;
use peal_model::{Event, Info, Key, Proc, Status, Value, code, key};
use std::{path::PathBuf, sync::Arc, time::Duration};
use thiserror::Error;

/// What a request of `PMIx_Process_monitor` asks for. RFC "Job control and monitoring".
#[derive(Clone, PartialEq, Debug)]
pub enum Monitor {
    /// To be watched from now on, and others told when something is amiss.
    Watch(MonitorSpec),
    /// What is used, once or at a rate.
    Usage(Sampling),
    /// One watch is to end, or all of the requester's (`PMIX_MONITOR_CANCEL`).
    Cancel(MonitorSelector),
    /// A sign of life (`PMIX_SEND_HEARTBEAT`); libraries have a message of its own for that.
    Beat,
}

/// Which watches are to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonitorSelector {
    /// All of the requester's.
    All,
    /// That of this id.
    One(String),
}

/// For what somebody is watched.
#[derive(Clone, PartialEq, Debug)]
pub struct MonitorSpec {
    /// What the requester calls it (`PMIX_MONITOR_ID`).
    pub id: Option<String>,
    /// The signs of life.
    pub signs: LivenessSource,
    /// What is raised when they do not come: it lacks nothing.
    pub alert: Arc<Event>,
}

/// What shows that somebody lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LivenessSource {
    /// It says so (`PMIX_MONITOR_HEARTBEAT`).
    Heartbeats {
        /// How long after one the next is due (`PMIX_MONITOR_HEARTBEAT_TIME`).
        time: Duration,
        /// How many may be missed (`PMIX_MONITOR_HEARTBEAT_DROPS`).
        drops: u32,
    },
    /// A file changes (`PMIX_MONITOR_FILE`).
    File {
        /// Its absolute path.
        path: PathBuf,
        /// What of it.
        traces: FileChanges,
        /// How long after one look at it the next is due (`PMIX_MONITOR_FILE_CHECK_TIME`).
        check: Duration,
        /// How many looks may show nothing new (`PMIX_MONITOR_FILE_DROPS`).
        drops: u32,
    },
}

/// Which changes of a file count: any of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a directive of its own, and all combinations make sense"
)]
pub struct FileChanges {
    /// It has grown (`PMIX_MONITOR_FILE_SIZE`).
    pub size: bool,
    /// It was read (`PMIX_MONITOR_FILE_ACCESS`).
    pub access: bool,
    /// It was written (`PMIX_MONITOR_FILE_MODIFY`).
    pub modify: bool,
}

/// What can be seen of a file. Its times are in nanoseconds since the epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileStat {
    /// Its size, in bytes.
    pub size: u64,
    /// When it was read last.
    pub accessed: i128,
    /// When it was written last.
    pub modified: i128,
}

/// What is used, and how often that is to be told.
#[derive(Clone, PartialEq, Debug)]
pub struct Sampling {
    /// What the requester calls it (`PMIX_MONITOR_ID`).
    pub id: Option<String>,
    /// What is asked for.
    pub usage: Arc<UsageRequest>,
    /// How long after one sample the next is due (`PMIX_MONITOR_RESOURCE_RATE`); none: there is but one.
    pub rate: Option<Duration>,
    /// What is raised with each sample but the first, which is the answer.
    pub update: Arc<Event>,
}

/// Why a request is refused, before anything has happened. Each names what stands in the way, and what would be right.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MonitorError {
    /// Of this nothing is known.
    #[error(
        "{0:?} cannot be monitored; it should be pmix.monitor.mbeat, .fmon, .presuse, .ndresuse, .dkresuse, .netresuse or .cancel"
    )]
    UnknownKind(Key),
    /// A value of the wrong type or out of its bounds.
    #[error("{key} is {found}; it should be {wanted}")]
    BadValue {
        /// Its key string.
        key: &'static str,
        /// What it is.
        found: String,
        /// What would be right.
        wanted: &'static str,
    },
    /// What cannot be done without.
    #[error("{kind} needs {wanted}")]
    Missing {
        /// What is to be monitored.
        kind: &'static str,
        /// The directive, and what it says.
        wanted: &'static str,
    },
    /// A directive of something else.
    #[error("{key} does not go with {kind}")]
    Stray {
        /// Its key string.
        key: &'static str,
        /// What is to be monitored.
        kind: &'static str,
    },
    /// Two things are said.
    #[error("{0} is given twice, with different values; give it once")]
    Twice(&'static str),
    /// Something that Peal does not do.
    #[error("{0:?} is not supported")]
    Unsupported(Key),
    /// A code that is not for anybody to raise.
    #[error(
        "{0} is not an event that a monitor raises; it should be one of monitoring, an error of the Standard, or between -3000 and -999999"
    )]
    BadCode(Status),
    /// Nobody would know whom the event is for.
    #[error(
        "the range of the event and its targets do not fit; pmix.evrange goes with PMIX_RANGE_CUSTOM, and with nothing else"
    )]
    BadRange,
    /// The event would be larger than any may be.
    #[error("the event to be raised would be too large; name fewer procs in pmix.evrange")]
    TooLarge,
    /// The requester uses this id already.
    #[error(
        "{requester} has a monitor {id:?}; give another pmix.monitor.id, or cancel that one first"
    )]
    IdTaken {
        /// Who asks.
        requester: Proc,
        /// The id.
        id: String,
    },
    /// No such watch.
    #[error("{requester} has no monitor {id:?}")]
    UnknownId {
        /// Who asks.
        requester: Proc,
        /// The id.
        id: String,
    },
    /// There are as many as there may be.
    #[error("{whose} has {max} monitors, more are not allowed")]
    TooMany {
        /// Who: the proc, its user, or the server.
        whose: String,
        /// How many are allowed.
        max: usize,
    },
    /// A proc whose usage is asked for that is not there.
    #[error(transparent)]
    UnknownTarget(#[from] UnknownTarget),
    /// More procs than one request may be about.
    #[error("{found} procs are to be monitored; one request should name at most {max}")]
    TooManyProcs {
        /// How many there are.
        found: usize,
        /// How many there may be.
        max: usize,
    },
}

impl MonitorError {
    /// The status that tells a program of it.
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

/// The id of a request, as answers and events tell it.
pub(crate) fn named(id: Option<&String>) -> Option<Info> {
    id.map(|id| Info::new(key::PMIX_MONITOR_ID, Value::string(id)))
}
