//! One module: its component compiled, started, and told its settings.
use crate::{
    audit_entries::Loading,
    compiler::{self, CompileFailure, ComponentCompiler},
    component::{self, Component, ReadError},
    limits::{self, Tenants},
    module_events::{self, ModuleEvent},
    pools,
    signature::{self, Signature},
    sinks::SinkCatalog,
    usage::{OwnUsage, UsageSource},
    version::DesiredModule,
};
use peal_audit::{AuditEntry, AuditTrail};
use peal_config::{Config, FuelCount, Keyword as _, ModuleEntry, ModuleOwner, Modules, Problem};
use peal_core::owner::Owner;
use peal_model::Nspace;
use peal_sandbox::{
    Capability, Digest, Directories, Engine, EngineError, FormatError, Grants, InitError,
    LoadError, Module, ModuleLimits, ModuleRegistration, OnQuarantine, ProcUsage, Quarantined,
    Role, Services, StateStore,
};
use peal_server::{Metrics, ServerHandle, StoredState};
use peal_store::Store;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use thiserror::Error;

/// A job that a verb brings along, and the components that handle its events.
#[derive(Clone, Debug)]
pub struct JobHandlers {
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
    #[error("{0}")]
    Record(String),
    #[error("{0}")]
    Format(#[from] FormatError),
    #[error(
        "it does not handle events: it exports no {}, but {}; a job brings handlers only, name it in a [[module]] of the configuration",
        Role::EventHandler, listed(.0)
    )]
    NoHandler(BTreeSet<Role>),
    #[error("it imports {capability}, which a handler of a job does not have: {remedy}")]
    NotGranted {
        capability: Capability,
        remedy: String,
    },
    #[error("it {0}")]
    Unsigned(String),
}

/// Roles in words.
fn listed(roles: &BTreeSet<Role>) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    if names.is_empty() {
        "nothing that Peal calls".to_owned()
    } else {
        names.join(", ")
    }
}

/// What to do where a handler of a job needs a capability that it does not have.
fn remedy(capability: Capability) -> String {
    let name = capability.name();
    match limits::is_for_configured(capability) {
        true => format!(
            "name it in a [[module]] of the configuration with {name:?} among its grants; handlers of jobs never have that"
        ),
        false => format!(
            "add {name:?} to tenant.grants, or name it in a [[module]] with {name:?} among its grants"
        ),
    }
}

/// What modules are loaded with.
pub struct Loader {
    config: Config,
    /// By which rules signatures are checked, which a reload may change.
    pub(crate) rules: Mutex<Modules>,
    /// What the owners of modules have together.
    tenants: Tenants,
    /// The directories that modules write to.
    directories: Directories,
    /// Made for the first module: an engine has a thread of its own, which is for nothing where there is nothing to run.
    engine: Mutex<Option<Engine>>,
    /// What modules may write to.
    outlets: SinkCatalog,
    /// Where state is kept, if it is.
    store: Option<Arc<Store>>,
    /// Where calls are recorded, if they are.
    audit: Option<AuditTrail>,
    /// Who measures what procs use, if somebody does.
    gauge: Option<Arc<dyn UsageSource>>,
    /// The compiler of what users install; none where they install nothing.
    compiler: Option<Arc<dyn ComponentCompiler>>,
    /// Whom events tell, once it runs.
    server: Arc<OnceLock<QuarantineListener>>,
}

/// Who is told of what becomes of modules.
pub(crate) struct QuarantineListener {
    pub(crate) handle: ServerHandle,
    pub(crate) metrics: Arc<Metrics>,
}

/// A module of a server, and what its admin says of it.
#[derive(Debug)]
pub struct DeployedModule {
    /// Its settings, and where they come from; none for what a job brings.
    pub entry: Option<ModuleEntry>,
    /// Whose it is.
    pub owner: Owner,
    /// It itself.
    pub module: Arc<Module>,
    /// What it wishes to be registered for.
    pub(crate) wishes: Vec<ModuleRegistration>,
}

impl DeployedModule {
    /// What administrators call it.
    pub fn name(&self) -> &str {
        self.module.name()
    }

    /// Whether this is what one would get of that component with these settings.
    pub(crate) fn is_still(
        &self,
        entry: &ModuleEntry,
        component: &Component,
        owner: &Owner,
    ) -> bool {
        let is_entry = self
            .entry
            .as_ref()
            .is_some_and(|own| own.settings == entry.settings);
        is_entry && self.owner == *owner && self.module.digest() == component.inspection.digest
    }
}

