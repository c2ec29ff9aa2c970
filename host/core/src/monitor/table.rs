//! The table of all monitors, and its timers.
use super::{
    FileStat, LivenessSource, MonitorError, MonitorSelector, MonitorSpec, Sampling, UsageRequest,
    entry::{
        Beats, FileCheck, FileMonitor, Going, MonitorEntry, MonitorKind, Rate, SampleState, next,
    },
};
use crate::{
    MonotonicTime,
    quota::{Quota, QuotaRefusals, QuotaReport},
    request_id::RequestId,
};
use peal_model::{Event, Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::PathBuf,
    sync::Arc,
};

/// Identifier of a monitor; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct MonitorId(pub u64);

/// Limits on monitors.
#[derive(Clone, Copy, Debug)]
pub struct MonitorLimits {
    /// Number of monitors of one proc.
    pub per_proc: usize,
    /// Number of monitors of all procs; half of it for one user.
    pub total: usize,
    /// Number of file monitors, each with an open file; half of it for one user.
    pub files: usize,
}

impl Default for MonitorLimits {
    fn default() -> Self {
        MonitorLimits {
            per_proc: 64,
            total: 65_536,
            files: 512,
        }
    }
}

/// A monitor to begin, with the request that is answered later if not at once.
#[derive(Debug)]
pub(crate) enum NewMonitor {
    Watch(MonitorSpec, RequestId),
    Usage(Sampling, RequestId),
}

/// An action that is due.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum MonitorAction {
    /// Raises an alert, because a monitored proc or file shows no activity.
    Alert { requester: Proc, alert: Arc<Event> },
    /// Opens a file, and answers the requester with the result.
    Open {
        watch: MonitorId,
        path: PathBuf,
        requester: Proc,
    },
    /// Keeps a file at hand that was opened before.
    Keep {
        watch: MonitorId,
        path: PathBuf,
        requester: Proc,
    },
    /// Checks a file again.
    Look(MonitorId),
    /// Takes a sample.
    Measure {
        watch: MonitorId,
        usage: Arc<UsageRequest>,
        requester: Proc,
    },
}

/// The use of a sample.
#[derive(Debug)]
pub(crate) enum SampleUse {
    /// Answers this request.
    Answer(RequestId),
    /// Adds the sample to this event, for its requester.
    Update { requester: Proc, update: Arc<Event> },
}

/// A monitor that has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EndedMonitor {
    /// The monitor.
    pub(crate) watch: MonitorId,
    /// True if it was a file monitor, whose file must be closed.
    pub(crate) of_file: bool,
    /// The request that waits for a reply.
    pub(crate) waiting: Option<RequestId>,
}

/// The monitors and the activity of a proc.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Own {
    /// Time of its last heartbeat.
    last: Option<MonotonicTime>,
    watches: BTreeSet<MonitorId>,
    /// Monitors whose alert about the current silence has been raised.
    silent: Vec<MonitorId>,
}

/// The number of monitors of a user's procs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct UserMonitors {
    watches: usize,
    files: usize,
}

/// All monitors.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MonitorTable {
    #[serde(skip)]
    limits: MonitorLimits,
    entries: BTreeMap<MonitorId, MonitorEntry>,
    procs: BTreeMap<Proc, Own>,
    users: BTreeMap<u32, UserMonitors>,
    refusals: QuotaRefusals,
    files: usize,
    queue: BTreeSet<(MonotonicTime, MonitorId)>,
    /// Monitors whose timers begin with the next tick.
    fresh: Vec<MonitorId>,
    /// Procs whose heartbeat gets the time of the next tick.
    beating: Vec<Proc>,
    ended: Vec<EndedMonitor>,
    next: u64,
}

