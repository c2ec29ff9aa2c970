//! Modules: components that were checked, compiled and linked with what they are granted, ready to be called.
use crate::bindings::peal::pmix::{amendment, call, clock, logging, notify, registration, sink, state, types};
use crate::host::{Current, Host};
use crate::instance::{Instance, Refusal};
use crate::lines::Lines;
use crate::roles::{Exports, Indices};
use crate::text::{MAX_QUOTED, plain, row};
use crate::warm::{Closed, Warm};
use crate::{
    Capability, Digest, Engine, EventCall, Failure, FormatError, Grants, HandlerResult, Inspection, Limits,
    ModuleRegistration, Role, Services, WishError, inspect,
};
use peal_model::Info;
use std::fmt;
use std::sync::{Arc, OnceLock};
use thiserror::Error;
use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

/// Why a module does not load.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Its bytes are no component.
    #[error("module {module}: {reason}")]
    Format {
        /// Which module.
        module: String,
        /// What its bytes are instead.
        reason: FormatError,
    },
    /// It fills no role.
    #[error(
        "module {module} fills no role: it exports [{}], none of them an interface such as peal:pmix/event-handler@0.1.0",
        row(exports, MAX_QUOTED)
    )]
    NoRole {
        /// Which module.
        module: String,
        /// What it does export.
        exports: Vec<String>,
    },
    /// It imports a capability that it was not granted.
    #[error("module {module} imports {interface}, which it is not granted (add {:?} to its grants)", interface.name())]
    NotGranted {
        /// Which module.
        module: String,
        /// Which capability.
        interface: Capability,
    },
    /// It imports what this host does not offer.
    #[error("module {module} imports {interface}, which Peal does not offer")]
    UnknownImport {
        /// Which module.
        module: String,
        /// What it imports.
        interface: String,
    },
    /// It is not valid, or its imports or exports are not as the contract has them.
    #[error("module {module} does not fit: {reason}")]
    Unfit {
        /// Which module.
        module: String,
        /// What the engine found.
        reason: String,
    },
    /// No instance of it could be made.
    #[error("module {module} does not start: {failure}")]
    Start {
        /// Which module.
        module: String,
        /// What happened.
        failure: Failure,
    },
}

/// Why a module's `lifecycle.init` did not succeed.
#[derive(Debug, Error)]
pub enum InitError {
    /// It will not start.
    #[error("module {module} will not start: {reason}")]
    Refused {
        /// Which module.
        module: String,
        /// The reason it gives.
        reason: String,
    },
    /// It wishes for registrations that it cannot have.
    #[error("module {module} cannot be registered as it wishes: {reason}")]
    Wishes {
        /// Which module.
        module: String,
        /// What is wrong with them.
        reason: WishError,
    },
    /// It failed.
    #[error("module {module} failed in init: {failure}")]
    Failed {
        /// Which module.
        module: String,
        /// How.
        failure: Failure,
    },
    /// It is running already.
    #[error("module {module} has its settings already; load it anew to give it others")]
    Repeated {
        /// Which module.
        module: String,
    },
}

/// A loaded module. Share it (`Arc`) among the threads that call it; each call has an instance to itself.
///
/// A module with the lifecycle role takes no calls before [`Module::init`] succeeded.
pub struct Module {
    inspection: Inspection,
    blueprint: Blueprint,
    warm: Warm,
    settings: OnceLock<Arc<Vec<Info>>>,
}