/// As it is recorded.
fn quarantine(quarantined: &Quarantined) -> AuditEntry {
    let Quarantined {
        module,
        digest,
        failures,
        last,
        ..
    } = quarantined;
    AuditEntry::Quarantined {
        module: module.to_string(),
        digest: *digest,
        failures: *failures,
        last: last.clone(),
    }
}

impl Loader {
    /// Loads as these settings want it. Channels write there, state is kept in that store, calls are recorded there.
    pub fn new(
        config: Config,
        outlets: SinkCatalog,
        store: Option<Arc<Store>>,
        audit: Option<AuditTrail>,
    ) -> Loader {
        let (tenants, rules) = (Tenants::new(&config), Mutex::new(config.modules.clone()));
        let (directories, engine) = (Directories::default(), Mutex::default());
        Loader {
            config,
            rules,
            tenants,
            directories,
            engine,
            outlets,
            store,
            audit,
            gauge: None,
            compiler: None,
            server: Arc::default(),
        }
    }

    /// The same, where modules that are granted `usage` are told what this measures.
    #[must_use]
    pub fn measuring(self, gauge: Arc<dyn UsageSource>) -> Loader {
        Loader {
            gauge: Some(gauge),
            ..self
        }
    }

    /// This loader, with a compiler for what users install.
    #[must_use]
    pub fn compiling_by(self, compiler: Arc<dyn ComponentCompiler>) -> Loader {
        Loader {
            compiler: Some(compiler),
            ..self
        }
    }

    /// What the modules of this owner may know of the use of the machine.
    fn usage(&self, owner: &Owner) -> Option<Arc<dyn ProcUsage>> {
        let gauge = self.gauge.clone()?;
        Some(Arc::new(OwnUsage {
            gauge,
            owner: owner.clone(),
        }))
    }

    /// The settings that it loads by.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Where what outlives the server is kept.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Where calls are recorded, if they are.
    pub(crate) fn audit(&self) -> Option<&AuditTrail> {
        self.audit.as_ref()
    }

    /// From now on that server is told of quarantines.
    pub(crate) fn tell(&self, server: QuarantineListener) {
        // There is one, and it is said once.
        let _ = self.server.set(server);
    }

    /// What a module does that is quarantined.
    fn alarm(&self) -> OnQuarantine {
        let (server, audit) = (self.server.clone(), self.audit.clone());
        Arc::new(move |quarantined| {
            if let Some(audit) = &audit {
                audit.mention(quarantine(quarantined));
            }
            if let Some(QuarantineListener { handle, metrics }) = server.get() {
                metrics.counters().modules_quarantined.count();
                handle.notify(module_events::event(&ModuleEvent::Quarantined(quarantined)));
            }
        })
    }

