//! Monitoring: procs that want to be watched, and what is told when they show no sign of life.
use super::{Action, ConnectionState, FileLook, PeerId, RequestId, ServerState, Upcall, reply};
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

/// Who monitors (`PMIX_SERVER_ENABLE_MONITORING`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Monitoring {
    /// The host environment where it offers that, else the server. Whoever knows the host environment decides which.
    #[default]
    Deferred,
    /// The server itself.
    Server,
    /// The host environment, which is asked for everything.
    Host,
}

/// What is seen of a file, or why nothing is, with the status that says so.
pub type FileSeen = Result<FileStat, (Status, String)>;

/// What is used, or why nothing can be told, with the status that says so.
pub type UsageFound = Result<Vec<Info>, (Status, String)>;

impl ServerState {
    /// Somebody wants to be watched, or to know what is used, and may. Timers begin with the next [`ServerState::tick`], which is due
    /// at once.
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
        let Some(peer) = self
            .peers
            .get(&to.peer)
            .filter(|peer| peer.standing == ConnectionState::Active)
        else {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        };
        let identity = peer.identity;
        let ranks = |nspace: &Nspace| {
            self.jobs
                .get(nspace)
                .map(|job| job.procs.keys().copied().collect())
        };
        let own = || {
            let jobs = self
                .jobs
                .values()
                .map(|job| &job.spec)
                .filter(|spec| spec.identity.uid == identity.uid);
            jobs.map(|spec| spec.nspace.clone()).collect()
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
            // Libraries send another message; whoever does not means the same, and the next tick gives it its time.
            Monitor::Beat => self.monitors.beat_soon(source),
            Monitor::Cancel(which) => {
                self.monitors.cancel(source, &which)?;
                let mut actions = self.watches_ended();
                actions.push(reply(to, code::PMIX_SUCCESS));
                return Ok(actions);
            }
            Monitor::Watch(mut watch) => {
                let event = Arc::make_mut(&mut watch.alert);
                self.check(event).map_err(wrong)?;
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
                self.check(Arc::make_mut(&mut sampling.update))
                    .map_err(wrong)?;
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

    /// A client showed at a time that it lives. That may be told late, but before a [`ServerState::tick`] that looks at its proc's
    /// heartbeats ([`ServerState::beats_due`]), and at once if that counts as silent ([`ServerState::is_silent`]).
    pub fn beat(&mut self, peer: PeerId, at: MonotonicTime) {
        if let Some(peer) = self
            .peers
            .get(&peer)
            .filter(|peer| peer.standing == ConnectionState::Active)
        {
            self.monitors.beat(&peer.proc, at);
        }
    }

    /// Whose heartbeats [`ServerState::tick`] looks at if this is the time; some perhaps twice.
    pub fn beats_due(&self, now: MonotonicTime) -> impl Iterator<Item = &Proc> {
        self.monitors.beats_due(now)
    }

    /// Whether somebody was told that a proc is silent, and it has not shown since that it lives.
    pub fn is_silent(&self, proc: &Proc) -> bool {
        self.monitors.is_silent(proc)
    }

    /// A file was opened to be looked at ([`FileLook::Open`]), or could not be: the requester is told.
    pub fn file_opened(&mut self, watch: MonitorId, seen: FileSeen) -> Vec<Action> {
        let (seen, refused) = match seen {
            Ok(seen) => (Some(seen), None),
            Err(why) => (None, Some(why)),
        };
        let Some(to) = self.monitors.opened(watch, seen) else {
            // Whoever wanted it has left.
            return vec![Action::CheckFile {
                watch,
                look: FileLook::Close,
            }];
        };
        let mut actions = match refused {
            None => self.answer(to, Reply::Status(code::PMIX_SUCCESS)),
            Some((status, why)) => self.answer(to, told(status, why)),
        };
        actions.extend(self.watches_ended());
        actions
    }

    /// A file was looked at ([`FileLook::Again`]); nothing, if nothing can be seen of it any more.
    pub fn file_looked_at(&mut self, watch: MonitorId, seen: Option<FileStat>) -> Vec<Action> {
        let alert = self.monitors.looked(watch, seen);
        alert
            .map(|(requester, alert)| self.alert(&requester, alert))
            .unwrap_or_default()
    }

    /// What is used was looked up ([`Action::Measure`]): the requester is told.
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
            (Some(SampleUse::Answer(to)), Err((status, why))) => self.answer(to, told(status, why)),
            (Some(SampleUse::Update { requester, update }), Ok(infos)) => {
                let mut update = Event::clone(&update);
                update.infos.extend(infos);
                // What is too large to be raised was so small the first time that nobody could know.
                match self.check(&mut update) {
                    Ok(()) => self.alert(&requester, Arc::new(update)),
                    Err(_) => Vec::new(),
                }
            }
            // That nothing can be told for now, is told by nothing being told.
            (Some(SampleUse::Update { .. }), Err(_)) | (None, _) => Vec::new(),
        };
        actions.extend(self.watches_ended());
        actions
    }

    /// What the time brings.
    pub(super) fn watch_over(&mut self, now: MonotonicTime) -> Vec<Action> {
        let due = self.monitors.tick(now);
        due.into_iter().flat_map(|due| self.is_due(due)).collect()
    }

    fn is_due(&mut self, due: MonitorAction) -> Vec<Action> {
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
                let identity = self.identity(&requester);
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

    /// An event of the server's, for nobody but the user of whoever asked for it: nothing more was granted. The host environment
    /// hears it if it registered for its code, so that it can respond to it.
    fn alert(&mut self, requester: &Proc, alert: Arc<Event>) -> Vec<Action> {
        let Some(identity) = self.identity(requester) else {
            return Vec::new();
        };
        let is_for_host = alert.range != Range::Rm && self.host.names_code(alert.code);
        let allowance = self.settings.allowance;
        let told = || {
            Action::Upcall(Upcall::Notify {
                event: alert.clone(),
                allowance,
            })
        };
        let mut actions: Vec<Action> = is_for_host.then(told).into_iter().collect();
        actions.extend(self.distribute(alert, UserScope::User(identity.uid), allowance));
        actions
    }

    /// What follows where watches have ended: files are closed, and nobody waits any more.
    pub(super) fn watches_ended(&mut self) -> Vec<Action> {
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
                actions
                    .extend(self.answer(to, told(code::PMIX_ERR_JOB_CANCELED, "it was cancelled")));
            }
        }
        actions
    }
}

/// What is wrong with an event that cannot be raised.
fn wrong(status: Status) -> MonitorError {
    if status == code::PMIX_ERR_OUT_OF_RESOURCE {
        MonitorError::TooLarge
    } else {
        MonitorError::BadRange
    }
}

fn told(status: Status, why: impl std::fmt::Display) -> Reply {
    Reply::Infos {
        status,
        infos: vec![policy::reason(why)],
    }
}

fn refusal(to: RequestId, status: Status, why: &MonitorError) -> Action {
    Action::Reply {
        to,
        reply: told(status, why),
    }
}