/// All that it takes to make an instance.
pub(crate) struct Blueprint {
    pub(crate) engine: Engine,
    pub(crate) lines: Arc<Lines>,
    pub(crate) limits: Limits,
    pub(crate) services: Arc<Services>,
    /// Held so that others who load the same find it compiled.
    _component: Arc<Component>,
    instance: InstancePre<Host>,
    roles: Indices,
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
        limits: Limits,
        services: Services,
    ) -> Result<Module, LoadError> {
        let inspection = inspect(bytes).map_err(|reason| LoadError::Format { module: name.to_owned(), reason })?;
        check(name, &inspection, grants)?;
        let unfit = |error: wasmtime::Error| LoadError::Unfit {
            module: name.to_owned(),
            reason: plain(&format!("{error:#}"), MAX_QUOTED),
        };
        let component = engine.component(inspection.digest, bytes).map_err(unfit)?;
        let instance = link(engine, &inspection, &component).map_err(unfit)?;
        let blueprint =
            Blueprint::new(engine, name, limits, services, (component, instance), &inspection).map_err(unfit)?;
        let first =
            Instance::start(&blueprint).map_err(|failure| LoadError::Start { module: name.to_owned(), failure })?;
        let module = Module { inspection, blueprint, warm: Warm::new(limits.instances), settings: OnceLock::new() };
        module.warm.give(Box::new(first));
        Ok(module)
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

    /// Whether it fills this role.
    pub fn has_role(&self, role: Role) -> bool {
        self.inspection.roles.contains(&role)
    }

    /// Hands it an event and waits for what it does about it. Blocks the thread: run chains on a [`crate::GuestPool`].
    ///
    /// A trap, a time-out and any other excess is a result as well; the instance is then dropped with all it held, and
    /// the next call has another. RFC 0002, "Event handler chaining".
    pub fn handle(&self, call: &EventCall) -> HandlerResult {
        let called = self.call(Role::EventHandler, |instance| instance.handle(call));
        match called {
            Ok((status, Current { infos, notifications, changes, .. })) => {
                HandlerResult { status, infos, notifications, changes, failure: None }
            }
            Err(failure) => {
                self.report(&failure, &format!("event {}", call.event.code));
                HandlerResult::from(failure)
            }
        }
    }

    /// Calls an instance in one of its roles. One that fails is dropped.
    pub(crate) fn call<R>(
        &self,
        role: Role,
        work: impl FnOnce(&mut Instance) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        if !self.has_role(role) {
            return Err(Failure::no_role(role));
        }
        let mut instance = self.ready_instance()?;
        let answer = work(&mut instance)?;
        self.put_back(instance);
        Ok(answer)
    }

    /// Hands a module with the lifecycle role its settings, once: what it wishes to be registered for. Nothing means what
    /// the admin's file says, as it does for modules without that role. Each later instance gets the same settings.
    pub fn init(&self, settings: &[Info]) -> Result<Vec<ModuleRegistration>, InitError> {
        let module = || self.name().to_owned();
        if self.settings.get().is_some() {
            return Err(InitError::Repeated { module: module() });
        }
        let settings = Arc::new(settings.to_vec());
        let failed = |failure: Failure| {
            self.report(&failure, "init");
            InitError::Failed { module: module(), failure }
        };
        let mut instance = self.any_instance().map_err(failed)?;
        let wishes = instance.init(&settings).map_err(failed)?;
        let wishes = wishes.map_err(|refusal| match refusal {
            Refusal::Unwilling(reason) => InitError::Refused { module: module(), reason },
            Refusal::Wishes(reason) => InitError::Wishes { module: module(), reason },
        })?;
        self.settings.set(settings).map_err(|_| InitError::Repeated { module: module() })?;
        self.put_back(instance);
        Ok(wishes)
    }

    /// Starts a fresh instance and drops it, for whoever wants to know what that takes.
    pub fn start(&self) -> Result<(), Failure> {
        Instance::start(&self.blueprint).map(drop)
    }

    /// Takes it out of service: its instances are told so far as they have the lifecycle role, and dropped. Calls that are
    /// running finish; later ones find it unavailable.
    pub fn stop(&self) {
        self.warm.close();
    }

    fn any_instance(&self) -> Result<Box<Instance>, Failure> {
        match self.warm.take() {
            Ok(Some(instance)) => Ok(instance),
            Ok(None) => Instance::start(&self.blueprint).map(Box::new),
            Err(Closed) => Err(Failure::unavailable("it was stopped")),
        }
    }

    /// An instance that knows its settings.
    fn ready_instance(&self) -> Result<Box<Instance>, Failure> {
        if !self.has_role(Role::Lifecycle) {
            return self.any_instance();
        }
        let Some(settings) = self.settings.get() else {
            return Err(Failure::unavailable("its init has not run"));
        };
        let mut instance = self.any_instance()?;
        if instance.calls() == 0 {
            let answer = instance.init(settings)?;
            answer.map_err(|refusal| Failure::unavailable(format!("a further instance will not start: {refusal}")))?;
        }
        Ok(instance)
    }

    fn put_back(&self, instance: Box<Instance>) {
        if instance.calls() < self.blueprint.limits.max_calls { self.warm.give(instance) } else { instance.stop() }
    }

    pub(crate) fn report(&self, failure: &Failure, during: &str) {
        if !self.blueprint.lines.allow() {
            return;
        }
        tracing::warn!(
            target: "peal::guest",
            module = self.name(),
            digest = %self.digest(),
            kind = ?failure.kind,
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
        f.debug_struct("Module").field("name", &self.name()).field("digest", &self.digest()).finish_non_exhaustive()
    }
}

impl Blueprint {
    fn new(
        engine: &Engine,
        name: &str,
        limits: Limits,
        services: Services,
        (component, instance): (Arc<Component>, InstancePre<Host>),
        inspection: &Inspection,
    ) -> wasmtime::Result<Blueprint> {
        Ok(Blueprint {
            engine: engine.clone(),
            lines: Arc::new(Lines::new(Arc::from(name))),
            limits,
            services: Arc::new(services),
            roles: Indices::new(&instance, &inspection.roles)?,
            _component: component,
            instance,
        })
    }

    /// A fresh instance in this store.
    pub(crate) fn instantiate(&self, store: &mut Store<Host>) -> wasmtime::Result<Exports> {
        let instance = self.instance.instantiate(&mut *store)?;
        self.roles.load(store, &instance)
    }
}

/// Whether it does something, and asks for nothing that it may not have.
fn check(name: &str, inspection: &Inspection, grants: &Grants) -> Result<(), LoadError> {
    let module = name.to_owned();
    if let Some(interface) = inspection.unknown_imports.first() {
        return Err(LoadError::UnknownImport { module, interface: interface.clone() });
    }
    if let Some(interface) = inspection.capabilities.iter().copied().find(|wanted| !grants.allows(*wanted)) {
        return Err(LoadError::NotGranted { module, interface });
    }
    if inspection.roles.is_empty() {
        return Err(LoadError::NoRole { module, exports: inspection.other_exports.clone() });
    }
    Ok(())
}

/// Links the call at hand and the capabilities that were asked for and, as was checked, granted.
fn link(engine: &Engine, inspection: &Inspection, component: &Component) -> wasmtime::Result<InstancePre<Host>> {
    type Data = HasSelf<Host>;
    let mut linker = Linker::<Host>::new(engine.inner());
    types::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    call::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    amendment::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    for capability in &inspection.capabilities {
        match capability {
            Capability::Logging => logging::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Clock => clock::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Notify => notify::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Registration => registration::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Sink => sink::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::State => state::add_to_linker::<_, Data>(&mut linker, |host| host)?,
        }
    }
    linker.instantiate_pre(component)
}
