//! Modules: components that were checked, compiled and linked with what they are granted, ready to be called.
use crate::idle_instances::{IdleInstances, ModuleRetired, Tenancy};
use crate::instance::{CompletedCall, Instance, StartFailure};
use crate::instance_state::CallOutput;
use crate::instance_template::InstanceTemplate;
use crate::quarantine::Quarantine;
use crate::record::{CallEnd, CallRecord};
use crate::{
    CallFailure, CallSubject, Digest, Engine, EventCall, FailureKind, Grants, HandlerResult,
    InitError, Inspection, LimitKind, LoadError, ModuleHealth, ModuleLimits, ModuleRegistration,
    Quarantined, Role, Services, inspect,
};
use peal_model::{Info, Proc};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A loaded module. Share it (`Arc`) among the threads that call it; each call has an instance to itself.
///
/// A module with the lifecycle role takes no calls before [`Module::init`] succeeded.
pub struct Module {
    inspection: Inspection,
    blueprint: InstanceTemplate,
    warm: IdleInstances,
    quarantine: Quarantine,
    settings: OnceLock<Arc<Vec<Info>>>,
}

impl Module {
    /// Checks a component, compiles and links it and makes its first instance. `name` is what an admin calls it, `services`
    /// what stands behind the capabilities that it was granted.
    ///
    /// What it imports is checked before anything is compiled, and nothing that is not granted is ever linked.
    pub fn load(
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        grants: &Grants,
        limits: ModuleLimits,
        services: Services,
    ) -> Result<Module, LoadError> {
        let inspection = inspect(bytes).map_err(|reason| LoadError::Format {
            module: name.to_owned(),
            reason,
        })?;
        Module::load_inspected(engine, name, (bytes, inspection), grants, limits, services)
    }

    /// The same of a component that was inspected already: of a large one that alone takes a while.
    pub fn load_inspected(
        engine: &Engine,
        name: &str,
        (bytes, inspection): (&[u8], Inspection),
        grants: &Grants,
        limits: ModuleLimits,
        services: Services,
    ) -> Result<Module, LoadError> {
        let blueprint =
            InstanceTemplate::new(engine, name, (bytes, &inspection), grants, limits, services)?;
        let first = Instance::start(&blueprint, &Tenancy::Nobody, None).map_err(|failure| {
            LoadError::Start {
                module: name.to_owned(),
                failure,
            }
        })?;
        let warm = IdleInstances::new(limits.instances, limits.isolation);
        warm.give(Box::new(first));
        let (quarantine, settings) = (Quarantine::new(limits), OnceLock::new());
        Ok(Module {
            inspection,
            blueprint,
            warm,
            quarantine,
            settings,
        })
    }

    /// What an admin calls it.
    pub fn name(&self) -> &str {
        self.blueprint.lines.module()
    }

    /// The digest of its bytes.
    pub fn digest(&self) -> Digest {
        self.inspection.digest
    }

    /// What it is made of.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Its limits.
    pub fn limits(&self) -> &ModuleLimits {
        &self.blueprint.limits
    }

    /// Bytes of memory that its instances take now.
    pub fn memory(&self) -> usize {
        self.blueprint.memory.used()
    }

    /// How it does: whether it is quarantined, and how it failed of late.
    pub fn health(&self) -> ModuleHealth {
        self.quarantine.health()
    }

    /// It takes the place of another one of the same component: where that is quarantined, so is this.
    pub fn stay_quarantined(&self, before: &Module) {
        if self.quarantine.take_over(&before.quarantine) {
            self.warm.clear();
        }
    }

    /// Lifts its quarantine and forgets its failures.
    pub fn reset(&self) {
        self.quarantine.reset();
    }

    /// Whether it fills this role.
    pub fn has_role(&self, role: Role) -> bool {
        self.inspection.roles.contains(&role)
    }

    /// Hands it an event and waits for what it does about it. Blocks the thread: run chains on a [`crate::GuestPool`].
    ///
    /// A trap, a time-out and any other excess is a result as well; the instance is then dropped with all it held, and
    /// the next call has another. RFC 0002, "PMIx Event Notification".
    pub fn handle(&self, call: &EventCall) -> HandlerResult {
        let source = call.event.source.as_ref();
        match self.call(Role::EventHandler, source, |instance| instance.handle(call)) {
            Ok(CompletedCall {
                answer: status,
                output,
                usage,
            }) => {
                let CallOutput {
                    infos,
                    notifications,
                    changes,
                    controls,
                    reports,
                    ..
                } = output;
                HandlerResult {
                    status,
                    infos,
                    notifications,
                    changes,
                    controls,
                    reports,
                    failure: None,
                    usage,
                }
            }
            Err(failure) => {
                self.not_called(&failure, || CallSubject::Event(call.clone()));
                self.report(&failure, &format!("event {}", call.event.code));
                HandlerResult::from(failure)
            }
        }
    }

    /// Calls an instance in one of its roles, about something that this proc has caused. One that fails is dropped.
    pub(crate) fn call<R>(
        &self,
        role: Role,
        cause: Option<&Proc>,
        work: impl FnOnce(&mut Instance) -> Result<R, CallFailure>,
    ) -> Result<R, CallFailure> {
        if !self.has_role(role) {
            return Err(CallFailure::no_role(role));
        }
        self.quarantine.check()?;
        let span = tracing::info_span!("call", module = self.name(), role = role.name());
        let _entered = span.enter();
        let tenancy = self.warm.tenancy(cause.map(|proc| &proc.nspace));
        let called = match self.ready_instance(&tenancy) {
            Ok(mut instance) => match work(&mut instance) {
                Ok(answer) => {
                    self.put_back(instance);
                    return Ok(answer);
                }
                failed => failed,
            },
            Err(failure) => Err(failure),
        };
        called.inspect_err(|failure| self.note(failure))
    }

