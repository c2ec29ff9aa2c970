//! One instance of a module: a store of its own, called by one thread at a time.
use crate::bindings::exports::peal::pmix::{
    connection_policy, event_handler::EventHead, event_policy, job_control_policy, log_channel,
};
use crate::bindings::peal::pmix::types::Outcome;
use crate::blueprint::Blueprint;
use crate::call::Failure;
use crate::data::Subject;
use crate::failure::{Phase, explain, no_room};
use crate::host::{Current, Host};
use crate::roles::Exports;
use crate::tally::{Room, Tally};
use crate::text::{MAX_QUOTED, plain};
use crate::warm::Tenancy;
use crate::wish::{WishError, check_wishes, raise_wishes};
use crate::{ChannelCall, EventCall, ModuleRegistration, PolicyCall, Role, Usage};
use peal_model::{ConnectionKind, Info, Matter, Status};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmtime::Store;

/// Why an instance does not start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It will not: its reason, made plain.
    Unwilling(String),
    /// It wishes for what it cannot have.
    Wishes(WishError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Unwilling(reason) => f.write_str(reason),
            Refusal::Wishes(error) => write!(f, "{error}"),
        }
    }
}

/// A guest with its memory. Whoever sees it fail drops it.
pub(crate) struct Instance {
    store: Store<Host>,
    tick: Duration,
    exports: Exports,
    calls: u64,
    /// The fuel that each call is given, where it is counted.
    fuel: Option<u64>,
    /// Whose calls it may have.
    pub(crate) tenancy: Tenancy,
    /// The last to be dropped, when the store has given back what it had.
    _rooms: (Room, Option<Room>),
}

impl Instance {
    /// A fresh instance for these calls; runs the start functions of its core modules.
    pub(crate) fn start(blueprint: &Blueprint, tenancy: &Tenancy) -> Result<Instance, Failure> {
        let Blueprint { engine, limits, services, memory, .. } = blueprint;
        let tenant = services.tenant.as_ref();
        let of_tenant = tenant.map(|tenant| Room::of(&tenant.instances)).transpose().map_err(no_room)?;
        let rooms = (engine.room().map_err(no_room)?, of_tenant);
        let shared = tenant.map(|tenant| Arc::clone(&tenant.memory)).into_iter().chain([Arc::clone(memory)]);
        let tally = Tally::new(limits.memory, shared.collect());
        let (lines, lent, requests) = (Arc::clone(&blueprint.lines), Arc::clone(services), engine.requests());
        let mut store = Store::new(blueprint.runtime.inner(), Host::new(lines, lent, *limits, tally, requests));
        store.limiter(|host| &mut host.tally);
        store.set_hostcall_fuel(limits.copied_per_host_call());
        let tick = engine.tick();
        store.epoch_deadline_callback(move |context| Ok(context.data().meter.on_deadline(tick)));
        let fuel = blueprint.runtime.counts_fuel().then(|| limits.fuel.unwrap_or(u64::MAX));
        let now = Instant::now();
        store.data_mut().meter.begin(now);
        arm(&mut store, now, tick, fuel);
        let exports =
            blueprint.instantiate(&mut store).map_err(|error| failed(&error, Phase::Start, fuel, &mut store))?;
        Ok(Instance { store, tick, exports, calls: 0, fuel, tenancy: tenancy.clone(), _rooms: rooms })
    }

    /// How many calls it has had.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Hands it an event: what it returned, and what it pushed and raised.
    pub(crate) fn handle(&mut self, call: &EventCall) -> Result<(Status, Current, Usage), Failure> {
        let handler = filled(&self.exports.handler, Role::EventHandler)?;
        let head = EventHead {
            registration: call.registration,
            tag: call.tag,
            code: call.event.code.0,
            range: call.event.range.into(),
            infos: count(call.event.infos.len()),
            steps: count(call.steps.len()),
        };
        let subject = Subject::Event(call.clone());
        let (status, current, usage) = self.run(Phase::Call, subject, |store| handler.call_handle(store, head))?;
        Ok((Status(status), current, usage))
    }

    /// Asks it about a request: what it says, and what it pushed and amended.
    pub(crate) fn decide(&mut self, call: &PolicyCall) -> Result<(Outcome, Current, Usage), Failure> {
        let subject = Subject::Policy(call.clone());
        let request = &call.request;
        let (targets, infos, steps) =
            (count(request.targets.len()), count(request.infos.len()), count(call.steps.len()));
        match request.matter {
            Matter::Connection(kind) => {
                let policy = filled(&self.exports.connection_policy, Role::ConnectionPolicy)?;
                let kind = match kind {
                    ConnectionKind::Client => connection_policy::ConnectionKind::Client,
                    ConnectionKind::Tool => connection_policy::ConnectionKind::Tool,
                };
                let head = connection_policy::RequestHead { kind, targets, infos, steps };
                self.run(Phase::Call, subject, |store| policy.call_decide(store, head))
            }
            Matter::Event { code, range } => {
                let policy = filled(&self.exports.event_policy, Role::EventPolicy)?;
                let (code, range) = (code.0, range.into());
                let head = event_policy::RequestHead { code, range, targets, infos, steps };
                self.run(Phase::Call, subject, |store| policy.call_decide(store, head))
            }
            Matter::Registration => {
                let policy = filled(&self.exports.event_policy, Role::EventPolicy)?;
                let codes = request.codes.iter().map(|code| code.0).collect();
                let head = event_policy::RegistrationHead { codes, directives: count(request.directives.len()), steps };
                self.run(Phase::Call, subject, |store| policy.call_decide_registration(store, &head))
            }
            Matter::JobControl => {
                let policy = filled(&self.exports.job_control_policy, Role::JobControlPolicy)?;
                let directives = count(request.directives.len());
                let head = job_control_policy::RequestHead { targets, directives, steps };
                self.run(Phase::Call, subject, |store| policy.call_decide(store, head))
            }
        }
    }

