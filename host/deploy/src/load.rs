//! One module: its component compiled, started, and told its settings.
use crate::{
    component::{self, Component, ReadError},
    limits::{self, Tenants},
    news::{self, News},
    pools,
};
use peal_config::{Config, ModuleEntry, Problem, SinkName};
use peal_core::owner::Owner;
use peal_model::Nspace;
use peal_sandbox::{
    Capability, Engine, EngineError, Grants, InitError, LoadError, Module, ModuleRegistration, OnQuarantine, Role,
    Services, Sink, State,
};
use peal_server::{
    Metrics, ServerHandle, StoredState,
    embedded::{EmbeddedHost, Stream},
};
use peal_store::Store;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
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
    config: Config,
    /// What the owners of modules have together.
    tenants: Tenants,
    /// Made for the first module: an engine has a thread of its own, which is for nothing where there is nothing to run.
    engine: Mutex<Option<Engine>>,
    /// Its outputs are what sinks write to.
    host: Arc<EmbeddedHost>,
    /// Where state is kept, if it is.
    store: Option<Arc<Store>>,
    /// Whom events tell, once it runs.
    server: Arc<OnceLock<Audience>>,
}

/// Who is told of what becomes of modules.
pub(crate) struct Audience {
    pub(crate) handle: ServerHandle,
    pub(crate) metrics: Arc<Metrics>,
}

/// A module of a server, and what its admin says of it.
#[derive(Debug)]
pub struct Member {
    /// Its settings, and where they come from; none for what a job brings.
    pub entry: Option<ModuleEntry>,
    /// What administrators call it.
    pub(crate) title: String,
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
    pub(crate) fn is_still(&self, entry: &ModuleEntry, component: &Component, owner: &Owner) -> bool {
        let is_entry = self.entry.as_ref().is_some_and(|own| own.settings == entry.settings);
        is_entry && self.owner == *owner && self.module.digest() == component.inspection.digest
    }
}

impl Loader {
    /// Loads as these settings want it. Sinks write to the outputs of this host, state is kept in that store.
    pub fn new(config: Config, host: Arc<EmbeddedHost>, store: Option<Arc<Store>>) -> Loader {
        let tenants = Tenants::new(&config);
        Loader { config, tenants, engine: Mutex::default(), host, store, server: Arc::default() }
    }

    /// The settings that it loads by.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Where what outlives the server is kept.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// From now on that server is told of quarantines.
    pub(crate) fn tell(&self, server: Audience) {
        // There is one, and it is said once.
        let _ = self.server.set(server);
    }

    /// What a module does that is quarantined.
    fn alarm(&self) -> OnQuarantine {
        let server = self.server.clone();
        Arc::new(move |quarantined| {
            if let Some(Audience { handle, metrics }) = server.get() {
                metrics.counters().modules_quarantined.count();
                handle.notify(news::event(&News::Quarantined(quarantined)));
            }
        })
    }

    fn engine(&self) -> Result<Engine, EngineError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match &*engine {
            Some(engine) => engine.clone(),
            None => engine.insert(pools::engine(&self.config.sandbox)?).clone(),
        })
    }

    /// Loads a module of the configuration. Runs the guest's start and init: not for a thread of the runtime.
    pub(crate) fn configured(
        &self,
        entry: &ModuleEntry,
        component: &Component,
        owner: Owner,
    ) -> Result<Member, Problem> {
        let settings = &entry.settings;
        let wrong = |key: &'static str| move |error: String| entry.problem(key, error);
        let grants = component::grants(entry);
        let services = Services {
            sinks: self.sinks(&settings.sinks),
            state: self.state(entry, component, &owner, &grants)?,
            files: limits::files(entry, settings.mode)?,
            tenant: self.tenants.of(&owner),
            on_quarantine: Some(self.alarm()),
            ..Services::default()
        };
        let mut limits = limits::of_module(settings, &owner);
        if component.installed_by.is_some() {
            limits = limits::capped(limits, &self.config);
        }
        let engine = self.engine().map_err(|error| wrong("module.path")(error.to_string()))?;
        let title = component.title(&settings.name);
        let component = (&*component.bytes, component.inspection.clone());
        let module = Module::load_inspected(&engine, &title, component, &grants, limits, services);
        let module = module.map_err(|error| wrong("module.path")(error.to_string()))?;
        let wishes = module.init(&settings.config).map_err(|error| wrong("module.config")(error.to_string()))?;
        Ok(Member { entry: Some(entry.clone()), title, owner, module: Arc::new(module), wishes })
    }

    /// Loads a module that a job brings: it has the tenant's grants.
    pub(crate) fn brought(&self, path: &Path, job: &Nspace) -> Result<Member, Problem> {
        let load = || -> Result<Member, BroughtError> {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let (bytes, owner) = (component::read(path)?, Owner::Namespace(job.clone()));
            let (grants, limits) = (limits::brought_grants(&self.config), limits::of_brought(&self.config));
            let (tenant, on_quarantine) = (self.tenants.of(&owner), Some(self.alarm()));
            let services = Services { tenant, on_quarantine, ..Services::default() };
            let module = Module::load(&self.engine()?, &name, &bytes, &grants, limits, services)?;
            if !module.has_role(Role::EventHandler) {
                return Err(BroughtError::NoHandler);
            }
            let wishes = module.init(&[])?;
            Ok(Member { entry: None, title: name, owner, module: Arc::new(module), wishes })
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
    fn state(
        &self,
        entry: &ModuleEntry,
        component: &Component,
        owner: &Owner,
        grants: &Grants,
    ) -> Result<Option<Arc<dyn State>>, Problem> {
        if !grants.allows(Capability::State) {
            return Ok(None);
        }
        let missing = || entry.problem("module.grants", "`state` needs a store: set store.path");
        let store = self.store.as_ref().ok_or_else(missing)?;
        let settings = &entry.settings;
        let state = StoredState::new(store, &component.title(&settings.name), owner, settings.state_quota);
        let total = self.config.tenant.state_quota;
        Ok(Some(Arc::new(if *owner == Owner::Site { state } else { state.within(total) })))
    }
}
