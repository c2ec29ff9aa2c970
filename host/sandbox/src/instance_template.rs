//! Template of a module's instances: a component that was checked, compiled and linked with its
//! granted capabilities.
use crate::bindings::peal::pmix::{
    amendment, call, clock, exception, files, job_control, log_request, logging, notify, random,
    registration, resource_usage, sink, state, types,
};
use crate::engine::{self, Runtime};
use crate::instance_state::InstanceState;
use crate::memory_limiter::Budget;
use crate::roles::{Exports, Indices};
use crate::text::{MAX_QUOTED, plain};
use crate::trace_limiter::TraceLimiter;
use crate::wasi;
use crate::{
    Capability, Engine, Grants, Inspection, LimitKind, LoadError, ModuleLimits, Recorder, Role,
    Services,
};
use std::{collections::BTreeSet, sync::Arc};
use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

/// Template of a module's instances: a component that was checked, compiled and linked with its
/// granted capabilities.
pub(crate) struct InstanceTemplate {
    pub(crate) engine: Engine,
    pub(crate) runtime: Runtime,
    pub(crate) trace_limiter: Arc<TraceLimiter>,
    pub(crate) limits: ModuleLimits,
    pub(crate) services: Arc<Services>,
    /// Memory of all instances together.
    pub(crate) memory: Arc<Budget>,
    /// Places of the engine that an instance takes.
    pub(crate) places: usize,
    /// Held so that the runtime finds the component compiled when it is loaded again.
    _component: Arc<Component>,
    /// Instances whose calls are recorded, if there is a recorder.
    recording: RecordingScope,
    instance: InstancePre<InstanceState>,
    roles: Indices,
}

#[derive(Clone, Copy)]
/// Choice of the instances whose calls are recorded.
enum RecordingScope {
    All,
    Sampled,
}

impl RecordingScope {
    /// Returns the choice for a set of roles. Only calls of event handlers may be left out:
    /// outcomes of policies have consequences, and the output of channels is read.
    fn of(roles: &BTreeSet<Role>) -> RecordingScope {
        let only_handles = roles
            .iter()
            .all(|role| matches!(role, Role::EventHandler | Role::Lifecycle));
        if only_handles {
            RecordingScope::Sampled
        } else {
            RecordingScope::All
        }
    }
}

impl InstanceTemplate {
    /// Checks and compiles a component and links it with its granted capabilities.
    pub(crate) fn new(
        engine: &Engine,
        name: &str,
        (bytes, inspection): (&[u8], &Inspection),
        grants: &Grants,
        limits: ModuleLimits,
        services: Services,
    ) -> Result<InstanceTemplate, LoadError> {
        // Before the compilation: nothing that is refused reaches the compiler.
        check(name, inspection, grants)?;
        let module = || name.to_owned();
        let unfit = |error: wasmtime::Error| LoadError::Unfit {
            module: module(),
            // The error may quote text of the component.
            reason: plain(&format!("{error:#}"), MAX_QUOTED),
        };
        let runtime = engine
            .runtime(&limits)
            .map_err(|reason| LoadError::Engine {
                module: module(),
                reason,
            })?;
        let component = runtime.component(inspection.digest, bytes).map_err(unfit)?;
        let instance = link(&runtime, inspection, &component, grants).map_err(unfit)?;
        Ok(InstanceTemplate {
            engine: engine.clone(),
            runtime,
            trace_limiter: Arc::new(TraceLimiter::new(
                Arc::from(name),
                limits.log_lines_per_second,
            )),
            limits,
            services: Arc::new(services),
            // All instances of the module share this limit.
            memory: Arc::new(Budget::new(
                LimitKind::TotalMemory,
                limits.total_memory_bytes,
            )),
            roles: Indices::new(&instance, &inspection.roles).map_err(unfit)?,
            places: engine::places(&component, inspection),
            _component: component,
            recording: RecordingScope::of(&inspection.roles),
            instance,
        })
    }

    /// Returns the recorder of the instance with this number, if it is recorded.
    pub(crate) fn recorder(&self, instance: u64) -> Option<Arc<dyn Recorder>> {
        let recorder = self.services.recorder.as_ref()?;
        let is_wanted = match self.recording {
            RecordingScope::All => true,
            RecordingScope::Sampled => recorder.samples(instance),
        };
        is_wanted.then(|| recorder.clone())
    }

    /// Creates an instance in a store.
    pub(crate) fn instantiate(
        &self,
        store: &mut Store<InstanceState>,
    ) -> wasmtime::Result<Exports> {
        let instance = self.instance.instantiate(&mut *store)?;
        self.roles.load(store, &instance)
    }
}

/// Checks that a component exports a role and imports nothing that is not granted.
fn check(name: &str, inspection: &Inspection, grants: &Grants) -> Result<(), LoadError> {
    let module = name.to_owned();
    // First, because this explains the errors that follow from it.
    if let Some(mismatch) = inspection.contract_mismatch() {
        return Err(LoadError::Contract { module, mismatch });
    }
    if let Some(interface) = inspection.unknown_imports.first() {
        return Err(LoadError::UnknownImport {
            module,
            interface: interface.clone(),
        });
    }
    if let Some(interface) = inspection
        .capabilities
        .iter()
        .copied()
        .find(|wanted| !grants.allows(*wanted))
    {
        return Err(LoadError::NotGranted { module, interface });
    }
    if inspection.roles.is_empty() {
        return Err(LoadError::NoRole {
            module,
            exports: inspection.other_exports.clone(),
        });
    }
    Ok(())
}

/// Links the interfaces that every module has, and the imported capabilities. They were checked
/// against the grants.
fn link(
    runtime: &Runtime,
    inspection: &Inspection,
    component: &Component,
    grants: &Grants,
) -> wasmtime::Result<InstancePre<InstanceState>> {
    type Data = HasSelf<InstanceState>;
    let mut linker = Linker::<InstanceState>::new(runtime.inner());
    types::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    call::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    amendment::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    exception::add_to_linker::<_, Data>(&mut linker, |host| host)?;
    for capability in &inspection.capabilities {
        match capability {
            Capability::Logging => logging::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Clock => clock::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Notify => notify::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Registration => {
                registration::add_to_linker::<_, Data>(&mut linker, |host| host)?
            }
            Capability::Sink => sink::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::State => state::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Random => random::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Files => files::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Control => job_control::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Report => log_request::add_to_linker::<_, Data>(&mut linker, |host| host)?,
            Capability::Usage => {
                resource_usage::add_to_linker::<_, Data>(&mut linker, |host| host)?
            }
            Capability::Wasi => wasi::link(&mut linker, runtime.inner(), component, grants)?,
        }
    }
    linker.instantiate_pre(component)
}
