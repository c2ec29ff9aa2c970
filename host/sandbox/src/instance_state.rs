//! State of an instance's store, and the host side of the imports `call`, `amendment`, `clock`,
//! `notify` and `registration`.
use crate::bindings::peal::pmix::{amendment, call, clock, notify, registration, types};
use crate::call_data::{CallSubject, InfoList, OpaqueTable};
use crate::exception::ExceptionReport;
use crate::host_calls::{HostCallLog, HostCallRequest, RecordedResult};
use crate::lift::Lifter;
use crate::lower::{lower_content, lower_found, lower_identity, lower_proc, lower_steps};
use crate::memory_limiter::MemoryLimiter;
use crate::meter::{CallAbort, CallClock, CallMeter};
use crate::requested_registrations::{check_registrations, lift_registration};
use crate::trace_limiter::TraceLimiter;
use crate::{
    DeferredControl, DeferredLog, LimitKind, ModuleLimits, Notification, Recorder, Services,
    TestHooks,
};
use peal_model::{Amendment, Info, Range, RegistrationChange, Status, UnixGroup, code};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Bound on the registration changes that one call may request.
const MAX_CHANGES: usize = 16;

/// Data of an instance's store.
pub(crate) struct InstanceState {
    pub(crate) trace_limiter: Arc<TraceLimiter>,
    pub(crate) services: Arc<Services>,
    requests: Arc<AtomicU64>,
    pub(crate) memory_limiter: MemoryLimiter,
    pub(crate) meter: CallMeter,
    /// Recorder of this instance's calls, if they are recorded.
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    pub(crate) host_call_log: HostCallLog,
    pub(crate) current: Current,
    /// Exception that the guest described, in case the call fails.
    pub(crate) exception_report: ExceptionReport,
    /// Number of WASI handles that the guest has.
    pub(crate) handles: u32,
    /// Last value of WASI's monotonic clock, which only counts.
    pub(crate) monotonic_time: u64,
}

/// The current call: its subject and its output so far.
#[derive(Default)]
pub(crate) struct Current {
    pub(crate) subject: CallSubject,
    pub(crate) opaques: OpaqueTable,
    now: Option<u64>,
    pub(crate) output: CallOutput,
}

/// Output of a call beside its return value.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallOutput {
    /// Pushed infos.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub infos: Vec<Info>,
    /// Raised events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notifications: Vec<Notification>,
    /// Requested changes of registrations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RegistrationChange>,
    /// Job control requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<DeferredControl>,
    /// Log requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<DeferredLog>,
    /// Amendment of the request that a policy decides about.
    #[serde(skip_serializing_if = "is_unchanged")]
    pub amendment: Amendment,
}

fn is_unchanged(amendment: &Amendment) -> bool {
    *amendment == Amendment::default()
}

impl InstanceState {
    pub(crate) fn new(
        trace_limiter: Arc<TraceLimiter>,
        services: Arc<Services>,
        limits: ModuleLimits,
        memory_limiter: MemoryLimiter,
        requests: Arc<AtomicU64>,
        recorder: Option<Arc<dyn Recorder>>,
    ) -> InstanceState {
        // Tests and replays must not depend on the load of the machine.
        let clock = match &services.test_hooks {
            Some(_) => CallClock::Processor,
            None => CallClock::Wall(Instant::now()),
        };
        let meter = CallMeter::new(limits, clock);
        let current = Current::default();
        let exception_report = ExceptionReport::default();
        let host_call_log = HostCallLog::new(recorder.is_some());
        InstanceState {
            trace_limiter,
            services,
            requests,
            memory_limiter,
            meter,
            recorder,
            host_call_log,
            current,
            exception_report,
            handles: 0,
            monotonic_time: 0,
        }
    }

    /// Begins a call. The previous one must have ended.
    pub(crate) fn begin(&mut self, subject: CallSubject) {
        self.meter.begin();
        // A refusal of the previous call must not become the reason for which this one fails.
        self.memory_limiter.take_refused();
        self.exception_report = ExceptionReport::default();
        self.current.subject = subject;
    }