impl MonitorTable {
    pub(crate) fn new(limits: MonitorLimits) -> MonitorTable {
        MonitorTable {
            limits,
            entries: BTreeMap::new(),
            procs: BTreeMap::new(),
            users: BTreeMap::new(),
            refusals: QuotaRefusals::default(),
            files: 0,
            queue: BTreeSet::new(),
            fresh: Vec::new(),
            beating: Vec::new(),
            ended: Vec::new(),
            next: 0,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: MonitorLimits) {
        self.limits = limits;
    }

    /// Returns the number of monitors.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a monitor of a requester that runs as this user. Heartbeats are counted from the next
    /// [`MonitorTable::tick`], which is due at once.
    pub(crate) fn begin(
        &mut self,
        requester: &Proc,
        uid: u32,
        beginning: NewMonitor,
    ) -> Result<MonitorId, MonitorError> {
        let (id, of_file) = match &beginning {
            NewMonitor::Watch(watch, _) => (
                watch.id.clone(),
                matches!(watch.signs, LivenessSource::File { .. }),
            ),
            NewMonitor::Usage(sampling, _) => (sampling.id.clone(), false),
        };
        // Before the number is taken, so that a refused request uses up none.
        let admitted = self.admit(requester, uid, id.as_ref(), of_file);
        if let Err(MonitorError::TooMany { .. }) = admitted {
            self.refusals.count(uid, Quota::Monitors);
        }
        admitted?;
        self.next += 1;
        let number = MonitorId(self.next);
        let kind = match beginning {
            NewMonitor::Watch(
                MonitorSpec {
                    signs: LivenessSource::Heartbeats { time, drops },
                    alert,
                    ..
                },
                _,
            ) => {
                // Timers of other monitors begin after their first result.
                self.fresh.push(number);
                MonitorKind::Beats(Beats {
                    time,
                    drops,
                    alert,
                    // The next tick sets the time, which this call does not have.
                    since: MonotonicTime::default(),
                })
            }
            NewMonitor::Watch(
                MonitorSpec {
                    signs:
                        LivenessSource::File {
                            path,
                            traces,
                            check,
                            drops,
                        },
                    alert,
                    ..
                },
                to,
            ) => MonitorKind::File(FileMonitor::new(path, traces, (check, drops), alert, to)),
            NewMonitor::Usage(
                Sampling {
                    usage,
                    rate,
                    update,
                    ..
                },
                to,
            ) => MonitorKind::Usage(Rate {
                usage,
                rate,
                update,
                first: Some(to),
                // The caller takes the first sample at once.
                sampling: SampleState::UnderWay,
            }),
        };
        let entry = MonitorEntry {
            requester: requester.clone(),
            uid,
            id,
            kind,
            due: None,
        };
        self.entries.insert(number, entry);
        self.procs
            .entry(requester.clone())
            .or_default()
            .watches
            .insert(number);
        let held = self.users.entry(uid).or_default();
        held.watches += 1;
        held.files += usize::from(of_file);
        self.files += usize::from(of_file);
        Ok(number)
    }

    fn admit(
        &self,
        requester: &Proc,
        uid: u32,
        id: Option<&String>,
        of_file: bool,
    ) -> Result<(), MonitorError> {
        let own = self.procs.get(requester).map_or(0, |own| own.watches.len());
        let user = self.users.get(&uid);
        let (of_user, files_of_user) = user.map_or((0, 0), |held| (held.watches, held.files));
        let name = format!("user {uid}");
        let MonitorLimits {
            per_proc: each,
            total: all,
            files,
        } = self.limits;
        // A user's share of a total is rounded up, so that a total of one still admits a monitor.
        let bounds = [
            (requester.to_string(), own, each),
            // Half of all, so that one user leaves room for others.
            (name.clone(), of_user, all.div_ceil(2)),
            ("the server".to_owned(), self.entries.len(), all),
        ];
        let of_files = [
            (
                format!("{name}, with files,"),
                files_of_user,
                files.div_ceil(2),
            ),
            ("the server, with files,".to_owned(), self.files, files),
        ];
        let of_files = of_files.into_iter().filter(|_| of_file);
        for (holder, has, max) in bounds.into_iter().chain(of_files) {
            if has >= max {
                return Err(MonitorError::TooMany { holder, max });
            }
        }
        // The id selects the monitor to cancel, so a proc may use it once.
        match id.filter(|id| self.find_by_name(requester, id).is_some()) {
            Some(id) => Err(MonitorError::IdTaken {
                requester: requester.clone(),
                id: id.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Adds what each user holds, and how often it was refused, to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        let total = self.limits.total;
        report.limit(Quota::Monitors, total.div_ceil(2), Some(total));
        let held = self.users.iter();
        report.hold(
            Quota::Monitors,
            held.map(|(uid, held)| (*uid, held.watches)),
        );
        report.refuse(&self.refusals);
    }

    fn find_by_name(&self, requester: &Proc, id: &str) -> Option<MonitorId> {
        let own = self.procs.get(requester)?;
        let is = |watch: &&MonitorId| {
            self.entries
                .get(watch)
                .is_some_and(|entry| entry.id.as_deref() == Some(id))
        };
        own.watches.iter().find(is).copied()
    }

    /// Records a heartbeat; that of a clone may be reported late. Monitors that had raised an alert
    /// are armed again.
    pub(crate) fn beat(&mut self, proc: &Proc, at: MonotonicTime) {
        let Some(own) = self.procs.get_mut(proc) else {
            return;
        };
        own.last = own.last.max(Some(at));
        // Other monitors read the last heartbeat when their check is due. So a heartbeat changes no
        // timer, and only alerted monitors are armed here.
        for watch in mem::take(&mut own.silent) {
            if let Some(MonitorEntry {
                kind: MonitorKind::Beats(beats),
                due,
                ..
            }) = self.entries.get_mut(&watch)
            {
                let at = beats.deadline(own.last);
                *due = Some(at);
                self.queue.insert((at, watch));
            }
        }
    }

    /// Records a heartbeat whose time is that of the next [`MonitorTable::tick`].
    pub(crate) fn beat_soon(&mut self, proc: &Proc) {
        if self.procs.contains_key(proc) {
            // Only for procs with monitors: other heartbeats have no effect.
            self.beating.push(proc.clone());
        }
    }

    /// Counts the silence of all procs from now on: the server has read nothing for a while. Alerts that were
    /// raised stay.
    pub(crate) fn excuse_silence(&mut self, now: MonotonicTime) {
        for entry in self.entries.values_mut() {
            if let MonitorKind::Beats(beats) = &mut entry.kind {
                beats.since = beats.since.max(now);
            }
        }
    }

    /// Returns the procs whose heartbeats [`MonitorTable::tick`] would check at this time. A proc
    /// may occur twice.
    pub(crate) fn beats_due(&self, now: MonotonicTime) -> impl Iterator<Item = &Proc> {
        // The largest id includes all monitors that are due at exactly this time.
        let due = self.queue.range(..=(now, MonitorId(u64::MAX)));
        let entries = due.filter_map(|(_, watch)| self.entries.get(watch));
        entries
            .filter(|entry| matches!(entry.kind, MonitorKind::Beats(_)))
            .map(|entry| &entry.requester)
    }

    /// Returns true if an alert has reported the proc as silent and no heartbeat came since.
    pub(crate) fn is_silent(&self, proc: &Proc) -> bool {
        self.procs
            .get(proc)
            .is_some_and(|own| !own.silent.is_empty())
    }

    /// Returns the time at which [`MonitorTable::tick`] has something to do next; at once if a
    /// monitor has begun.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        let first = self.queue.first().map(|(at, _)| *at);
        if self.fresh.is_empty() && self.beating.is_empty() {
            first
        } else {
            // The earliest time is past by any clock, so the tick is due at once.
            Some(MonotonicTime::default())
        }
    }

    /// Advances the time and returns the actions that are due.
    pub(crate) fn tick(&mut self, now: MonotonicTime) -> Vec<MonitorAction> {
        for watch in mem::take(&mut self.fresh) {
            self.start(watch, now);
        }
        for proc in mem::take(&mut self.beating) {
            self.beat(&proc, now);
        }
        let mut due = Vec::new();
        while let Some((at, watch)) = self.queue.first().copied().filter(|(at, _)| *at <= now) {
            self.queue.pop_first();
            due.extend(self.look_at(watch, at, now));
        }
        due
    }

    fn start(&mut self, watch: MonitorId, now: MonotonicTime) {
        let Some(entry) = self.entries.get_mut(&watch) else {
            return;
        };
        let at = match &mut entry.kind {
            MonitorKind::Beats(beats) => {
                beats.since = now;
                // Earlier heartbeats do not count. The deadline follows from `since`.
                Some(beats.deadline(None))
            }
            MonitorKind::File(file) => Some(now + file.interval),
            MonitorKind::Usage(usage) => usage.rate.map(|rate| now + rate),
        };
        entry.due = at;
        self.queue.extend(at.map(|at| (at, watch)));
    }

    fn look_at(
        &mut self,
        watch: MonitorId,
        at: MonotonicTime,
        now: MonotonicTime,
    ) -> Option<MonitorAction> {
        let entry = self.entries.get_mut(&watch)?;
        let requester = || entry.requester.clone();
        let (again, due) = match &mut entry.kind {
            MonitorKind::Beats(beats) => {
                let own = self.procs.get_mut(&entry.requester)?;
                let deadline = beats.deadline(own.last);
                // Heartbeats have moved the deadline since, but not the timer.
                if deadline > now {
                    (Some(deadline), None)
                } else if let Some(later) = beats.put_off(deadline.max(at), now) {
                    (Some(later), None)
                } else {
                    // Without a timer until the next heartbeat, so that each silence is reported
                    // once.
                    own.silent.push(watch);
                    (
                        None,
                        Some(MonitorAction::Alert {
                            requester: requester(),
                            alert: beats.alert.clone(),
                        }),
                    )
                }
            }
            MonitorKind::File(file) => {
                let due = match file.go() {
                    Going::Now => Some(MonitorAction::Look(watch)),
                    Going::Nothing => None,
                    Going::Alert(alert) => Some(MonitorAction::Alert {
                        requester: requester(),
                        alert,
                    }),
                };
                (Some(next(at, file.interval, now)), due)
            }
            MonitorKind::Usage(usage) => {
                // Never two samples at once: one that takes longer than its rate leaves out the
                // next.
                let free =
                    mem::replace(&mut usage.sampling, SampleState::UnderWay) == SampleState::Taken;
                let measure = || MonitorAction::Measure {
                    watch,
                    usage: usage.usage.clone(),
                    requester: requester(),
                };
                (
                    usage.rate.map(|rate| next(at, rate, now)),
                    free.then(measure),
                )
            }
        };
        entry.due = again;
        self.queue.extend(again.map(|at| (at, watch)));
        due
    }

    /// Returns the actions of a process that continues the server of another one, in the order of the monitors'
    /// ids: it keeps the files at hand, and repeats checks and samples that had no result yet.
    pub(crate) fn work_to_continue(&self) -> Vec<MonitorAction> {
        let mut actions = Vec::new();
        for (watch, entry) in &self.entries {
            let (watch, requester) = (*watch, entry.requester.clone());
            match &entry.kind {
                MonitorKind::File(file) => {
                    let path = file.path.clone();
                    actions.push(match file.check {
                        FileCheck::First(_) => MonitorAction::Open {
                            watch,
                            path,
                            requester,
                        },
                        _ => MonitorAction::Keep {
                            watch,
                            path,
                            requester,
                        },
                    });
                    if matches!(file.check, FileCheck::Out | FileCheck::Overdue) {
                        actions.push(MonitorAction::Look(watch));
                    }
                }
                MonitorKind::Usage(usage) if usage.sampling == SampleState::UnderWay => {
                    actions.push(MonitorAction::Measure {
                        watch,
                        usage: usage.usage.clone(),
                        requester,
                    });
                }
                MonitorKind::Usage(_) | MonitorKind::Beats(_) => (),
            }
        }
        actions
    }

    /// Handles the first check of a file and returns the request to answer. Further checks follow
    /// if the file could be opened.
    pub(crate) fn opened(&mut self, watch: MonitorId, seen: Option<FileStat>) -> Option<RequestId> {
        let Some(MonitorEntry {
            kind: MonitorKind::File(file),
            ..
        }) = self.entries.get_mut(&watch)
        else {
            return None;
        };
        // Only the first check has a requester that waits for an answer.
        let FileCheck::First(to) = file.check else {
            return None;
        };
        (file.check, file.last_stat) = (FileCheck::None, seen);
        match seen {
            // The next tick starts its timer.
            Some(_) => self.fresh.push(watch),
            None => self.end(watch),
        }
        Some(to)
    }

    /// Handles a later check of a file and returns the alert, if one is due.
    pub(crate) fn record_stat(
        &mut self,
        watch: MonitorId,
        seen: Option<FileStat>,
    ) -> Option<(Proc, Arc<Event>)> {
        let entry = self.entries.get_mut(&watch)?;
        let MonitorKind::File(file) = &mut entry.kind else {
            return None;
        };
        let alert = file.record_stat(seen)?;
        Some((entry.requester.clone(), alert))
    }

    /// Handles a sample, or a failed one, and returns its use. A monitor without a rate ends with
    /// its first sample, and so does one whose first sample failed.
    pub(crate) fn measured(
        &mut self,
        watch: MonitorId,
        outcome: Result<(), ()>,
    ) -> Option<SampleUse> {
        let entry = self.entries.get_mut(&watch)?;
        let MonitorKind::Usage(usage) = &mut entry.kind else {
            return None;
        };
        usage.sampling = SampleState::Taken;
        let Some(to) = usage.first.take() else {
            let update = usage.update.clone();
            return Some(SampleUse::Update {
                requester: entry.requester.clone(),
                update,
            });
        };
        if usage.rate.is_some() && outcome.is_ok() {
            self.fresh.push(watch);
        } else {
            self.end(watch);
        }
        Some(SampleUse::Answer(to))
    }

    /// Ends monitors of a requester.
    pub(crate) fn cancel(
        &mut self,
        requester: &Proc,
        which: &MonitorSelector,
    ) -> Result<(), MonitorError> {
        match which {
            MonitorSelector::All => self.end_proc(requester),
            MonitorSelector::One(id) => {
                let unknown = || MonitorError::UnknownId {
                    requester: requester.clone(),
                    id: id.clone(),
                };
                let watch = self.find_by_name(requester, id).ok_or_else(unknown)?;
                self.end(watch);
            }
        }
        Ok(())
    }

    /// Ends the monitors of a proc that has ended.
    pub(crate) fn end_proc(&mut self, proc: &Proc) {
        // Cloned, because the end of each monitor changes the set.
        let watches = self
            .procs
            .get(proc)
            .map(|own| own.watches.clone())
            .unwrap_or_default();
        watches.into_iter().for_each(|watch| self.end(watch));
    }

    /// Ends the monitors of all procs of a namespace.
    pub(crate) fn end_job(&mut self, nspace: &Nspace) {
        let first = Proc::new(nspace.clone(), peal_model::Rank(0));
        let procs = self
            .procs
            .range(first..)
            .map(|(proc, _)| proc)
            .take_while(|proc| proc.nspace == *nspace);
        let procs: Vec<Proc> = procs.cloned().collect();
        procs.iter().for_each(|proc| self.end_proc(proc));
    }

    /// Takes the monitors that have ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<EndedMonitor> {
        mem::take(&mut self.ended)
    }

    fn end(&mut self, watch: MonitorId) {
        let Some(MonitorEntry {
            requester,
            uid,
            kind,
            due,
            ..
        }) = self.entries.remove(&watch)
        else {
            return;
        };
        if let Some(at) = due {
            self.queue.remove(&(at, watch));
        }
        if let Some(own) = self.procs.get_mut(&requester) {
            own.watches.remove(&watch);
            own.silent.retain(|silent| *silent != watch);
            if own.watches.is_empty() {
                self.procs.remove(&requester);
            }
        }
        let of_file = matches!(kind, MonitorKind::File(_));
        if let Some(held) = self.users.get_mut(&uid) {
            held.watches -= 1;
            held.files -= usize::from(of_file);
            if held.watches == 0 {
                self.users.remove(&uid);
            }
        }
        self.files -= usize::from(of_file);
        // A request that waits for its first result would otherwise get no reply.
        let waiting = match kind {
            MonitorKind::File(FileMonitor {
                check: FileCheck::First(to),
                ..
            }) => Some(to),
            MonitorKind::Usage(Rate { first, .. }) => first,
            MonitorKind::File(_) | MonitorKind::Beats(_) => None,
        };
        self.ended.push(EndedMonitor {
            watch,
            of_file,
            waiting,
        });
    }
}
