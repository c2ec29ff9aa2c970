//! Monitoring: heartbeats, files and resource usage of procs, and the alerts about them.
use super::{
    Action, FileLook, PeerId, RequestId, ServerContext, ServerState, Upcall, events, reply,
};
use crate::{
    MonotonicTime,
    audience::BY_SERVER,
    monitor::{
        self, EndedMonitor, FileStat, LivenessSource, Monitor, MonitorAction, MonitorError,
        MonitorId, NewMonitor, SampleUse,
    },
    policy,
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Nspace, Proc, Range, Reply, Request, Status, UserIdentity, Value, code,
};
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

impl ServerState {
    /// Handles a permitted monitor request. Timers begin with the next [`ServerState::tick`], which
    /// is due at once.
    pub(super) fn monitor(
        &mut self,
        to: RequestId,
        source: Proc,
        monitor: Info,
        error: Status,
        directives: Vec<Info>,
    ) -> Vec<Action> {
        if self.settings.monitoring == Monitoring::Host {
            let request = Request::Monitor {
                monitor,
                error,
                directives,
            };
            return vec![Action::Upcall(Upcall::Request {
                to,
                source,
                request,
            })];
        }
        // A policy may have taken so long that the client has left.
        let Some(peer) = self.clients.active_peer(to.peer) else {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        };
        let identity = peer.identity;
        let ranks = |nspace: &Nspace| self.clients.ranks_of(nspace);
        let own = || {
            let jobs = self.clients.jobs_of(identity.uid);
            jobs.map(|job| job.spec.nspace.clone()).collect()
        };
        let read = monitor::read(&source, &monitor, error, &directives, ranks, own);
        let begun = read.and_then(|monitor| self.begin(to, &source, identity, monitor));
        begun.unwrap_or_else(|error| vec![refusal(to, error.status(), &error)])
    }

    fn begin(
        &mut self,
        to: RequestId,
        source: &Proc,
        identity: UserIdentity,
        monitor: Monitor,
    ) -> Result<Vec<Action>, MonitorError> {
        let uid = identity.uid;
        match monitor {
            // Heartbeats usually come as another message. This form means the same; the next tick
            // sets the time of it.
            Monitor::Beat => self.monitors.beat_soon(source),
            Monitor::Cancel(which) => {
                self.monitors.cancel(source, &which)?;
                let mut actions = self.end_monitors();
                actions.push(reply(to, code::PMIX_SUCCESS));
                return Ok(actions);
            }
            Monitor::Watch(mut watch) => {
                let event = Arc::make_mut(&mut watch.alert);
                events::check(event, &self.settings).map_err(event_error)?;
                event.infos.push(Info::new(BY_SERVER, Value::Bool(true)));
                let path = if let LivenessSource::File { path, .. } = &watch.signs {
                    Some(path.clone())
                } else {
                    None
                };
                let watch = self
                    .monitors
                    .begin(source, uid, NewMonitor::Watch(watch, to))?;
                if let Some(path) = path {
                    return Ok(vec![Action::CheckFile {
                        watch,
                        look: FileLook::Open { path, identity },
                    }]);
                }
            }
            Monitor::Usage(mut sampling) => {
                events::check(Arc::make_mut(&mut sampling.update), &self.settings)
                    .map_err(event_error)?;
                let usage = sampling.usage.clone();
                let watch = self
                    .monitors
                    .begin(source, uid, NewMonitor::Usage(sampling, to))?;
                return Ok(vec![Action::Measure {
                    watch,
                    usage,
                    identity,
                }]);
            }
        }
        Ok(vec![reply(to, code::PMIX_SUCCESS)])
    }

    /// Records a heartbeat of a client at a given time. It may be reported late, but before a
    /// [`ServerState::tick`] that checks the proc ([`ServerState::beats_due`]), and at once if the
    /// proc counts as silent ([`ServerState::is_silent`]).
    pub fn beat(&mut self, peer: PeerId, at: MonotonicTime) {
        if let Some(peer) = self.clients.active_peer(peer) {
            self.monitors.beat(&peer.proc, at);
        }
    }

    /// Returns the procs that [`ServerState::tick`] would check at this time. A proc may occur
    /// twice.
    pub fn beats_due(&self, now: MonotonicTime) -> impl Iterator<Item = &Proc> {
        self.monitors.beats_due(now)
    }

    /// Returns true if an alert has reported the proc as silent and no heartbeat came since.
    pub fn is_silent(&self, proc: &Proc) -> bool {
        self.monitors.is_silent(proc)
    }