    /// Has it log a request: what it returned, and what it pushed.
    pub(crate) fn log(&mut self, call: &ChannelCall) -> Result<(Status, Current, Usage), Failure> {
        let channel = filled(&self.exports.log_channel, Role::LogChannel)?;
        let head = log_channel::RequestHead {
            channel: call.channel.as_str().to_owned(),
            timestamp: call.request.timestamp.unwrap_or_default(),
            infos: count(call.request.data.len()),
            directives: count(call.request.directives.len()),
            steps: count(call.steps.len()),
        };
        let (status, current, usage) =
            self.run(Phase::Call, Subject::Log(call.clone()), |store| channel.call_log(store, &head))?;
        Ok((Status(status), current, usage))
    }

    /// Hands it its settings, if it wants any: what it wishes to register, or why it will not start.
    pub(crate) fn init(
        &mut self,
        settings: &Arc<Vec<Info>>,
    ) -> Result<Result<Vec<ModuleRegistration>, Refusal>, Failure> {
        let Some(lifecycle) = self.exports.lifecycle.clone() else {
            return Ok(Ok(Vec::new()));
        };
        let (answer, ..) = self.run(Phase::Init, Subject::Settings(Arc::clone(settings)), |store| {
            let config = store.data_mut().lower_settings(settings);
            match lifecycle.call_init(&mut *store, &config)? {
                Ok(wishes) => match check_wishes(&wishes) {
                    Ok(()) => Ok(Ok(raise_wishes(store.data_mut(), wishes)?)),
                    Err(error) => Ok(Err(Refusal::Wishes(error))),
                },
                Err(reason) => Ok(Err(Refusal::Unwilling(plain(&reason, MAX_QUOTED)))),
            }
        })?;
        Ok(answer)
    }

    /// Whether it is to be told that it is no longer needed.
    pub(crate) fn wants_to_stop(&self) -> bool {
        self.calls > 0 && self.exports.lifecycle.is_some()
    }

    /// Tells it that it is no longer needed, if it was ever used and wants to know. How it takes that is nobody's concern
    /// any more.
    pub(crate) fn stop(mut self) {
        if let Some(lifecycle) = self.exports.lifecycle.clone().filter(|_| self.wants_to_stop()) {
            let stopped = self.run(Phase::Stop, Subject::None, |store| lifecycle.call_stop(store));
            let lines = &self.store.data().lines;
            if let Err(failure) = stopped
                && lines.allow()
            {
                let module = &**lines.module();
                tracing::warn!(target: "peal::guest", module, %failure, "a module failed while it was stopped");
            }
        }
    }

    fn run<R>(
        &mut self,
        phase: Phase,
        subject: Subject,
        guest: impl FnOnce(&mut Store<Host>) -> wasmtime::Result<R>,
    ) -> Result<(R, Current, Usage), Failure> {
        self.calls += 1;
        let now = Instant::now();
        self.store.data_mut().begin(now, subject);
        arm(&mut self.store, now, self.tick, self.fuel);
        let answer = guest(&mut self.store);
        let current = self.store.data_mut().end();
        let answer = match answer {
            Ok(answer) => Ok((answer, current, used(&mut self.store, self.fuel))),
            Err(error) => Err(failed(&error, phase, self.fuel, &mut self.store)),
        };
        let Host { services, tally, .. } = self.store.data();
        if let Some(stage) = &services.stage {
            let usage = answer.as_ref().map_or_else(|failure| &failure.usage, |(_, _, usage)| usage);
            stage.used(usage, tally.used());
        }
        answer
    }
}

/// A role that an instance is called in.
fn filled<R: Clone>(role: &Option<R>, what: Role) -> Result<R, Failure> {
    role.clone().ok_or_else(|| Failure::no_role(what))
}

/// Sets the deadline to what is left of the guest's time, and gives it its fuel. The tick that is under way does not count.
fn arm(store: &mut Store<Host>, now: Instant, tick: Duration, fuel: Option<u64>) {
    let ticks = store.data().meter.ticks_left(now, tick);
    store.set_epoch_deadline(ticks.saturating_add(1));
    if let Some(fuel) = fuel {
        // Refused only by an engine that does not count, and this one does.
        let _ = store.set_fuel(fuel);
    }
}

fn used(store: &mut Store<Host>, given: Option<u64>) -> Usage {
    let refused = store.data_mut().tally.take_refused();
    let mut usage = store.data().meter.usage();
    usage.fuel = given.map(|given| given.saturating_sub(store.get_fuel().unwrap_or(given)));
    refused.into_iter().for_each(|refused| usage.hits.insert(refused.limit));
    usage
}

fn failed(error: &wasmtime::Error, phase: Phase, fuel: Option<u64>, store: &mut Store<Host>) -> Failure {
    let refused = store.data_mut().tally.take_refused();
    let mut failure = explain(error, phase, refused, store.data().meter.limits());
    failure.usage = used(store, fuel);
    failure.limit.into_iter().for_each(|limit| failure.usage.hits.insert(limit));
    failure
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
