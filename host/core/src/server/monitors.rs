//! Monitoring: heartbeats, files and resource usage of procs, and the alerts about them.
#[cfg(doc)]
use super::ServerState;
use super::{
    Action, EventDelivery, FileLook, PeerId, RequestId, ServerContext, StateSettings, Upcall,
    clients::ClientTable, events::check, reply,
};
use crate::{
    MonotonicTime,
    event_targets::BY_SERVER,
    monitor::{
        self, EndedMonitor, FileStat, LivenessSource, Monitor, MonitorAction, MonitorError,
        MonitorId, MonitorTable, NewMonitor, SampleUse,
    },
    policy,
    quota::QuotaReport,
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Nspace, Proc, Range, Reply, Request, Status, UserIdentity, Value, code,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The party that monitors (`PMIX_SERVER_ENABLE_MONITORING`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Monitoring {
    /// The host environment where it supports monitoring, else the server. The caller decides.
    #[default]
    Deferred,
    /// The server itself.
    Server,
    /// The host environment, which gets all monitor requests.
    Host,
}

/// Result of a file check: the file's stat, or a status with its reason.
pub type FileSeen = Result<FileStat, (Status, String)>;

/// Result of a usage measurement: infos, or a status with its reason.
pub type UsageFound = Result<Vec<Info>, (Status, String)>;

/// The monitors of a server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Monitors {
    table: MonitorTable,
}

impl Monitors {
    /// Creates the state without monitors.
    pub(super) fn new(settings: &StateSettings) -> Monitors {
        Monitors {
            table: MonitorTable::new(settings.monitors),
        }
    }

    pub(super) fn set_limits(&mut self, limits: crate::monitor::MonitorLimits) {
        self.table.set_limits(limits);
    }

    /// Returns the number of monitors.
    pub(super) fn count(&self) -> usize {
        self.table.len()
    }

    /// Adds the monitors of each user to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport) {
        self.table.report_quotas(report);
    }

    /// Returns the time at which [`Monitors::tick`] has something to do next.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.table.deadline()
    }

    /// Ends the monitors of a proc that has ended, and returns the cleanup.
    pub(super) fn end_proc(&mut self, clients: &ClientTable, proc: &Proc) -> Vec<Action> {
        self.table.end_proc(proc);
        self.clean_up(clients)
    }

    /// Ends the monitors of all procs of a namespace, and returns the cleanup.
    pub(super) fn end_job(&mut self, clients: &ClientTable, nspace: &Nspace) -> Vec<Action> {
        self.table.end_job(nspace);
        self.clean_up(clients)
    }

    /// Handles a permitted monitor request. Timers begin with the next [`ServerState::tick`], which
    /// is due at once.
    pub(super) fn monitor(
        &mut self,
        ctx: ServerContext<'_>,
        to: RequestId,
        source: Proc,
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    ) -> Vec<Action> {
        // The host environment checks such a request itself.
        let by_host = |source, monitor, directives| {
            let request = Request::Monitor {
                monitor,
                error,
                directives,
            };
            vec![Action::Upcall(Upcall::Request {
                to,
                source,
                request,
            })]
        };
        if ctx.settings.monitoring == Monitoring::Host {
            return by_host(source, monitor, directives);
        }
        // A policy may have taken so long that the client has left.
        let Some(peer) = ctx.clients.active_peer(to.peer) else {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        };
        let identity = peer.identity;
        let ranks = |nspace: &Nspace| ctx.clients.ranks_of(nspace);
        let own = || {
            let jobs = ctx.clients.jobs_of(identity.uid);
            jobs.map(|job| job.spec.nspace.clone()).collect()
        };
        let read = monitor::read(&source, &monitor, error, &directives, ranks, own);
        if let Ok(Monitor::Usage(sampling)) = &read
            && is_for_launcher(ctx.clients, &sampling.elsewhere)
        {
            return by_host(source, monitor, directives);
        }
        let begun = read.and_then(|monitor| self.begin(ctx, to, &source, identity, monitor));
        begun.unwrap_or_else(|error| vec![refusal(to, error.status(), &error)])
    }

    fn begin(
        &mut self,
        ctx: ServerContext<'_>,
        to: RequestId,
        source: &Proc,
        identity: UserIdentity,
        monitor: Monitor,
    ) -> Result<Vec<Action>, MonitorError> {
        let uid = identity.uid;
        match monitor {
            // Heartbeats usually come as another message. This form means the same; the next tick
            // sets the time of it.
            Monitor::Beat => self.table.beat_soon(source),
            Monitor::Cancel(which) => {
                self.table.cancel(source, &which)?;
                let mut actions = self.clean_up(ctx.clients);
                actions.push(reply(to, code::PMIX_SUCCESS));
                return Ok(actions);
            }
            Monitor::Watch(mut watch) => {
                let event = Arc::make_mut(&mut watch.alert);
                check(event, ctx.settings).map_err(event_error)?;
                // Added after `check`, which removes the key from what requesters send.
                event.infos.push(Info::new(BY_SERVER, Value::Bool(true)));
                let path = if let LivenessSource::File { path, .. } = &watch.signs {
                    Some(path.clone())
                } else {
                    None
                };
                let watch = self
                    .table
                    .begin(source, uid, NewMonitor::Watch(watch, to))?;
                // The reply follows when the file is open (`file_opened`).
                if let Some(path) = path {
                    return Ok(vec![Action::CheckFile {
                        watch,
                        check: FileLook::Open { path, identity },
                    }]);
                }
            }
            Monitor::Usage(mut sampling) => {
                check(Arc::make_mut(&mut sampling.update), ctx.settings).map_err(event_error)?;
                let usage = sampling.usage.clone();
                let watch = self
                    .table
                    .begin(source, uid, NewMonitor::Usage(sampling, to))?;
                // The first sample is the reply.
                return Ok(vec![Action::Measure {
                    watch,
                    usage,
                    identity,
                }]);
            }
        }
        Ok(vec![reply(to, code::PMIX_SUCCESS)])
    }

    /// Returns the actions by which another process continues these monitors
    /// ([`ServerState::work_to_continue`]).
    pub(super) fn work_to_continue(
        &self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
    ) -> Vec<Action> {
        let work = self.table.work_to_continue();
        work.into_iter()
            .flat_map(|action| carry_out(ctx, events, action))
            .collect()
    }

    /// Counts the silence of all procs from now on ([`ServerState::excuse_silence`]).
    pub(super) fn excuse_silence(&mut self, now: MonotonicTime) {
        self.table.excuse_silence(now);
    }

    /// Records a heartbeat of a client at a given time ([`ServerState::beat`]).
    pub(super) fn beat(&mut self, clients: &ClientTable, peer: PeerId, at: MonotonicTime) {
        if let Some(peer) = clients.active_peer(peer) {
            self.table.beat(&peer.proc, at);
        }
    }

    /// Returns the procs that [`Monitors::tick`] would check at this time. A proc may occur
    /// twice.
    pub(super) fn beats_due(&self, now: MonotonicTime) -> impl Iterator<Item = &Proc> {
        self.table.beats_due(now)
    }

    /// Returns true if an alert has reported the proc as silent and no heartbeat came since.
    pub(super) fn is_silent(&self, proc: &Proc) -> bool {
        self.table.is_silent(proc)
    }

    /// Handles the result of [`FileLook::Open`] and answers the requester.
    pub(super) fn file_opened(
        &mut self,
        clients: &ClientTable,
        watch: MonitorId,
        seen: FileSeen,
    ) -> Vec<Action> {
        let (seen, refused) = match seen {
            Ok(seen) => (Some(seen), None),
            Err(why) => (None, Some(why)),
        };
        let Some(to) = self.table.opened(watch, seen) else {
            // The requester has left.
            return vec![Action::CheckFile {
                watch,
                check: FileLook::Close,
            }];
        };
        let mut actions = match refused {
            None => clients.answer(to, Reply::Status(code::PMIX_SUCCESS)),
            Some((status, why)) => clients.answer(to, refusal_reply(status, why)),
        };
        actions.extend(self.clean_up(clients));
        actions
    }

    /// Handles the result of [`FileLook::Again`]; none if the file cannot be read any more.
    pub(super) fn file_looked_at(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        watch: MonitorId,
        seen: Option<FileStat>,
    ) -> Vec<Action> {
        let alert = self.table.record_stat(watch, seen);
        alert
            .map(|(requester, alert)| alert_user(ctx, events, &requester, alert))
            .unwrap_or_default()
    }

    /// Handles the result of [`Action::Measure`] and answers the requester or raises the update.
    pub(super) fn measured(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        watch: MonitorId,
        found: UsageFound,
    ) -> Vec<Action> {
        let measured = self
            .table
            .measured(watch, found.as_ref().map(drop).map_err(drop));
        let mut actions = match (measured, found) {
            (Some(SampleUse::Answer(to)), Ok(infos)) => ctx.clients.answer(
                to,
                Reply::Infos {
                    status: code::PMIX_SUCCESS,
                    infos,
                },
            ),
            (Some(SampleUse::Answer(to)), Err((status, why))) => {
                ctx.clients.answer(to, refusal_reply(status, why))
            }
            (Some(SampleUse::Update { requester, update }), Ok(infos)) => {
                let mut update = Event::clone(&update);
                update.infos.extend(infos);
                // The update was checked without its infos, which have grown too large since. No
                // requester waits for an error.
                match check(&mut update, ctx.settings) {
                    Ok(()) => alert_user(ctx, events, &requester, Arc::new(update)),
                    Err(_) => Vec::new(),
                }
            }
            // Updates are periodic: a failed measurement is skipped.
            (Some(SampleUse::Update { .. }), Err(_)) | (None, _) => Vec::new(),
        };
        actions.extend(self.clean_up(ctx.clients));
        actions
    }

    /// Carries out the monitor actions that are due.
    pub(super) fn tick(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let due = self.table.tick(now);
        due.into_iter()
            .flat_map(|due| carry_out(ctx, events, due))
            .collect()
    }

    /// Cleans up after monitors that have ended: closes files, answers waiting requesters.
    fn clean_up(&mut self, clients: &ClientTable) -> Vec<Action> {
        let ended = self.table.take_ended();
        let mut actions = Vec::new();
        for EndedMonitor {
            watch,
            of_file,
            waiting,
        } in ended
        {
            if of_file {
                actions.push(Action::CheckFile {
                    watch,
                    check: FileLook::Close,
                });
            }
            if let Some(to) = waiting {
                actions.extend(clients.answer(
                    to,
                    refusal_reply(code::PMIX_ERR_JOB_CANCELED, "the monitor was cancelled"),
                ));
            }
        }
        actions
    }
}