    /// Ends the call and returns its subject and output. No data of it stay in the state.
    pub(crate) fn end(&mut self) -> (CallSubject, CallOutput) {
        let Current {
            subject,
            opaques,
            now,
            output,
        } = &mut self.current;
        *now = None;
        opaques.clear();
        (std::mem::take(subject), std::mem::take(output))
    }

    /// Runs a host call. The call is counted, and its time is not charged to the guest. The answer
    /// follows from the subject of the call.
    pub(crate) fn host_call<R>(
        &mut self,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&mut InstanceState) -> Result<R, CallAbort>,
    ) -> wasmtime::Result<R> {
        let entered = self.meter.begin_host_call()?;
        self.host_call_log.record_request(request);
        let answer = work(self);
        self.meter.leave(entered);
        Ok(answer?)
    }

    /// Runs a host call that is short and never waits. Its time counts as the guest's, because
    /// reading the clock twice would take longer.
    pub(crate) fn quick_call<R>(
        &mut self,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&mut InstanceState) -> Result<R, CallAbort>,
    ) -> wasmtime::Result<R> {
        self.meter.count()?;
        self.host_call_log.record_request(request);
        Ok(work(self)?)
    }

    /// Runs a host call whose answer comes from outside, at the cost of `output` bytes.
    pub(crate) fn recorded_call<R: RecordedResult>(
        &mut self,
        output: usize,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&mut InstanceState) -> Result<R, CallAbort>,
    ) -> wasmtime::Result<R> {
        let entered = self.meter.begin_host_call()?;
        let answer = self
            .meter
            // The output is charged before the work, so that a call over its limit writes nothing.
            .charge(output)
            .and_then(|()| self.recorded_answer(request, work));
        self.meter.leave(entered);
        Ok(answer?)
    }

    /// Runs `work` and records its answer. In a replay the recorded answer is returned.
    pub(crate) fn recorded_answer<R: RecordedResult>(
        &mut self,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&mut InstanceState) -> Result<R, CallAbort>,
    ) -> Result<R, CallAbort> {
        // `ask` copies the arguments, so it is called only for a recorder.
        if !self.host_call_log.is_recorded() {
            return work(self);
        }
        let request = request();
        let answer = match self.host_call_log.replayed_answer(&request) {
            Some(answer) => answer,
            // In a replay, a host call that the record does not have is answered by stand-ins.
            None => work(self)?,
        };
        self.host_call_log.record_answer(request, &answer);
        Ok(answer)
    }

    /// Returns the number of a new request.
    pub(crate) fn count_request(&self) -> u64 {
        self.requests.fetch_add(1, Ordering::Relaxed)
    }

    /// Lowers the settings for the guest.
    pub(crate) fn lower_settings(&mut self, settings: &[Info]) -> types::FlatInfos {
        lower_content(&mut self.current.opaques, InfoList::Infos, settings)
    }

    /// Returns a lifter for values that the guest pushes.
    pub(crate) fn lifter(&mut self) -> Lifter<'_> {
        Lifter::new(
            &self.current.subject,
            &self.current.opaques,
            &mut self.meter,
        )
    }
}

impl types::Host for InstanceState {}

impl call::Host for InstanceState {
    fn source(&mut self) -> wasmtime::Result<Option<types::Proc>> {
        self.quick_call(
            || HostCallRequest::Source,
            |host| Ok(host.current.subject.source().map(lower_proc)),
        )
    }

    fn credentials(&mut self) -> wasmtime::Result<Option<types::UserIdentity>> {
        self.quick_call(
            || HostCallRequest::Credentials,
            |host| Ok(host.current.subject.identity().map(lower_identity)),
        )
    }

