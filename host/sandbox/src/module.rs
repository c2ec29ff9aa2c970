//! Modules: components that were checked, compiled and linked with their granted capabilities,
//! ready to be called.
use crate::call_data::RoleCall;
use crate::idle_instances::{IdleInstances, ModuleRetired, Tenancy};
use crate::instance::{CompletedCall, Instance, StartFailure};
use crate::instance_state::CallOutput;
use crate::instance_template::InstanceTemplate;
use crate::quarantine::Quarantine;
use crate::record::{CallEnd, CallRecord};
use crate::{
    CallFailure, Digest, Engine, EventCall, FailureKind, Grants, HandlerResult, InitError,
    Inspection, LimitKind, LoadError, ModuleHealth, ModuleLimits, Quarantined, Role, Services,
    inspect,
};
use peal_model::{Info, ModuleRegistration};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A loaded module. Threads share it (`Arc`); each call has an instance to itself.
///
/// A module with the lifecycle role takes no calls before [`Module::init`] succeeded.
pub struct Module {
    inspection: Inspection,
    template: InstanceTemplate,
    idle: IdleInstances,
    quarantine: Quarantine,
    settings: OnceLock<Arc<Vec<Info>>>,
}

impl Module {
    /// Checks and compiles a component, links it and makes its first instance. `name` is the
    /// admin's name for the module, `services` are what its granted capabilities use.
    ///
    /// Imports are checked before compilation, and a capability that is not granted is never
    /// linked.
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

    /// Loads a component that was inspected before, as [`Module::load`] does. Inspecting a large
    /// one takes a while.
    pub fn load_inspected(
        engine: &Engine,
        name: &str,
        (bytes, inspection): (&[u8], Inspection),
        grants: &Grants,
        limits: ModuleLimits,
        services: Services,
    ) -> Result<Module, LoadError> {
        let blueprint =
            InstanceTemplate::new(engine, name, (bytes, &inspection), grants, limits, services)
                .map_err(|error| error.explained(&inspection))?;
        // A component whose start fails is refused when it is loaded, not at its first call.
        let first = Instance::start(&blueprint, &Tenancy::Unused, None).map_err(|failure| {
            LoadError::Start {
                module: name.to_owned(),
                failure,
            }
            .explained(&inspection)
        })?;
        let warm = IdleInstances::new(limits.idle_instances, limits.isolation);
        warm.put(Box::new(first));
        let quarantine = Quarantine::new(limits);
        let settings = OnceLock::new();
        Ok(Module {
            inspection,
            template: blueprint,
            idle: warm,
            quarantine,
            settings,
        })
    }

    /// Returns the admin's name of the module.
    pub fn name(&self) -> &str {
        self.template.trace_limiter.module()
    }

    /// Returns the digest of the component.
    pub fn digest(&self) -> Digest {
        self.inspection.digest
    }

    /// Returns the inspection of the component.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Returns the limits.
    pub fn limits(&self) -> &ModuleLimits {
        &self.template.limits
    }

    /// Returns the bytes of memory that the instances take now.
    pub fn memory(&self) -> usize {
        self.template.memory.used()
    }

    /// Returns whether the module is quarantined, and its recent failures.
    pub fn health(&self) -> ModuleHealth {
        self.quarantine.health()
    }

    /// Takes over the quarantine of the module that this one replaces, which has the same
    /// component.
    pub fn stay_quarantined(&self, before: &ModuleHealth) {
        // A quarantined module is not called, and its idle instances would take memory of shared
        // budgets.
        if self.quarantine.take_over(before) {
            self.idle.clear();
        }
    }

    /// Lifts the quarantine and forgets the failures.
    pub fn reset(&self) {
        self.quarantine.reset();
    }

    /// Returns true if the module has a role.
    pub fn has_role(&self, role: Role) -> bool {
        self.inspection.roles.contains(&role)
    }

