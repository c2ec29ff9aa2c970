//! An instance of a module: a store of its own, called by one thread at a time.
use crate::bindings::exports::peal::pmix::{
    connection_policy, event_handler::EventHead, event_policy, group_policy, job_control_policy,
    log_channel, log_policy, monitor_policy, provision_policy, spawn_policy,
};
use crate::bindings::peal::pmix::types::PolicyOutcome as WitOutcome;
use crate::call::CallFailure;
use crate::call_data::CallSubject;
use crate::failure::{Phase, explain, no_room};
use crate::idle_instances::Tenancy;
use crate::instance_state::{CallOutput, InstanceState};
use crate::instance_template::InstanceTemplate;
use crate::memory_limiter::{InstanceSlot, MemoryLimiter};
use crate::meter::ticks;
use crate::record::{CallEnd, CallRecord, Returned};
use crate::requested_registrations::{
    RegistrationLimitError, check_registrations, lift_registrations,
};
use crate::roles::Exports;
use crate::text::{MAX_QUOTED, plain};
use crate::ticker::Ticker;
use crate::{CallUsage, ChannelCall, EventCall, LimitKind, PolicyCall, Role};
use peal_model::{
    ConnectionKind, GroupOperationKind, Info, ModuleRegistration, PolicyOutcome, PolicySubject,
    Status,
};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use wasmtime::Store;

/// Failure of `lifecycle.init` that is not a failed call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StartFailure {
    /// The module refused; its reason, escaped for a terminal.
    Refused(String),
    /// The module requested registrations that exceed a limit.
    RegistrationLimit(RegistrationLimitError),
}

impl From<&Result<Vec<ModuleRegistration>, StartFailure>> for Returned {
    fn from(answer: &Result<Vec<ModuleRegistration>, StartFailure>) -> Returned {
        Returned::Init(answer.clone().map_err(|refusal| refusal.to_string()))
    }
}

impl From<&WitOutcome> for Returned {
    fn from(outcome: &WitOutcome) -> Returned {
        Returned::Outcome(PolicyOutcome::from(*outcome))
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartFailure::Refused(reason) => f.write_str(reason),
            StartFailure::RegistrationLimit(error) => write!(f, "{error}"),
        }
    }
}

/// Result of a call that returned.
pub(crate) struct CompletedCall<R> {
    /// Returned value.
    pub(crate) answer: R,
    pub(crate) output: CallOutput,
    pub(crate) usage: CallUsage,
}

/// A guest with its memory. After a failed call the caller drops it.
pub(crate) struct Instance {
    store: Store<InstanceState>,
    exports: Exports,
    /// Number of the instance in this process, from 1.
    number: u64,
    calls: u64,
    /// Ticks of each call: those of its time, and the current one.
    ticks: u64,
    /// Fuel of each call.
    fuel_per_call: u64,
    /// Fuel of the next call, if fuel is counted.
    fuel: Option<u64>,
    /// Interrupts calls that take too long.
    ticker: Ticker,
    /// Calls that the instance may receive.
    pub(crate) tenancy: Tenancy,
    /// Slots of the budgets. The last field, so that they are free only after the store is.
    _slots: (Option<InstanceSlot>, Vec<InstanceSlot>),
}