    fn unix_groups(&mut self) -> wasmtime::Result<Vec<types::UnixGroup>> {
        let lower = |group: &UnixGroup| types::UnixGroup {
            gid: group.gid,
            name: group.name.clone(),
        };
        self.host_call(
            || HostCallRequest::Groups,
            |host| Ok(host.current.subject.groups().iter().map(lower).collect()),
        )
    }

    fn server_identity(&mut self) -> wasmtime::Result<Option<types::UserIdentity>> {
        self.quick_call(
            || HostCallRequest::Server,
            |host| Ok(host.current.subject.server().map(lower_identity)),
        )
    }

    fn targets(&mut self) -> wasmtime::Result<Vec<types::Proc>> {
        self.host_call(
            || HostCallRequest::Targets,
            |host| {
                Ok(host
                    .current
                    .subject
                    .targets()
                    .iter()
                    .map(lower_proc)
                    .collect())
            },
        )
    }

    fn target_owners(&mut self) -> wasmtime::Result<Vec<Option<types::UserIdentity>>> {
        self.host_call(
            || HostCallRequest::Owners,
            |host| {
                let targets = host.current.subject.owned_targets().iter();
                Ok(targets
                    .map(|target| target.owner.map(lower_identity))
                    .collect())
            },
        )
    }

    fn peer(&mut self) -> wasmtime::Result<Option<types::PeerInfo>> {
        self.quick_call(
            || HostCallRequest::Connection,
            |host| {
                let peer = host.current.subject.peer();
                Ok(peer.map(|peer| types::PeerInfo {
                    pid: peer.pid,
                    release: peer.release.clone(),
                }))
            },
        )
    }

    fn infos(&mut self) -> wasmtime::Result<types::FlatInfos> {
        self.host_call(
            || HostCallRequest::Infos,
            |host| {
                let Current {
                    subject, opaques, ..
                } = &mut host.current;
                Ok(lower_content(opaques, InfoList::Infos, subject.infos()))
            },
        )
    }

    fn directives(&mut self) -> wasmtime::Result<types::FlatInfos> {
        self.host_call(
            || HostCallRequest::Directives,
            |host| {
                let Current {
                    subject, opaques, ..
                } = &mut host.current;
                Ok(lower_content(
                    opaques,
                    InfoList::Directives,
                    subject.directives(),
                ))
            },
        )
    }

    fn get(&mut self, key: String) -> wasmtime::Result<Option<types::FlatValue>> {
        self.quick_call(
            || HostCallRequest::Get { key: key.clone() },
            |host| {
                let Current {
                    subject, opaques, ..
                } = &mut host.current;
                Ok(subject
                    .find(&key)
                    .map(|(place, value)| lower_found(opaques, value, place)))
            },
        )
    }

    fn previous_results(&mut self) -> wasmtime::Result<types::ChainResults> {
        self.host_call(
            || HostCallRequest::Steps,
            |host| {
                Ok(lower_steps(
                    &mut host.current.opaques,
                    host.current.subject.steps(),
                ))
            },
        )
    }

    fn push(&mut self, info: types::Info, arrays: Vec<types::Array>) -> wasmtime::Result<()> {
        self.quick_call(
            || HostCallRequest::Push,
            |host| {
                let info = host.lifter().single(info, arrays)?;
                host.current.output.infos.push(info);
                Ok(())
            },
        )
    }
}

impl amendment::Host for InstanceState {
    fn amend(&mut self, directives: types::FlatInfos) -> wasmtime::Result<()> {
        self.host_call(
            || HostCallRequest::Amend,
            |host| {
                host.current.output.amendment.infos = Some(host.lifter().content(directives)?);
                Ok(())
            },
        )
    }