    fn engine(&self) -> Result<Engine, EngineError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match &*engine {
            Some(engine) => engine.clone(),
            None => {
                let mut settings = self.config.sandbox.clone();
                if self.audit.is_some() {
                    // What a clock ended is replayed by its fuel.
                    settings.fuel = FuelCount::Always;
                }
                engine.insert(pools::engine(&settings)?).clone()
            }
        })
    }

    fn limits(&self, entry: &ModuleEntry, component: &Component, owner: &Owner) -> ModuleLimits {
        let limits = limits::of_module(&entry.settings, owner);
        if component.installed_by.is_some() {
            limits::capped(limits, &self.config)
        } else {
            limits
        }
    }

    /// Has a component of these modules compiled outside of the server, for each kind of code that they run as. Blocks.
    pub(crate) fn precompile(
        &self,
        modules: &[DesiredModule],
        digest: Digest,
    ) -> Result<(), CompileFailure> {
        let unavailable = |error: EngineError| CompileFailure::Unavailable(error.to_string());
        let engine = self.engine().map_err(unavailable)?;
        if engine.cache_dir().is_none() {
            return Err(compiler::no_cache());
        }
        let none =
            || CompileFailure::Unavailable("this server has no process that compiles".to_owned());
        let compiler = self.compiler.as_ref().ok_or_else(none)?;
        let mut done = Vec::new();
        for (entry, component) in modules
            .iter()
            .filter(|(_, component)| component.inspection.digest == digest)
        {
            let limits = self.limits(entry, component, &component.whose.any());
            let target = engine.code_target(&limits).map_err(unavailable)?;
            if !done.contains(&target) {
                compiler.compile(target, &component.bytes)?;
                done.push(target);
            }
        }
        Ok(())
    }

    /// Loads a module of the configuration. Runs the guest's start and init: not for a thread of the runtime.
    pub(crate) fn configured(
        &self,
        entry: &ModuleEntry,
        component: &Component,
        owner: Owner,
    ) -> Result<DeployedModule, Problem> {
        let settings = &entry.settings;
        let wrong = |key: &'static str| move |error: String| entry.problem(key, error);
        // Also what was kept when it ran: the rules may have changed since.
        if let Some(problem) = component.unsigned(entry, &self.rules()) {
            return Err(problem);
        }
        let grants = component::grants(entry);
        let services = Services {
            sinks: self.outlets.of(entry)?,
            state: self.state(entry, component, &owner, &grants)?,
            files: limits::files(entry, settings.mode, &self.directories)?,
            usage: self.usage(&owner),
            tenant: self.tenants.of(&owner),
            on_quarantine: Some(self.alarm()),
            ..Services::default()
        };
        let limits = self.limits(entry, component, &owner);
        let engine = self
            .engine()
            .map_err(|error| wrong("module.path")(error.to_string()))?;
        let bytes = (component.inspection.digest, component.bytes.clone());
        let loading = Loading {
            name: &component.title,
            owner: &owner,
            mode: settings.mode.name(),
            component: bytes,
            grants: &grants,
            limits,
        };
        let services = self
            .recorded(loading, services)
            .map_err(wrong("module.path"))?;
        let inspected = (&*component.bytes, component.inspection.clone());
        let module = Module::load_inspected(
            &engine,
            &component.title,
            inspected,
            &grants,
            limits,
            services,
        );
        let module = module.map_err(|error| wrong("module.path")(error.to_string()))?;
        let wishes = module
            .init(&settings.config)
            .map_err(|error| wrong("module.config")(error.to_string()))?;
        Ok(DeployedModule {
            entry: Some(entry.clone()),
            owner,
            module: Arc::new(module),
            wishes,
        })
    }

    /// Loads a module that a job brings: it has the tenant's grants.
    pub(crate) fn brought(&self, path: &Path, job: &Nspace) -> Result<DeployedModule, Problem> {
        let load = || -> Result<DeployedModule, BroughtError> {
            let name = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            let (bytes, owner) = (component::read(path)?, Owner::Namespace(job.clone()));
            let inspection = peal_sandbox::inspect(&bytes)?;
            if !inspection.roles.contains(&Role::EventHandler) {
                return Err(BroughtError::NoHandler(inspection.roles));
            }
            let signature = Signature::beside(path);
            if let Some(why) = signature::lacking(
                &self.rules(),
                (ModuleOwner::JobSupplied, None),
                &bytes,
                &signature,
            ) {
                return Err(BroughtError::Unsigned(why));
            }
            let (grants, limits) = (
                limits::brought_grants(&self.config),
                limits::of_brought(&self.config),
            );
            if let Some(capability) = inspection
                .capabilities
                .iter()
                .copied()
                .find(|wanted| !grants.allows(*wanted))
            {
                return Err(BroughtError::NotGranted {
                    capability,
                    remedy: remedy(capability),
                });
            }
            let (tenant, on_quarantine) = (self.tenants.of(&owner), Some(self.alarm()));
            let usage = self.usage(&owner);
            let services = Services {
                usage,
                tenant,
                on_quarantine,
                ..Services::default()
            };
            let bytes: Arc<[u8]> = bytes.into();
            let component = (Digest::of(&bytes), bytes.clone());
            let loading = Loading {
                name: &name,
                owner: &owner,
                mode: "job-supplied",
                component,
                grants: &grants,
                limits,
            };
            let services = self
                .recorded(loading, services)
                .map_err(BroughtError::Record)?;
            let inspected = (&*bytes, inspection);
            let module = Module::load_inspected(
                &self.engine()?,
                &name,
                inspected,
                &grants,
                limits,
                services,
            )?;
            let wishes = module.init(&[])?;
            Ok(DeployedModule {
                entry: None,
                owner,
                module: Arc::new(module),
                wishes,
            })
        };
        load().map_err(|error| Problem::of_file(format!("--handler {}: {error}", path.display())))
    }

    /// Where a module of the configuration keeps its state, if it may: the same for all versions of one name.
    fn state(
        &self,
        entry: &ModuleEntry,
        component: &Component,
        owner: &Owner,
        grants: &Grants,
    ) -> Result<Option<Arc<dyn StateStore>>, Problem> {
        if !grants.allows(Capability::State) {
            return Ok(None);
        }
        let missing = || entry.problem("module.grants", "`state` needs a store: set store.path");
        let store = self.store.as_ref().ok_or_else(missing)?;
        let settings = &entry.settings;
        let state = StoredState::new(store, &component.title, owner, settings.max_state_bytes);
        let total = self.config.tenant.max_state_bytes;
        Ok(Some(Arc::new(if *owner == Owner::Site {
            state
        } else {
            state.within(total)
        })))
    }
}