impl Instance {
    /// Starts an instance for a tenancy and runs the start functions of its core modules. In a
    /// replay, host calls are answered from the recorded start.
    pub(crate) fn start(
        blueprint: &InstanceTemplate,
        tenancy: &Tenancy,
        recorded: Option<&CallRecord>,
    ) -> Result<Instance, CallFailure> {
        let InstanceTemplate {
            engine,
            limits,
            services,
            memory,
            ..
        } = blueprint;
        let tenant = services.tenant.as_ref();
        let own = tenant
            .map(|tenant| InstanceSlot::of(&tenant.instances, 1))
            .transpose()
            .map_err(no_room)?;
        // If the start fails, dropping these gives the places back.
        let rooms = (
            own,
            engine
                .take_places(blueprint.places, tenant.is_some())
                .map_err(no_room)?,
        );
        let shared = tenant
            .map(|tenant| Arc::clone(&tenant.memory))
            .into_iter()
            .chain([Arc::clone(memory)]);
        let tally = MemoryLimiter::new(limits.memory_bytes, shared.collect());
        let lines = Arc::clone(&blueprint.trace_limiter);
        let lent = Arc::clone(services);
        let requests = engine.requests();
        let number = engine.number_instance();
        let host = InstanceState::new(
            lines,
            lent,
            *limits,
            tally,
            requests,
            blueprint.recorder(number),
        );
        let mut store = Store::new(blueprint.runtime.inner(), host);
        store.limiter(|host| &mut host.memory_limiter);
        // Bounds what wasmtime copies before the host can charge it.
        store.set_hostcall_fuel(limits.copied_per_host_call());
        let tick = engine.tick();
        store.epoch_deadline_callback(move |mut context| {
            Ok(context.data_mut().meter.on_deadline(tick))
        });
        // Without a limit fuel may still be counted, for the record.
        let fuel_per_call = limits.fuel.unwrap_or(u64::MAX);
        let mut fuel = blueprint.runtime.counts_fuel().then_some(fuel_per_call);
        // The current tick has begun already, so it does not count.
        let ticks = ticks(limits.call_time, tick).saturating_add(1);
        if let Some(recorded) = recorded {
            fuel = fuel.map(|_| fuel_of(recorded, fuel_per_call));
            follow(&mut store, recorded);
        }
        let started = Instant::now();
        store.data_mut().begin(CallSubject::None);
        set_call_limits(&mut store, ticks, fuel);
        let ticker = blueprint.runtime.ticker().clone();
        let running = ticker.begin();
        let exports = match blueprint.instantiate(&mut store) {
            Ok(exports) => Ok((exports, used(&mut store, fuel))),
            Err(error) => Err(failed(&error, Phase::Start, fuel, &mut store)),
        };
        drop(running);
        let (_, output) = store.data_mut().end();
        // A failed start is recorded, too.
        let ended = exports
            .as_ref()
            .map(|(_, usage)| (Returned::Nothing, output, *usage));
        record_call(&mut store, (number, 0), started, CallSubject::None, ended);
        let (exports, _) = exports?;
        Ok(Instance {
            store,
            exports,
            number,
            calls: 0,
            ticks,
            fuel_per_call,
            fuel,
            ticker,
            tenancy: tenancy.clone(),
            _slots: rooms,
        })
    }

    /// Answers the next call from a recorded one.
    pub(crate) fn follow(&mut self, recorded: &CallRecord) {
        self.fuel = self.fuel.map(|_| fuel_of(recorded, self.fuel_per_call));
        follow(&mut self.store, recorded);
    }

    /// Returns the number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Calls the event handler.
    pub(crate) fn handle(&mut self, call: EventCall) -> Result<CompletedCall<Status>, CallFailure> {
        let handler = role_exports(&self.exports.handler, Role::EventHandler)?;
        let head = EventHead {
            registration: call.registration,
            tag: call.tag,
            code: call.event.code.0,
            range: call.event.range.into(),
            infos: count(call.event.infos.len()),
            previous: count(call.steps.len()),
        };
        self.run(Phase::Call, call.into(), |store| {
            handler.call_handle(store, head).map(Status)
        })
    }