    /// Handles the result of [`FileLook::Open`] and answers the requester.
    pub fn file_opened(&mut self, watch: MonitorId, seen: FileSeen) -> Vec<Action> {
        let (seen, refused) = match seen {
            Ok(seen) => (Some(seen), None),
            Err(why) => (None, Some(why)),
        };
        let Some(to) = self.monitors.opened(watch, seen) else {
            // The requester has left.
            return vec![Action::CheckFile {
                watch,
                look: FileLook::Close,
            }];
        };
        let mut actions = match refused {
            None => self.answer(to, Reply::Status(code::PMIX_SUCCESS)),
            Some((status, why)) => self.answer(to, refusal_reply(status, why)),
        };
        actions.extend(self.end_monitors());
        actions
    }

    /// Handles the result of [`FileLook::Again`]; none if the file cannot be read any more.
    pub fn file_looked_at(&mut self, watch: MonitorId, seen: Option<FileStat>) -> Vec<Action> {
        let alert = self.monitors.looked(watch, seen);
        alert
            .map(|(requester, alert)| self.alert(&requester, alert))
            .unwrap_or_default()
    }

    /// Handles the result of [`Action::Measure`] and answers the requester or raises the update.
    pub fn measured(&mut self, watch: MonitorId, found: UsageFound) -> Vec<Action> {
        let measured = self
            .monitors
            .measured(watch, found.as_ref().map(drop).map_err(drop));
        let mut actions = match (measured, found) {
            (Some(SampleUse::Answer(to)), Ok(infos)) => self.answer(
                to,
                Reply::Infos {
                    status: code::PMIX_SUCCESS,
                    infos,
                },
            ),
            (Some(SampleUse::Answer(to)), Err((status, why))) => {
                self.answer(to, refusal_reply(status, why))
            }
            (Some(SampleUse::Update { requester, update }), Ok(infos)) => {
                let mut update = Event::clone(&update);
                update.infos.extend(infos);
                // The update was checked without its infos, which have grown too large since. No
                // requester waits for an error.
                match events::check(&mut update, &self.settings) {
                    Ok(()) => self.alert(&requester, Arc::new(update)),
                    Err(_) => Vec::new(),
                }
            }
            // Updates are periodic: a failed measurement is skipped.
            (Some(SampleUse::Update { .. }), Err(_)) | (None, _) => Vec::new(),
        };
        actions.extend(self.end_monitors());
        actions
    }

    /// Carries out the monitor actions that are due.
    pub(super) fn tick_monitors(&mut self, now: MonotonicTime) -> Vec<Action> {
        let due = self.monitors.tick(now);
        due.into_iter()
            .flat_map(|due| self.carry_out_due(due))
            .collect()
    }

    fn carry_out_due(&mut self, due: MonitorAction) -> Vec<Action> {
        match due {
            MonitorAction::Alert { requester, alert } => self.alert(&requester, alert),
            MonitorAction::Look(watch) => vec![Action::CheckFile {
                watch,
                look: FileLook::Again,
            }],
            MonitorAction::Measure {
                watch,
                usage,
                requester,
            } => {
                let identity = self.clients.identity(&requester);
                identity
                    .map(|identity| Action::Measure {
                        watch,
                        usage,
                        identity,
                    })
                    .into_iter()
                    .collect()
            }
        }
    }

    /// Raises an alert, which only the user of the requester receives, because only that was
    /// permitted. The host environment receives it too if it registered for the code, so that it
    /// can respond.
    fn alert(&mut self, requester: &Proc, alert: Arc<Event>) -> Vec<Action> {
        let Some(identity) = self.clients.identity(requester) else {
            return Vec::new();
        };
        let is_for_host = alert.range != Range::Rm && self.events.host_names(alert.code);
        let allowance = self.settings.allowance;
        let told = || {
            Action::Upcall(Upcall::Notify {
                event: alert.clone(),
                allowance,
            })
        };
        let mut actions: Vec<Action> = is_for_host.then(told).into_iter().collect();
        actions.extend(self.events.distribute(
            ServerContext::new(&self.clients, &self.settings),
            alert,
            UserScope::User(identity.uid),
            allowance,
        ));
        actions
    }

    /// Lets the cleanup after monitors that have ended follow the next event.
    pub(super) fn follow_ended_monitors(&mut self) {
        let ended = self.end_monitors();
        self.events.add_pending_actions(ended);
    }

    /// Cleans up after monitors that have ended: closes files, answers waiting requesters.
    pub(super) fn end_monitors(&mut self) -> Vec<Action> {
        let ended = self.monitors.take_ended();
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
                    look: FileLook::Close,
                });
            }
            if let Some(to) = waiting {
                actions.extend(self.answer(
                    to,
                    refusal_reply(code::PMIX_ERR_JOB_CANCELED, "the monitor was cancelled"),
                ));
            }
        }
        actions
    }
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