    fn narrow_range(&mut self, range: types::Range) -> wasmtime::Result<Result<(), i32>> {
        let range = Range::from(range);
        self.host_call(
            || HostCallRequest::Narrow { range },
            |host| {
                let Some(requested) = host.current.subject.requested_range() else {
                    return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE.0));
                };
                // A policy may only narrow: a wider range would reach procs that the requester did
                // not address.
                if !range.is_within(requested) {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                host.current.output.amendment.range = Some(range);
                Ok(Ok(()))
            },
        )
    }

    fn rewrite_data(&mut self, data: types::FlatInfos) -> wasmtime::Result<Result<(), i32>> {
        self.host_call(
            || HostCallRequest::Rewrite,
            |host| {
                let rewritten = host.lifter().content(data)?;
                if !host.current.subject.is_log_request() {
                    return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE.0));
                }
                host.current.output.amendment.data = Some(rewritten);
                Ok(Ok(()))
            },
        )
    }
}

impl clock::Host for InstanceState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.meter.count()?;
        Ok(self.milliseconds()?)
    }
}

impl notify::Host for InstanceState {
    fn notify(
        &mut self,
        code: i32,
        range: types::Range,
        infos: types::FlatInfos,
    ) -> wasmtime::Result<Result<u64, i32>> {
        let code = Status(code);
        let range = Range::from(range);
        self.host_call(
            || HostCallRequest::Notify { code, range },
            |host| {
                if !matches!(host.current.subject, CallSubject::Event(_)) {
                    return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE.0));
                }
                // Such an event never leaves its process, and a module has none.
                if range == Range::ProcLocal {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                if host.current.output.notifications.len() >= host.meter.limits().raised_events {
                    host.meter.hit(LimitKind::RaisedEvents);
                    return Ok(Err(code::PMIX_ERR_OUT_OF_RESOURCE.0));
                }
                // An event without infos takes memory in the host as well.
                host.meter.charge(size_of::<Notification>())?;
                let infos = host.lifter().content(infos)?;
                let request = host.next_request()?;
                host.current.output.notifications.push(Notification {
                    request,
                    code,
                    range,
                    infos,
                });
                Ok(Ok(request))
            },
        )
    }
}

impl registration::Host for InstanceState {
    fn register(&mut self, registration: types::Registration) -> wasmtime::Result<Result<(), i32>> {
        self.host_call(
            || HostCallRequest::Register,
            |host| {
                if let Err(status) = host.may_change_registrations() {
                    return Ok(Err(status.0));
                }
                // Checked before the registration is lifted at the cost of the call.
                if check_registrations(std::slice::from_ref(&registration)).is_err() {
                    return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
                }
                let registration = lift_registration(host, registration)?;
                host.current
                    .output
                    .changes
                    .push(RegistrationChange::Register(registration));
                Ok(Ok(()))
            },
        )
    }

    fn deregister(&mut self, registration: u64) -> wasmtime::Result<Result<(), i32>> {
        self.host_call(
            || HostCallRequest::Deregister { registration },
            |host| {
                let may = host.may_change_registrations();
                if may.is_ok() {
                    host.current
                        .output
                        .changes
                        .push(RegistrationChange::Deregister(registration));
                }
                Ok(may.map_err(|status| status.0))
            },
        )
    }
}

impl InstanceState {
    /// Returns the time in milliseconds since the epoch. It is the same throughout a call.
    pub(crate) fn milliseconds(&mut self) -> Result<u64, CallAbort> {
        if let Some(now) = self.current.now {
            return Ok(now);
        }
        // Recorded, since a replay must return the same time.
        let now = self.recorded_answer(
            || HostCallRequest::Now,
            |host| {
                Ok(host
                    .services
                    .test_hooks
                    .as_deref()
                    .map_or_else(milliseconds_now, TestHooks::now))
            },
        )?;
        Ok(*self.current.now.insert(now))
    }

    fn may_change_registrations(&self) -> Result<(), Status> {
        match &self.current.subject {
            CallSubject::Event(_) if self.current.output.changes.len() < MAX_CHANGES => Ok(()),
            CallSubject::Event(_) => Err(code::PMIX_ERR_OUT_OF_RESOURCE),
            _ => Err(code::PMIX_ERR_NOT_AVAILABLE),
        }
    }
}

fn milliseconds_now() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
