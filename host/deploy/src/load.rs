//! One module: its component compiled, started, and told its settings.
use crate::{
    component::{self, Component, ReadError},
    pools,
};
use peal_config::{ModuleEntry, Problem, Sandbox, SinkName};
use peal_core::owner::Owner;
use peal_model::Nspace;
use peal_sandbox::{
    Capability, Engine, EngineError, Grants, InitError, Limits, LoadError, Module, ModuleRegistration, Role, Services,
    Sink, State,
};
use peal_server::{
    StoredState,
    embedded::{EmbeddedHost, Stream},
};
use peal_store::Store;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use thiserror::Error;

/// A job that a verb brings along, and the components that handle its events.
#[derive(Clone, Debug)]
pub struct Brought {
    /// Its name.
    pub nspace: Nspace,
    /// The components.
    pub handlers: Vec<PathBuf>,
}

/// Why what a job brings is not loaded.
#[derive(Debug, Error)]
enum BroughtError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error("it does not handle events: it exports no peal:pmix/event-handler")]
    NoHandler,
}

/// What modules are loaded with.
pub struct Loader {
    sandbox: Sandbox,
    /// Made for the first module: an engine has a thread of its own, which is for nothing where there is nothing to run.
    engine: Mutex<Option<Engine>>,
    /// Its outputs are what sinks write to.
    host: Arc<EmbeddedHost>,
    /// Where state is kept, if it is.
    store: Option<Arc<Store>>,
}

/// A module of a server, and what its admin says of it.
#[derive(Debug)]
pub struct Member {
    /// Its settings, and where they come from; none for what a job brings.
    pub entry: Option<ModuleEntry>,
    /// Whose it is.
    pub owner: Owner,
    /// It itself.
    pub module: Arc<Module>,
    /// What it wishes to be registered for.
    pub(crate) wishes: Vec<ModuleRegistration>,
}

impl Member {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.module.name()
    }

    /// Whether this is what one would get of that component with these settings.
    pub(crate) fn is_still(&self, entry: &ModuleEntry, component: &Component) -> bool {
        let is_entry = self.entry.as_ref().is_some_and(|own| own.settings == entry.settings);
        is_entry && self.owner == component.owner && self.module.digest() == component.digest
    }
}

impl Loader {
    /// Loads on an engine of these settings. Sinks write to the outputs of this host, state is kept in that store.
    pub fn new(sandbox: Sandbox, host: Arc<EmbeddedHost>, store: Option<Arc<Store>>) -> Loader {
        Loader { sandbox, engine: Mutex::default(), host, store }
    }

    /// Where what outlives the server is kept.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    fn engine(&self) -> Result<Engine, EngineError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match &*engine {
            Some(engine) => engine.clone(),
            None => engine.insert(pools::engine(&self.sandbox)?).clone(),
        })
    }

    /// Loads a module of the configuration. Runs the guest's start and init: not for a thread of the runtime.
    pub(crate) fn configured(&self, entry: &ModuleEntry, component: &Component) -> Result<Member, Problem> {
        let (settings, owner) = (&entry.settings, component.owner.clone());
        let wrong = |key: &'static str| move |error: String| entry.problem(key, error);
        let grants = component::grants(entry);
        let services = Services {
            sinks: self.sinks(&settings.sinks),
            state: self.state(entry, &owner, &grants)?,
            ..Services::default()
        };
        let limits = module_limits(&settings.limits);
        let engine = self.engine().map_err(|error| wrong("module.path")(error.to_string()))?;
        let module = Module::load(&engine, &settings.name, &component.bytes, &grants, limits, services);
        let module = module.map_err(|error| wrong("module.path")(error.to_string()))?;
        let wishes = module.init(&settings.config).map_err(|error| wrong("module.config")(error.to_string()))?;
        Ok(Member { entry: Some(entry.clone()), owner, module: Arc::new(module), wishes })
    }

    /// Loads a module that a job brings: it has the tenant's grants.
    pub(crate) fn brought(&self, path: &Path, job: &Nspace) -> Result<Member, Problem> {
        let load = || -> Result<Member, BroughtError> {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let (bytes, grants) = (component::read(path)?, Grants::tenant());
            let module = Module::load(&self.engine()?, &name, &bytes, &grants, Limits::default(), Services::default())?;
            if !module.has_role(Role::EventHandler) {
                return Err(BroughtError::NoHandler);
            }
            let wishes = module.init(&[])?;
            let owner = Owner::Namespace(job.clone());
            Ok(Member { entry: None, owner, module: Arc::new(module), wishes })
        };
        load().map_err(|error| Problem::of_file(format!("--handler {}: {error}", path.display())))
    }

    /// The sinks that a module may write to, by the names that it knows them by.
    fn sinks(&self, names: &[SinkName]) -> BTreeMap<String, Arc<dyn Sink>> {
        let sink = |name: &SinkName| match name {
            SinkName::Stdout => ("stdout".to_owned(), self.host.sink(Stream::Stdout)),
            SinkName::Stderr => ("stderr".to_owned(), self.host.sink(Stream::Stderr)),
        };
        names.iter().map(sink).collect()
    }

    /// Where a module of the configuration keeps its state, if it may: the same for all versions of one name.
    fn state(&self, entry: &ModuleEntry, owner: &Owner, grants: &Grants) -> Result<Option<Arc<dyn State>>, Problem> {
        if !grants.allows(Capability::State) {
            return Ok(None);
        }
        let missing = || entry.problem("module.grants", "`state` needs a store: set store.path");
        let store = self.store.as_ref().ok_or_else(missing)?;
        let settings = &entry.settings;
        Ok(Some(Arc::new(StoredState::new(store, &settings.name, owner, settings.state_quota))))
    }
}

/// The limits of a module.
pub fn module_limits(limits: &peal_config::Limits) -> Limits {
    Limits {
        memory: limits.memory,
        call_time: limits.call_time,
        host_time: limits.host_time,
        output: limits.output,
        notifications: limits.notifications,
        host_calls: limits.host_calls,
        max_calls: limits.max_calls,
        instances: limits.instances,
    }
}
