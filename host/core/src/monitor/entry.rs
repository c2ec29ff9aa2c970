//! One watch: what it waits for, and what follows when its time comes.
use super::{FileChanges, FileStat, UsageRequest, heartbeat_deadline};
use crate::{MonotonicTime, server::RequestId};
use peal_model::{Event, Proc};
use std::{sync::Arc, time::Duration};

/// A watch.
#[derive(Debug)]
pub(super) struct MonitorEntry {
    pub(super) requester: Proc,
    /// As which user that runs.
    pub(super) uid: u32,
    pub(super) id: Option<String>,
    pub(super) kind: MonitorKind,
    /// When it is looked at next, if that is settled.
    pub(super) due: Option<MonotonicTime>,
}

/// What is watched.
#[derive(Debug)]
pub(super) enum MonitorKind {
    Beats(Beats),
    File(FileMonitor),
    Usage(Rate),
}

/// Heartbeats. Whoever is silent is not due before the next of them.
#[derive(Debug)]
pub(super) struct Beats {
    pub(super) time: Duration,
    pub(super) drops: u32,
    pub(super) alert: Arc<Event>,
    /// When it began: before that nobody was asked to beat.
    pub(super) since: MonotonicTime,
}

impl Beats {
    /// When its proc counts as silent if it does not beat any more.
    pub(super) fn deadline(&self, last: Option<MonotonicTime>) -> MonotonicTime {
        heartbeat_deadline::until(
            last.unwrap_or_default().max(self.since),
            self.time,
            self.drops,
        )
    }

    /// Whether whoever looks now, and wanted to look `at` a time, was away for so long that nothing can be told. If so, until
    /// when it is put off.
    pub(super) fn put_off(&self, at: MonotonicTime, now: MonotonicTime) -> Option<MonotonicTime> {
        let half = heartbeat_deadline::half(self.time);
        (now.0.saturating_sub(at.0) > half).then_some(MonotonicTime(now.0.saturating_add(half)))
    }
}

/// A file.
#[derive(Debug)]
pub(super) struct FileMonitor {
    pub(super) traces: FileChanges,
    pub(super) check: Duration,
    pub(super) drops: u32,
    pub(super) alert: Arc<Event>,
    /// What was seen of it last.
    pub(super) seen: Option<FileStat>,
    /// How many looks have shown nothing new, no more than need be counted.
    missed: u32,
    pub(super) look: FileCheck,
}

/// Where the look at a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileCheck {
    /// The first, by which the requester is answered.
    First(RequestId),
    /// Nobody looks now.
    None,
    /// Somebody does.
    Out,
    /// Somebody does, and should have come back.
    Overdue,
}

impl FileMonitor {
    pub(super) fn new(
        traces: FileChanges,
        (check, drops): (Duration, u32),
        alert: Arc<Event>,
        to: RequestId,
    ) -> FileMonitor {
        FileMonitor {
            traces,
            check,
            drops,
            alert,
            seen: None,
            missed: 0,
            look: FileCheck::First(to),
        }
    }

    /// It is time for a look: whether somebody has to go.
    pub(super) fn go(&mut self) -> Going {
        match self.look {
            FileCheck::First(_) => Going::Nobody,
            FileCheck::None => {
                self.look = FileCheck::Out;
                Going::Now
            }
            // What hangs shows no life either.
            FileCheck::Out | FileCheck::Overdue => {
                self.look = FileCheck::Overdue;
                if self.miss() {
                    Going::Alert(self.alert.clone())
                } else {
                    Going::Nobody
                }
            }
        }
    }

    /// Somebody has looked, and saw this, or nothing: the alert, if there is to be one.
    pub(super) fn looked(&mut self, seen: Option<FileStat>) -> Option<Arc<Event>> {
        let was_overdue = self.look == FileCheck::Overdue;
        self.look = FileCheck::None;
        let lives = match (self.seen, seen) {
            (Some(before), Some(now)) => {
                (self.traces.size && now.size > before.size)
                    || (self.traces.access && now.accessed != before.accessed)
                    || (self.traces.modify && now.modified != before.modified)
            }
            (None, Some(_)) => true,
            (_, None) => false,
        };
        self.seen = seen.or(self.seen);
        if lives {
            self.missed = 0;
            return None;
        }
        (!was_overdue && self.miss()).then(|| self.alert.clone())
    }

    /// Nothing new: whether that is told now, which it is once.
    fn miss(&mut self) -> bool {
        let told = self.missed > self.drops;
        self.missed = self.missed.saturating_add(u32::from(!told));
        !told && self.missed > self.drops
    }
}

/// Who has to look at a file.
#[derive(Debug)]
pub(super) enum Going {
    Now,
    Nobody,
    Alert(Arc<Event>),
}

/// What is used, told at a rate.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) usage: Arc<UsageRequest>,
    pub(super) rate: Option<Duration>,
    pub(super) update: Arc<Event>,
    /// Whom the first sample answers, until it has.
    pub(super) first: Option<RequestId>,
    /// Whether a sample is being taken: then no other is.
    pub(super) sampling: SampleState,
}

/// Whether a sample is being taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SampleState {
    Taken,
    UnderWay,
}

/// The first time after `now` that comes a whole number of steps after `due`: whoever is late skips what it has missed, and
/// does not drift.
pub(super) fn next(due: MonotonicTime, step: Duration, now: MonotonicTime) -> MonotonicTime {
    let step = u64::try_from(step.as_millis()).unwrap_or(u64::MAX).max(1);
    let steps = now.0.saturating_sub(due.0) / step + 1;
    MonotonicTime(due.0.saturating_add(step.saturating_mul(steps)))
}