/// Returns true if the launcher of a job is to monitor these procs of other nodes. For a whole job
/// whose launcher does not monitor, those of this node are monitored.
fn is_for_launcher(clients: &ClientTable, elsewhere: &[Proc]) -> bool {
    let monitors = |proc: &Proc| {
        let job = clients.job(&proc.nspace);
        job.is_some_and(|job| job.spec.is_monitored_by_launcher())
    };
    elsewhere
        .iter()
        .any(|proc| proc.rank.is_valid() || monitors(proc))
}

/// Carries out a monitor action.
fn carry_out(
    ctx: ServerContext<'_>,
    events: &mut EventDelivery,
    action: MonitorAction,
) -> Vec<Action> {
    let check = |watch, check| Action::CheckFile { watch, check };
    // Without an identity the requester has left, and its monitors end with it.
    let identity = |requester| ctx.clients.identity(requester);
    let action = match action {
        MonitorAction::Alert { requester, alert } => {
            return alert_user(ctx, events, &requester, alert);
        }
        MonitorAction::Open {
            watch,
            path,
            requester,
        } => identity(&requester).map(|identity| check(watch, FileLook::Open { path, identity })),
        MonitorAction::Keep {
            watch,
            path,
            requester,
        } => {
            identity(&requester).map(|identity| check(watch, FileLook::Continue { path, identity }))
        }
        MonitorAction::Look(watch) => Some(check(watch, FileLook::Again)),
        MonitorAction::Measure {
            watch,
            usage,
            requester,
        } => identity(&requester).map(|identity| Action::Measure {
            watch,
            usage,
            identity,
        }),
    };
    action.into_iter().collect()
}