    /// Calls the policy of the request's hook.
    pub(crate) fn decide(
        &mut self,
        call: PolicyCall,
    ) -> Result<CompletedCall<WitOutcome>, CallFailure> {
        let request = call.request.clone();
        // Only counts and scalars are passed. The guest reads the rest by host calls.
        let targets = count(request.targets.len());
        let infos = count(request.subject.infos().len());
        let directives = count(request.subject.directives().len());
        let previous = count(call.steps.len());
        let subject = call.into();
        match &request.subject {
            PolicySubject::Connection(connection) => {
                let policy = role_exports(&self.exports.connection_policy, Role::ConnectionPolicy)?;
                let kind = match connection.kind {
                    ConnectionKind::Client => connection_policy::ConnectionKind::Client,
                    ConnectionKind::Tool => connection_policy::ConnectionKind::Tool,
                };
                let head = connection_policy::RequestHead {
                    kind,
                    targets,
                    infos,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, head)
                })
            }
            PolicySubject::Event(event) => {
                let policy = role_exports(&self.exports.event_policy, Role::EventPolicy)?;
                let head = event_policy::RequestHead {
                    code: event.code.0,
                    range: event.range.into(),
                    targets,
                    infos,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, head)
                })
            }
            PolicySubject::Registration(registration) => {
                let policy = role_exports(&self.exports.event_policy, Role::EventPolicy)?;
                let head = event_policy::RegistrationHead {
                    codes: registration.codes.iter().map(|code| code.0).collect(),
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide_registration(store, &head)
                })
            }
            PolicySubject::JobControl(_) => {
                let policy =
                    role_exports(&self.exports.job_control_policy, Role::JobControlPolicy)?;
                let head = job_control_policy::RequestHead {
                    targets,
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, head)
                })
            }
            PolicySubject::Monitor(_) => {
                let policy = role_exports(&self.exports.monitor_policy, Role::MonitorPolicy)?;
                let head = monitor_policy::RequestHead {
                    targets,
                    infos,
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, head)
                })
            }
            PolicySubject::Provision(provision) => {
                let policy = role_exports(&self.exports.provision_policy, Role::ProvisionPolicy)?;
                let head = provision_policy::RequestHead {
                    nodes: provision.nodes.clone(),
                    image: provision.image.clone(),
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, &head)
                })
            }
            PolicySubject::Log(_) => {
                let policy = role_exports(&self.exports.log_policy, Role::LogPolicy)?;
                let head = log_policy::RequestHead {
                    infos,
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, head)
                })
            }
            PolicySubject::Group(group) => {
                let policy = role_exports(&self.exports.group_policy, Role::GroupPolicy)?;
                let kind = match group.kind {
                    GroupOperationKind::Construct => group_policy::GroupOperationKind::Construct,
                    GroupOperationKind::Destruct => group_policy::GroupOperationKind::Destruct,
                    GroupOperationKind::Invite => group_policy::GroupOperationKind::Invite,
                    GroupOperationKind::Join => group_policy::GroupOperationKind::Join,
                };
                let head = group_policy::RequestHead {
                    kind,
                    name: group.name.clone(),
                    targets,
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, &head)
                })
            }
            PolicySubject::Spawn(spawn) => {
                let policy = role_exports(&self.exports.spawn_policy, Role::SpawnPolicy)?;
                let applications = spawn.applications.iter();
                let head = spawn_policy::RequestHead {
                    applications: applications.map(spawn_policy::Application::from).collect(),
                    targets,
                    directives,
                    previous,
                };
                self.run(Phase::Call, subject, |store| {
                    policy.call_decide(store, &head)
                })
            }
        }
    }

    /// Calls the log channel.
    pub(crate) fn log(&mut self, call: ChannelCall) -> Result<CompletedCall<Status>, CallFailure> {
        let channel = role_exports(&self.exports.log_channel, Role::LogChannel)?;
        let head = log_channel::RequestHead {
            channel: call.channel.as_str().to_owned(),
            timestamp: call.request.timestamp.unwrap_or_default(),
            infos: count(call.request.data.len()),
            directives: count(call.request.directives.len()),
            previous: count(call.steps.len()),
        };
        self.run(Phase::Call, call.into(), |store| {
            channel.call_log(store, &head).map(Status)
        })
    }

    /// Calls `lifecycle.init`, if the module exports it. Returns the requested registrations, or
    /// why the module does not start.
    pub(crate) fn init(
        &mut self,
        settings: &Arc<Vec<Info>>,
    ) -> Result<Result<Vec<ModuleRegistration>, StartFailure>, CallFailure> {
        // Cloned, because `run` borrows the whole instance.
        let Some(lifecycle) = self.exports.lifecycle.clone() else {
            return Ok(Ok(Vec::new()));
        };
        let called = self.run(
            Phase::Init,
            CallSubject::Settings(Arc::clone(settings)),
            |store| {
                let config = store.data_mut().lower_settings(settings);
                match lifecycle.call_init(&mut *store, &config)? {
                    // The bounds are checked before the registrations are lifted at the cost of the
                    // call.
                    Ok(registrations) => match check_registrations(&registrations) {
                        Ok(()) => Ok(Ok(lift_registrations(store.data_mut(), registrations)?)),
                        Err(error) => Ok(Err(StartFailure::RegistrationLimit(error))),
                    },
                    Err(reason) => Ok(Err(StartFailure::Refused(plain(&reason, MAX_QUOTED)))),
                }
            },
        )?;
        Ok(called.answer)
    }

    /// Returns true if `lifecycle.init` must be called before any other call.
    pub(crate) fn wants_settings(&self) -> bool {
        self.calls == 0 && self.exports.lifecycle.is_some()
    }

    /// Returns true if `lifecycle.stop` is to be called at the end.
    pub(crate) fn wants_to_stop(&self) -> bool {
        self.calls > 0 && self.exports.lifecycle.is_some()
    }

    /// Calls `lifecycle.stop`, if the module exports it and the instance was used. A failure is
    /// only logged.
    pub(crate) fn stop(mut self) {
        if let Some(lifecycle) = self
            .exports
            .lifecycle
            .clone()
            .filter(|_| self.wants_to_stop())
        {
            let stopped = self.run(Phase::Stop, CallSubject::None, |store| {
                lifecycle.call_stop(store)
            });
            // Failing stops must not flood the trace.
            let lines = &self.store.data().trace_limiter;
            if let Err(failure) = stopped
                && lines.allow()
            {
                let module = &**lines.module();
                tracing::warn!(target: "peal::guest", module, %failure, "module failed in lifecycle.stop");
            }
        }
    }

    fn run<R>(
        &mut self,
        phase: Phase,
        subject: CallSubject,
        guest: impl FnOnce(&mut Store<InstanceState>) -> wasmtime::Result<R>,
    ) -> Result<CompletedCall<R>, CallFailure>
    where
        for<'a> &'a R: Into<Returned>,
    {
        // The start is call 0, so the first call is 1.
        self.calls += 1;
        // The clock is read for a record only.
        let started = self
            .store
            .data()
            .host_call_log
            .is_recorded()
            .then(Instant::now);
        self.store.data_mut().begin(subject);
        set_call_limits(&mut self.store, self.ticks, self.fuel);
        let running = self.ticker.begin();
        let answer = guest(&mut self.store);
        drop(running);
        let (subject, output) = self.store.data_mut().end();
        let answer = match answer {
            Ok(answer) => Ok(CompletedCall {
                answer,
                output,
                usage: used(&mut self.store, self.fuel),
            }),
            Err(error) => Err(failed(&error, phase, self.fuel, &mut self.store)),
        };
        let InstanceState {
            services,
            memory_limiter: tally,
            ..
        } = self.store.data();
        if let Some(stage) = &services.test_hooks {
            let usage = answer
                .as_ref()
                .map_or_else(|failure| &failure.usage, |called| &called.usage);
            stage.used(usage, tally.used());
        }
        // The output is copied for a record only.
        if let Some(started) = started {
            let ended = answer
                .as_ref()
                .map(|called| ((&called.answer).into(), called.output.clone(), called.usage));
            record_call(
                &mut self.store,
                (self.number, self.calls),
                started,
                subject,
                ended,
            );
        }
        answer
    }
}