    /// Calls the event handler and waits for its result. Blocks the thread: run chains on a
    /// [`crate::GuestPool`].
    ///
    /// A trap, a time-out or any other excess is a result as well. The instance is then dropped
    /// with all its data, and the next call has another. RFC 0002, "PMIx Event Notification".
    pub fn handle(&self, call: EventCall) -> HandlerResult {
        let code = call.event.code;
        match self.call(Role::EventHandler, call, Instance::handle) {
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
                self.report(&failure, &format!("event {code}"));
                HandlerResult::from(failure)
            }
        }
    }

    /// Calls an instance in a role. An instance that fails is dropped.
    pub(crate) fn call<C: RoleCall, R>(
        &self,
        role: Role,
        call: C,
        work: impl FnOnce(&mut Instance, C) -> Result<R, CallFailure>,
    ) -> Result<R, CallFailure> {
        // Neither is a failure of the module, so it is not counted.
        let may_be_called = if self.has_role(role) {
            self.quarantine.check()
        } else {
            Err(CallFailure::no_role(role))
        };
        if let Err(failure) = may_be_called {
            self.record_not_called(&failure, call);
            return Err(failure);
        }
        // Lines of the trace within the call name the module and the role.
        let span = tracing::info_span!("call", module = self.name(), role = role.name());
        let _entered = span.enter();
        let tenancy = self.idle.tenancy(call.source().map(|proc| &proc.nspace));
        let called = match self.ready_instance(&tenancy) {
            // The instance records the call, also if it fails.
            Ok(mut instance) => match work(&mut instance, call) {
                Ok(answer) => {
                    self.put_back(instance);
                    return Ok(answer);
                }
                failed => failed,
            },
            Err(failure) => {
                self.record_not_called(&failure, call);
                Err(failure)
            }
        };
        called.inspect_err(|failure| self.count_failure(failure))
    }

    /// Records a call that was not made because there was no instance.
    pub(crate) fn record_not_called(&self, failure: &CallFailure, call: impl RoleCall) {
        // An instance that failed to start has recorded that.
        let is_recorded = !matches!(
            failure.kind,
            FailureKind::Unavailable | FailureKind::Quarantined
        );
        let Some(recorder) = self
            .template
            .services
            .recorder
            .as_ref()
            .filter(|_| !is_recorded)
        else {
            return;
        };
        recorder.record(CallRecord {
            instance: 0,
            number: 0,
            subject: call.into(),
            host_calls: Vec::new(),
            refused_growths: Vec::new(),
            end: CallEnd::Failed(failure.clone()),
            usage: failure.usage,
            time: Duration::ZERO,
            memory: 0,
        });
    }

    /// Counts a failure and quarantines the module if it is one too many.
    fn count_failure(&self, failure: &CallFailure) {
        let Some(failures) = self.quarantine.fail(failure) else {
            return;
        };
        let module = Arc::clone(self.template.trace_limiter.module());
        let window = self.template.limits.failure_window;
        let quarantined = Quarantined {
            module,
            digest: self.digest(),
            failures,
            window,
            last: failure.clone(),
        };
        tracing::error!(
            target: "peal::guest",
            module = self.name(),
            failures,
            window = ?window,
            last = %quarantined.last,
            "module quarantined, peal module reset lifts it"
        );
        if let Some(report) = &self.template.services.on_quarantine {
            report(&quarantined);
        }
        // A quarantined module is not called, and its idle instances would take memory of shared
        // budgets.
        self.idle.clear();
    }

    /// Passes the settings to a module with the lifecycle role, once. Returns the registrations
    /// that it requests; an empty list means those of the admin's file, as for modules without that
    /// role. Each later instance gets the same settings.
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
        let mut instance = self.any_instance(&Tenancy::Unused).map_err(failed)?;
        let registrations = instance.init(&settings).map_err(failed)?;
        let registrations = registrations.map_err(|refusal| match refusal {
            StartFailure::Refused(reason) => InitError::Refused {
                module: module(),
                reason,
            },
            StartFailure::RegistrationLimit(reason) => InitError::RegistrationLimit {
                module: module(),
                reason,
            },
        })?;
        self.settings
            // Two threads may have passed the check above; the second one fails here.
            .set(settings)
            .map_err(|_| InitError::Repeated { module: module() })?;
        self.put_back(instance);
        Ok(registrations)
    }

    /// Starts an instance and drops it. Measurements use it.
    pub fn start(&self) -> Result<(), CallFailure> {
        Instance::start(&self.template, &Tenancy::Unused, None).map(drop)
    }

    /// Stops the module: `lifecycle.stop` of its instances is called, if it is exported, and they
    /// are dropped. Running calls finish; later ones fail as unavailable.
    pub fn stop(&self) {
        self.idle.close();
    }

    fn any_instance(&self, tenancy: &Tenancy) -> Result<Box<Instance>, CallFailure> {
        loop {
            if let Some(instance) = self
                .idle
                .take(tenancy)
                .map_err(|ModuleRetired| CallFailure::unavailable("module was stopped"))?
            {
                return Ok(instance);
            }
            match Instance::start(&self.template, tenancy, None) {
                Ok(instance) => return Ok(Box::new(instance)),
                // Stop an idle instance of another tenancy and try again.
                Err(failure)
                    if failure.limit.is_some_and(LimitKind::is_of_instances)
                        && self.idle.evict() => {}
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Returns an instance whose `lifecycle.init` has run.
    fn ready_instance(&self, tenancy: &Tenancy) -> Result<Box<Instance>, CallFailure> {
        let mut instance = self.any_instance(tenancy)?;
        // A fresh instance gets the settings before its first call.
        if instance.wants_settings() {
            let Some(settings) = self.settings.get() else {
                // The instance is not at fault, so it is kept.
                self.put_back(instance);
                return Err(CallFailure::unavailable(
                    "lifecycle.init of the module has not run",
                ));
            };
            let answer = instance.init(settings)?;
            answer.map_err(|refusal| {
                CallFailure::unavailable(format!("new instance does not start: {refusal}"))
            })?;
        }
        Ok(instance)
    }

    fn put_back(&self, instance: Box<Instance>) {
        // A replay begins with the first call of an instance, so no instance may live for ever.
        if instance.calls() < self.template.limits.calls_per_instance {
            self.idle.put(instance)
        } else {
            instance.stop()
        }
    }

    pub(crate) fn report(&self, failure: &CallFailure, during: &str) {
        // The quarantine was logged when it began.
        if failure.kind == FailureKind::Quarantined || !self.template.trace_limiter.allow() {
            return;
        }
        tracing::warn!(
            target: "peal::guest",
            module = self.name(),
            digest = %self.digest(),
            kind = ?failure.kind,
            limit = failure.limit.map(LimitKind::name),
            backtrace = failure.backtrace.join(" < "),
            during,
            reason = %failure.reason,
            "module call failed"
        );
    }
}

impl Drop for Module {
    /// Stops the idle instances on another thread: the last owner may be on a thread of the
    /// runtime, where no guest may run.
    fn drop(&mut self) {
        self.template.engine.retire(self.idle.take_all());
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