    /// Where there was no instance to be called, that is what is recorded.
    pub(crate) fn not_called(&self, failure: &CallFailure, subject: impl FnOnce() -> CallSubject) {
        let was_called = !matches!(
            failure.kind,
            FailureKind::Unavailable | FailureKind::Quarantined
        );
        let Some(recorder) = self
            .blueprint
            .services
            .recorder
            .as_ref()
            .filter(|_| !was_called)
        else {
            return;
        };
        recorder.record(CallRecord {
            instance: 0,
            number: 0,
            subject: subject(),
            host_calls: Vec::new(),
            refused_growths: Vec::new(),
            end: CallEnd::Failed(failure.clone()),
            usage: failure.usage,
            time: Duration::ZERO,
            memory: 0,
        });
    }

    /// Takes note of a failure, and of what follows from it.
    fn note(&self, failure: &CallFailure) {
        let Some(failures) = self.quarantine.fail(failure) else {
            return;
        };
        let (module, window) = (
            Arc::clone(self.blueprint.lines.module()),
            self.blueprint.limits.failure_window,
        );
        let quarantined = Quarantined {
            module,
            digest: self.digest(),
            failures,
            window,
            last: failure.clone(),
        };
        tracing::error!(target: "peal::guest", module = self.name(), "{quarantined}; `peal module reset` lifts it");
        if let Some(tell) = &self.blueprint.services.on_quarantine {
            tell(&quarantined);
        }
        self.warm.clear();
    }

    /// Hands a module with the lifecycle role its settings, once: what it wishes to be registered for. Nothing means what
    /// the admin's file says, as it does for modules without that role. Each later instance gets the same settings.
    pub fn init(&self, settings: &[Info]) -> Result<Vec<ModuleRegistration>, InitError> {
        let module = || self.name().to_owned();
        if self.settings.get().is_some() {
            return Err(InitError::Repeated { module: module() });
        }
        let settings = Arc::new(settings.to_vec());
        let failed = |failure: CallFailure| {
            self.report(&failure, "init");
            InitError::Failed {
                module: module(),
                failure,
            }
        };
        let mut instance = self.any_instance(&Tenancy::Nobody).map_err(failed)?;
        let wishes = instance.init(&settings).map_err(failed)?;
        let wishes = wishes.map_err(|refusal| match refusal {
            StartFailure::Unwilling(reason) => InitError::Refused {
                module: module(),
                reason,
            },
            StartFailure::Wishes(reason) => InitError::Wishes {
                module: module(),
                reason,
            },
        })?;
        self.settings
            .set(settings)
            .map_err(|_| InitError::Repeated { module: module() })?;
        self.put_back(instance);
        Ok(wishes)
    }

    /// Starts a fresh instance and drops it, for whoever wants to know what that takes.
    pub fn start(&self) -> Result<(), CallFailure> {
        Instance::start(&self.blueprint, &Tenancy::Nobody, None).map(drop)
    }

    /// Takes it out of service: its instances are told so far as they have the lifecycle role, and dropped. Calls that are
    /// running finish; later ones find it unavailable.
    pub fn stop(&self) {
        self.warm.close();
    }

    fn any_instance(&self, tenancy: &Tenancy) -> Result<Box<Instance>, CallFailure> {
        loop {
            if let Some(instance) = self
                .warm
                .take(tenancy)
                .map_err(|ModuleRetired| CallFailure::unavailable("it was stopped"))?
            {
                return Ok(instance);
            }
            match Instance::start(&self.blueprint, tenancy, None) {
                Ok(instance) => return Ok(Box::new(instance)),
                // One that waits for other calls makes room.
                Err(failure)
                    if failure.limit.is_some_and(LimitKind::is_of_instances)
                        && self.warm.evict() => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// An instance that knows its settings.
    fn ready_instance(&self, tenancy: &Tenancy) -> Result<Box<Instance>, CallFailure> {
        let mut instance = self.any_instance(tenancy)?;
        if instance.wants_settings() {
            let Some(settings) = self.settings.get() else {
                self.put_back(instance);
                return Err(CallFailure::unavailable("its init has not run"));
            };
            let answer = instance.init(settings)?;
            answer.map_err(|refusal| {
                CallFailure::unavailable(format!("a further instance will not start: {refusal}"))
            })?;
        }
        Ok(instance)
    }

    fn put_back(&self, instance: Box<Instance>) {
        if instance.calls() < self.blueprint.limits.max_calls {
            self.warm.give(instance)
        } else {
            instance.stop()
        }
    }

    pub(crate) fn report(&self, failure: &CallFailure, during: &str) {
        // That it is quarantined was said when it happened.
        if failure.kind == FailureKind::Quarantined || !self.blueprint.lines.allow() {
            return;
        }
        tracing::warn!(
            target: "peal::guest",
            module = self.name(),
            digest = %self.digest(),
            kind = ?failure.kind,
            limit = failure.limit.map(LimitKind::name),
            backtrace = failure.backtrace.join(" < "),
            "{during}: {}", failure.reason,
        );
    }
}

impl Drop for Module {
    /// Whoever drops it last may be on a thread of a runtime, where no guest may run.
    fn drop(&mut self) {
        self.blueprint.engine.retire(self.warm.leave());
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.name())
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}