/// Returns the exports of a role, or the failure of a call in a role that the module does not
/// export.
fn role_exports<R: Clone>(role: &Option<R>, what: Role) -> Result<R, CallFailure> {
    role.clone().ok_or_else(|| CallFailure::no_role(what))
}

/// Sets the time and the fuel of the next call.
fn set_call_limits(store: &mut Store<InstanceState>, ticks: u64, fuel: Option<u64>) {
    store.set_epoch_deadline(ticks);
    if let Some(fuel) = fuel {
        // An error means that the engine does not count fuel, and then `fuel` is `None`.
        let _ = store.set_fuel(fuel);
    }
}

/// Returns the fuel of a replayed call. Where the clock interrupted the recorded call, fuel ends
/// the replayed one.
fn fuel_of(recorded: &CallRecord, per_call: u64) -> u64 {
    match &recorded.end {
        CallEnd::Failed(failure) if failure.limit == Some(LimitKind::CallTime) => {
            recorded.usage.fuel.unwrap_or(per_call)
        }
        _ => per_call,
    }
}

/// Answers the next call from a recorded one, and ends it where the host time of the recorded one
/// was over.
fn follow(store: &mut Store<InstanceState>, recorded: &CallRecord) {
    let host = store.data_mut();
    host.host_call_log.follow(&recorded.host_calls);
    host.memory_limiter.follow(&recorded.refused_growths);
    let is_host_time = matches!(&recorded.end, CallEnd::Failed(failure) if failure.limit == Some(LimitKind::HostCallTime));
    host.meter
        .expect_host_time(is_host_time.then_some(recorded.usage.host_calls));
}

/// Passes the record of a call to the recorder, if there is one.
fn record_call(
    store: &mut Store<InstanceState>,
    (instance, number): (u64, u64),
    started: Instant,
    subject: CallSubject,
    ended: Result<(Returned, CallOutput, CallUsage), &CallFailure>,
) {
    let host = store.data_mut();
    let Some(recorder) = host.recorder.clone() else {
        return;
    };
    let (end, usage) = match ended {
        Ok((answer, output, usage)) => (CallEnd::Returned { answer, output }, usage),
        Err(failure) => (CallEnd::Failed(failure.clone()), failure.usage),
    };
    let host_calls = host.host_call_log.take();
    let refused_growths = host.memory_limiter.take_growths();
    let time = started.elapsed();
    let memory = host.memory_limiter.used() as u64;
    recorder.record(CallRecord {
        instance,
        number,
        subject,
        host_calls,
        refused_growths,
        end,
        usage,
        time,
        memory,
    });
}

fn used(store: &mut Store<InstanceState>, given: Option<u64>) -> CallUsage {
    let refused = store.data_mut().memory_limiter.take_refused();
    let mut usage = store.data().meter.usage();
    usage.fuel = given.map(|given| given.saturating_sub(store.get_fuel().unwrap_or(given)));
    refused
        .into_iter()
        .for_each(|refused| usage.hits.insert(refused.limit));
    usage
}

fn failed(
    error: &wasmtime::Error,
    phase: Phase,
    fuel: Option<u64>,
    store: &mut Store<InstanceState>,
) -> CallFailure {
    let host = store.data_mut();
    let refused = host.memory_limiter.take_refused();
    let exception = std::mem::take(&mut host.exception_report).exception();
    let mut failure = explain(error, phase, refused, exception, host.meter.limits());
    failure.usage = used(store, fuel);
    // The usage was read anew, so the limit of the failure is added again.
    failure
        .limit
        .into_iter()
        .for_each(|limit| failure.usage.hits.insert(limit));
    failure
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
