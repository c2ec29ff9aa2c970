//! State of one monitor.
use super::{FileChanges, FileStat, UsageRequest, heartbeat_deadline};
use crate::{MonotonicTime, request_id::RequestId};
use peal_model::{Event, Proc};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// A monitor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MonitorEntry {
    pub(super) requester: Proc,
    /// The user that the requester runs as.
    pub(super) uid: u32,
    pub(super) id: Option<String>,
    pub(super) kind: MonitorKind,
    /// Time of the next check, if it is settled.
    pub(super) due: Option<MonotonicTime>,
}

/// The kind of a monitor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum MonitorKind {
    Beats(Beats),
    File(FileMonitor),
    Usage(Rate),
}

/// A heartbeat monitor. A silent proc is checked again at its next heartbeat.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Beats {
    pub(super) time: Duration,
    pub(super) drops: u32,
    pub(super) alert: Arc<Event>,
    /// Time of the request; earlier silence does not count.
    pub(super) since: MonotonicTime,
}

impl Beats {
    /// Returns the time at which the proc counts as silent without a further heartbeat.
    pub(super) fn deadline(&self, last: Option<MonotonicTime>) -> MonotonicTime {
        heartbeat_deadline::until(
            last.unwrap_or_default().max(self.since),
            self.time,
            self.drops,
        )
    }

    /// Returns the postponed time of a check, if the check that was due `at` a time comes so late
    /// that missing heartbeats prove nothing.
    pub(super) fn put_off(&self, at: MonotonicTime, now: MonotonicTime) -> Option<MonotonicTime> {
        let half = heartbeat_deadline::half(self.time);
        (now.0.saturating_sub(at.0) > half).then_some(MonotonicTime(now.0.saturating_add(half)))
    }
}

/// A file monitor.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileMonitor {
    /// Path by which the file was opened.
    pub(super) path: PathBuf,
    pub(super) changes: FileChanges,
    pub(super) interval: Duration,
    pub(super) drops: u32,
    pub(super) alert: Arc<Event>,
    /// The last known stat of the file.
    pub(super) last_stat: Option<FileStat>,
    /// Number of checks without a change; not counted beyond the limit.
    missed: u32,
    pub(super) check: FileCheck,
}

/// The state of a file check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum FileCheck {
    /// The first check, whose result answers the requester.
    First(RequestId),
    /// No check is in progress.
    None,
    /// A check is in progress.
    Out,
    /// A check is in progress and late.
    Overdue,
}

impl FileMonitor {
    pub(super) fn new(
        path: PathBuf,
        changes: FileChanges,
        (interval, drops): (Duration, u32),
        alert: Arc<Event>,
        to: RequestId,
    ) -> FileMonitor {
        FileMonitor {
            path,
            changes,
            interval,
            drops,
            alert,
            last_stat: None,
            missed: 0,
            check: FileCheck::First(to),
        }
    }

    /// Begins a check that is due, if none is in progress.
    pub(super) fn go(&mut self) -> Going {
        match self.check {
            // Timers begin after the first check, so none is due before its result.
            FileCheck::First(_) => Going::Nothing,
            FileCheck::None => {
                self.check = FileCheck::Out;
                Going::Now
            }
            // A hanging check counts as a missed change.
            FileCheck::Out | FileCheck::Overdue => {
                self.check = FileCheck::Overdue;
                if self.miss() {
                    Going::Alert(self.alert.clone())
                } else {
                    Going::Nothing
                }
            }
        }
    }

    /// Handles the result of a check; none if the file cannot be read. Returns the alert, if one is
    /// due.
    pub(super) fn record_stat(&mut self, seen: Option<FileStat>) -> Option<Arc<Event>> {
        let was_overdue = self.check == FileCheck::Overdue;
        self.check = FileCheck::None;
        let lives = match (self.last_stat, seen) {
            (Some(before), Some(now)) => {
                (self.changes.size && now.size > before.size)
                    || (self.changes.access && now.accessed != before.accessed)
                    || (self.changes.modify && now.modified != before.modified)
            }
            (None, Some(_)) => true,
            (_, None) => false,
        };
        // A file that is missing for a while is compared with its last known state afterwards.
        self.last_stat = seen.or(self.last_stat);
        if lives {
            self.missed = 0;
            return None;
        }
        // `go` has counted an overdue check as missed already.
        (!was_overdue && self.miss()).then(|| self.alert.clone())
    }

    /// Counts a check without a change. Returns true if the alert is due, which is once.
    fn miss(&mut self) -> bool {
        let was_reported = self.missed > self.drops;
        self.missed = self.missed.saturating_add(u32::from(!was_reported));
        !was_reported && self.missed > self.drops
    }
}

/// The next step of a due file check.
#[derive(Debug)]
pub(super) enum Going {
    Now,
    Nothing,
    Alert(Arc<Event>),
}

/// A usage monitor, with an optional rate of samples.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rate {
    pub(super) usage: Arc<UsageRequest>,
    pub(super) rate: Option<Duration>,
    pub(super) update: Arc<Event>,
    /// The request that the first sample answers, until it has.
    pub(super) first: Option<RequestId>,
    /// The state of sampling; only one sample is taken at a time.
    pub(super) sampling: SampleState,
}

/// The state of sampling.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum SampleState {
    Taken,
    UnderWay,
}

/// Returns the first time after `now` that is a whole number of steps after `due`. A late caller
/// skips missed steps, and the times do not drift.
pub(super) fn next(due: MonotonicTime, step: Duration, now: MonotonicTime) -> MonotonicTime {
    let step = u64::try_from(step.as_millis()).unwrap_or(u64::MAX).max(1);
    let steps = now.0.saturating_sub(due.0) / step + 1;
    MonotonicTime(due.0.saturating_add(step.saturating_mul(steps)))
}