/// Raises an alert, which only the user of the requester receives, because only that was
/// permitted. The host environment receives it too if it registered for the code, so that it
/// can respond.
fn alert_user(
    ctx: ServerContext<'_>,
    events: &mut EventDelivery,
    requester: &Proc,
    alert: Arc<Event>,
) -> Vec<Action> {
    let Some(identity) = ctx.clients.identity(requester) else {
        return Vec::new();
    };
    // With that range, `distribute` passes the alert to the host environment.
    let is_for_host = alert.range != Range::Rm && events.host_names(alert.code);
    let allowance = ctx.settings.allowance;
    let notify_host = || {
        Action::Upcall(Upcall::Notify {
            event: alert.clone(),
            allowance,
        })
    };
    let mut actions: Vec<Action> = is_for_host.then(notify_host).into_iter().collect();
    actions.extend(events.distribute(ctx, alert, UserScope::User(identity.uid), allowance));
    actions
}

/// Maps the status of an event that cannot be raised to a monitor error.
fn event_error(status: Status) -> MonitorError {
    if status == code::PMIX_ERR_OUT_OF_RESOURCE {
        MonitorError::TooLarge
    } else {
        MonitorError::BadRange
    }
}

fn refusal_reply(status: Status, why: impl std::fmt::Display) -> Reply {
    Reply::Infos {
        status,
        infos: vec![policy::reason(why)],
    }
}

fn refusal(to: RequestId, status: Status, why: &MonitorError) -> Action {
    Action::Reply {
        to,
        reply: refusal_reply(status, why),
    }
}
