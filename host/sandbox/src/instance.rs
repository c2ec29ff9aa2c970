//! One instance of a module: a store of its own, called by one thread at a time.
use crate::bindings::exports::peal::pmix::event_handler::{EventHead, Guest as EventHandler};
use crate::bindings::exports::peal::pmix::lifecycle::{Guest as Lifecycle, Registration};
use crate::call::Failure;
use crate::data::Subject;
use crate::failure::{Phase, explain};
use crate::host::{Current, Host};
use crate::meter::{Meter, Stop};
use crate::module::Blueprint;
use crate::text::plain;
use crate::{EventCall, ModuleRegistration};
use peal_model::{Info, Status};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::Store;

/// The longest reason that a module may give for not starting, in bytes.
const MAX_REASON: usize = 1024;

/// A guest with its memory. Whoever sees it fail drops it.
pub(crate) struct Instance {
    store: Store<Host>,
    tick: Duration,
    handler: Option<EventHandler>,
    lifecycle: Option<Lifecycle>,
    calls: u64,
}

impl Instance {
    /// A fresh instance; runs the start functions of its core modules.
    pub(crate) fn start(blueprint: &Blueprint) -> Result<Instance, Failure> {
        let tick = blueprint.engine.tick();
        let host = Host::new(Arc::clone(&blueprint.name), blueprint.limits, blueprint.engine.requests());
        let mut store = Store::new(blueprint.engine.inner(), host);
        store.limiter(|host| &mut host.tally);
        store.set_hostcall_fuel(blueprint.limits.copied_per_host_call());
        store.epoch_deadline_callback(move |context| Ok(context.data().meter.on_deadline(tick)));
        arm(&mut store, tick);
        let exports = blueprint.instantiate(&mut store).map_err(|error| failed(&error, Phase::Start, &mut store))?;
        Ok(Instance { store, tick, handler: exports.handler, lifecycle: exports.lifecycle, calls: 0 })
    }

    /// How many calls it has had.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Hands it an event: what it returned, and what it pushed and raised.
    pub(crate) fn handle(&mut self, call: &EventCall) -> Result<(Status, Current), Failure> {
        let Some(handler) = self.handler.clone() else {
            return Err(Failure::unavailable("it is no event-handler"));
        };
        let head = EventHead {
            registration: call.registration,
            code: call.event.code.0,
            range: call.event.range.into(),
            infos: count(call.event.infos.len()),
            steps: count(call.steps.len()),
        };
        let subject = Subject::Event(call.clone());
        let (status, current) = self.run(subject, |store| handler.call_handle(store, head))?;
        Ok((Status(status), current))
    }

    /// Hands it its settings, if it wants any: what it wishes to register, or why it will not start.
    pub(crate) fn init(
        &mut self,
        settings: &Arc<Vec<Info>>,
    ) -> Result<Result<Vec<ModuleRegistration>, String>, Failure> {
        let Some(lifecycle) = self.lifecycle.clone() else {
            return Ok(Ok(Vec::new()));
        };
        let (answer, _) = self.run(Subject::Settings(Arc::clone(settings)), |store| {
            let infos = store.data_mut().lower_infos();
            match lifecycle.call_init(&mut *store, &infos)? {
                Ok(wishes) => Ok(Ok(raise_wishes(store.data_mut(), wishes)?)),
                Err(reason) => Ok(Err(plain(&reason, MAX_REASON))),
            }
        })?;
        Ok(answer)
    }

    /// Tells it that it is no longer needed, if it was ever used and wants to know. How it takes that is nobody's concern
    /// any more.
    pub(crate) fn stop(mut self) {
        if let Some(lifecycle) = self.lifecycle.clone().filter(|_| self.calls > 0) {
            let stopped = self.run(Subject::None, |store| lifecycle.call_stop(store));
            if let Err(failure) = stopped {
                let module = &*self.store.data().name;
                tracing::warn!(target: "peal::guest", module, %failure, "a module failed while it was stopped");
            }
        }
    }

    fn run<R>(
        &mut self,
        subject: Subject,
        guest: impl FnOnce(&mut Store<Host>) -> wasmtime::Result<R>,
    ) -> Result<(R, Current), Failure> {
        self.calls += 1;
        self.store.data_mut().begin(subject);
        arm(&mut self.store, self.tick);
        let answer = guest(&mut self.store);
        let current = self.store.data_mut().end();
        match answer {
            Ok(answer) => Ok((answer, current)),
            Err(error) => Err(failed(&error, Phase::Call, &mut self.store)),
        }
    }
}

/// Gives the guest its time anew.
fn arm(store: &mut Store<Host>, tick: Duration) {
    let time = store.data().meter.limits().call_time;
    store.set_epoch_deadline(Meter::ticks(time, tick).saturating_add(1));
}

fn failed(error: &wasmtime::Error, phase: Phase, store: &mut Store<Host>) -> Failure {
    let host = store.data_mut();
    let refused = host.tally.take_refused();
    explain(error, phase, refused, host.meter.limits())
}

fn raise_wishes(host: &mut Host, wishes: Vec<Registration>) -> Result<Vec<ModuleRegistration>, Stop> {
    let raise = |wish: Registration| {
        let codes = wish.codes.into_iter().map(Status).collect();
        Ok(ModuleRegistration { name: wish.name, codes, directives: host.raise().infos(wish.directives)? })
    };
    wishes.into_iter().map(raise).collect()
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
