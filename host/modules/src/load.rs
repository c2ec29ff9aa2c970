//! Loading of one module: its component is compiled, started and initialized with its settings.
use crate::{
    artifacts::ArtifactFetcher,
    compiler::{self, CodePlace, CompileFailure, ComponentCompiler},
    component::Component,
    component_file::{self, ReadError},
    limits::{self, Tenants},
    module_events::{self, ModuleEvent},
    pools,
    signature::{self, Signature},
    sinks::SinkCatalog,
    usage::{OwnUsage, UsageSource},
    version::DesiredModule,
};
use peal_audit::{AuditEntry, AuditTrail};
use peal_config::{
    Config, FuelCount, Keyword as _, ModuleEntry, ModuleOwner, Modules, Problem, Sandbox,
};
use peal_core::owner::Owner;
use peal_model::{ModuleRegistration, Nspace};
use peal_sandbox::{
    Capability, ContractMismatch, Digest, Directories, Engine, EngineError, FormatError, Grants,
    InitError, LoadError, Module, ModuleLimits, OnQuarantine, ProcUsage, Quarantined, Role,
    Services, StateStore,
};
use peal_server::{Metrics, ServerHandle, StoredState};
use peal_store::Store;
use peal_tenant::{
    GuestCpuTimes, LoadedModule, ModuleOrder, Offer, OfferedServices, StartRuntime, TenantRuntimes,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};
use thiserror::Error;

/// A job and the components that handle its events (`peal run --handler`).
#[derive(Clone, Debug)]
pub struct JobHandlers {
    /// The namespace of the job.
    pub nspace: Nspace,
    /// The paths of the components.
    pub handlers: Vec<PathBuf>,
}

/// A module that is about to be loaded.
pub(crate) struct Loading<'a> {
    pub(crate) name: &'a str,
    pub(crate) owner: &'a Owner,
    /// The mode: `active`, `shadow` or `job-supplied`.
    pub(crate) mode: &'static str,
    pub(crate) component: (Digest, Arc<[u8]>),
    pub(crate) grants: &'a Grants,
    pub(crate) limits: ModuleLimits,
}

/// Error of loading a job-supplied module.
#[derive(Debug, Error)]
enum JobHandlerError {
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
    #[error("it {0}")]
    Contract(#[from] ContractMismatch),
    #[error(
        "it does not handle events: it exports no {}, but {}; a job can supply event handlers only, configure other modules in a [[module]]",
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

/// Returns roles as text.
fn listed(roles: &BTreeSet<Role>) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    if names.is_empty() {
        "nothing that Peal calls".to_owned()
    } else {
        names.join(", ")
    }
}

/// Returns the remedy for a missing grant of a handler of a job.
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

/// Loads modules.
pub struct Loader {
    config: Config,
    /// The rules for signatures, which a reload may change.
    pub(crate) rules: Mutex<Modules>,
    /// The accounts of the owners.
    tenants: Tenants,
    /// The directories that modules write to.
    directories: Directories,
    /// Created for the first module, since an engine has a thread of its own.
    engine: Mutex<Option<Engine>>,
    /// The sinks that modules may write to.
    outlets: SinkCatalog,
    /// The store for module state, if there is one.
    store: Option<Arc<Store>>,
    /// The audit trail, if there is one.
    audit: Option<AuditTrail>,
    /// The source of resource usage, if there is one.
    gauge: Option<Arc<dyn UsageSource>>,
    /// The compiler for user modules; `None` if users cannot install modules.
    compiler: Option<Arc<dyn ComponentCompiler>>,
    /// The process that fetches artefacts; `None` if this server has none.
    fetcher: Option<Arc<dyn ArtifactFetcher>>,
    /// The processes of users; `None` if their modules run in this process.
    runtimes: Option<TenantRuntimes>,
    /// The users of the present jobs.
    job_users: Mutex<BTreeMap<Nspace, u32>>,
    /// The running server, which receives events, once it is known.
    server: Arc<OnceLock<QuarantineListener>>,
}

/// Receiver of quarantine notices.
pub(crate) struct QuarantineListener {
    pub(crate) handle: ServerHandle,
    pub(crate) metrics: Arc<Metrics>,
}

/// A loaded module with its settings.
#[derive(Debug)]
pub struct DeployedModule {
    /// The settings and their source; `None` for a job-supplied module.
    pub entry: Option<ModuleEntry>,
    /// The owner of the module.
    pub owner: Owner,
    /// The module.
    pub module: LoadedModule,
    /// The registrations that the module requested at its start.
    pub(crate) registrations: Vec<ModuleRegistration>,
}

impl DeployedModule {
    /// Returns true if the module is quarantined.
    pub(crate) fn is_quarantined(&self) -> bool {
        self.module.health().quarantined.is_some()
    }

    /// Returns the name of the module for admins.
    pub fn name(&self) -> &str {
        self.module.name()
    }

    /// Returns true if loading this component with these settings would give the same module.
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

/// User that runs a module whose user is not known: `nobody`.
const NOBODY: u32 = 65_534;

/// Returns the services that a module in another process may ask this one for.
fn offered(services: &Services) -> OfferedServices {
    OfferedServices {
        sinks: services.sinks.keys().cloned().collect(),
        directories: services.files.keys().cloned().collect(),
        state: Offer::of(&services.state),
        usage: Offer::of(&services.usage),
        record: Offer::of(&services.recorder),
    }
}

/// Returns the audit entry of a quarantine.
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
    /// Returns the rules for signatures.
    pub(crate) fn rules(&self) -> Modules {
        self.rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Creates a loader with sinks, store and audit trail.
    pub fn new(
        config: Config,
        outlets: SinkCatalog,
        store: Option<Arc<Store>>,
        audit: Option<AuditTrail>,
    ) -> Loader {
        let tenants = Tenants::new(&config);
        let rules = Mutex::new(config.modules.clone());
        let directories = Directories::default();
        let engine = Mutex::default();
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
            fetcher: None,
            runtimes: None,
            job_users: Mutex::default(),
            server: Arc::default(),
        }
    }

    /// Adds the source of resource usage for modules with the grant `usage`.
    #[must_use]
    pub fn measuring(self, gauge: Arc<dyn UsageSource>) -> Loader {
        Loader {
            gauge: Some(gauge),
            ..self
        }
    }

    /// Adds the compiler for user modules.
    #[must_use]
    pub fn compiling_by(self, compiler: Arc<dyn ComponentCompiler>) -> Loader {
        Loader {
            compiler: Some(compiler),
            ..self
        }
    }

    /// Adds the process that fetches artefacts.
    #[must_use]
    pub fn fetching_by(self, fetcher: Arc<dyn ArtifactFetcher>) -> Loader {
        Loader {
            fetcher: Some(fetcher),
            ..self
        }
    }

    /// Returns the process that fetches artefacts, if there is one.
    pub(crate) fn fetcher(&self) -> Option<Arc<dyn ArtifactFetcher>> {
        self.fetcher.clone()
    }

    /// Has the modules of users run in processes that `start` starts.
    #[must_use]
    pub fn running_tenants_by(self, start: StartRuntime) -> Loader {
        let settings = pools::runtime_settings(&self.config, self.fuel());
        let runtimes = settings.map(|settings| TenantRuntimes::new(start, settings));
        Loader { runtimes, ..self }
    }

    /// Returns the CPU times of the processes of users; none if modules of users run in this process.
    pub fn guest_cpu_times(&self) -> Option<GuestCpuTimes> {
        self.runtimes.as_ref().map(TenantRuntimes::cpu_times)
    }

    /// Returns the modules for which fuel is counted.
    fn fuel(&self) -> FuelCount {
        match self.audit {
            // A call that a clock ended can only be replayed with its fuel count.
            Some(_) => FuelCount::Always,
            None => self.config.sandbox.fuel,
        }
    }

    /// Sets the users of the present jobs.
    pub(crate) fn set_job_users(&self, users: BTreeMap<Nspace, u32>) {
        *self
            .job_users
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = users;
    }

    /// Returns the user whose process runs the modules of an owner; `None` for modules that run in this
    /// process.
    fn runtime_user(&self, owner: &Owner) -> Option<u32> {
        self.runtimes.as_ref()?;
        let uid = match owner {
            Owner::Site => return None,
            Owner::User(uid) => Some(*uid),
            Owner::Namespace(nspace) => {
                let users = self.job_users.lock();
                let users = users.unwrap_or_else(PoisonError::into_inner);
                users.get(nspace).copied()
            }
        };
        let own = rustix::process::geteuid().as_raw();
        // A module that waits for a job has no user yet, and no module runs as root or as the server.
        Some(uid.filter(|uid| ![0, own].contains(uid)).unwrap_or(NOBODY))
    }

    /// Returns the resource usage that modules of this owner may query.
    fn usage(&self, owner: &Owner) -> Option<Arc<dyn ProcUsage>> {
        let gauge = self.gauge.clone()?;
        Some(Arc::new(OwnUsage {
            gauge,
            owner: owner.clone(),
        }))
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the store, if there is one.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// Returns the audit trail, if there is one.
    pub(crate) fn audit(&self) -> Option<&AuditTrail> {
        self.audit.as_ref()
    }

    /// Sets the receiver of quarantine notices.
    pub(crate) fn set_listener(&self, server: QuarantineListener) {
        // There is one server, and it is set once.
        let _ = self.server.set(server);
    }

    /// Returns the callback for a quarantine.
    fn quarantine_callback(&self) -> OnQuarantine {
        let server = self.server.clone();
        let audit = self.audit.clone();
        Arc::new(move |quarantined| {
            if let Some(audit) = &audit {
                audit.mention(quarantine(quarantined));
            }
            // Until the server runs, only the audit trail is told.
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
                let settings = Sandbox {
                    fuel: self.fuel(),
                    ..self.config.sandbox.clone()
                };
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

    /// Compiles a component of these modules outside of the server, once for each kind of code
    /// needed. Blocks.
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
            let limits = self.limits(entry, component, &component.scope.any());
            // The same component needs two kinds of code if one of its modules has a fuel limit.
            let target = engine.code_target(&limits).map_err(unavailable)?;
            if !done.contains(&target) {
                let user = self.runtime_user(&component.scope.any());
                let place = user.map_or(CodePlace::Server, CodePlace::User);
                compiler.compile(target, place, &component.bytes)?;
                done.push(target);
            }
        }
        Ok(())
    }

    /// Loads a configured module that has the required signatures. Runs the guest's start and init: not for a
    /// thread of the runtime.
    pub(crate) fn load_configured(
        &self,
        (entry, component): &DesiredModule,
        owner: Owner,
        rules: &Modules,
    ) -> Result<DeployedModule, Problem> {
        let settings = &entry.settings;
        let wrong = |key: &'static str| move |error: String| entry.problem(key, error);
        // Stored components are checked too: the rules may have changed since.
        if let Some(problem) = component.unsigned(entry, rules) {
            return Err(problem);
        }
        let grants = limits::grants(entry);
        let services = Services {
            sinks: self.outlets.of(entry)?,
            state: self.state(entry, component, &owner, &grants)?,
            files: limits::files(entry, settings.mode, &self.directories)?,
            usage: self.usage(&owner),
            tenant: self.tenants.of(&owner),
            on_quarantine: Some(self.quarantine_callback()),
            ..Services::default()
        };
        let limits = self.limits(entry, component, &owner);
        let user = self.runtime_user(&owner);
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
        if let (Some(runtimes), Some(uid)) = (&self.runtimes, user) {
            // The components of users were compiled before.
            if let (None, Some(compiler)) = (component.installed_by, &self.compiler) {
                let target = engine
                    .code_target(&limits)
                    .map_err(|error| wrong("module.path")(error.to_string()))?;
                compiler
                    .compile(target, CodePlace::User(uid), &component.bytes)
                    .map_err(|error| wrong("module.path")(error.to_string()))?;
            }
            let order = ModuleOrder {
                name: component.title.clone(),
                owner: owner.to_string(),
                component: component.bytes.clone().into(),
                grants,
                limits,
                settings: settings.config.clone(),
                services: offered(&services),
            };
            let loaded = runtimes.load(uid, order, component.inspection.clone(), services);
            let (module, registrations) =
                loaded.map_err(|error| wrong("module.path")(error.to_string()))?;
            return Ok(DeployedModule {
                entry: Some(entry.clone()),
                owner,
                module: LoadedModule::Tenant(module),
                registrations,
            });
        }
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
        let registrations = module
            .init(&settings.config)
            .map_err(|error| wrong("module.config")(error.to_string()))?;
        Ok(DeployedModule {
            entry: Some(entry.clone()),
            owner,
            module: Arc::new(module).into(),
            registrations,
        })
    }

    /// Loads a job-supplied module, with the grants of tenants.
    pub(crate) fn job_supplied(
        &self,
        path: &Path,
        job: &Nspace,
    ) -> Result<DeployedModule, Problem> {
        let load = || -> Result<DeployedModule, JobHandlerError> {
            let name = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            let bytes = component_file::read(path)?;
            let owner = Owner::Namespace(job.clone());
            let inspection = peal_sandbox::inspect(&bytes)?;
            if let Some(mismatch) = inspection.contract_mismatch() {
                return Err(mismatch.into());
            }
            if !inspection.roles.contains(&Role::EventHandler) {
                return Err(JobHandlerError::NoHandler(inspection.roles));
            }
            let signature = Signature::beside(path);
            // Before the load, which compiles: nothing unsigned reaches the compiler where a
            // signature is required.
            if let Some(why) = signature::lacking(
                &self.rules(),
                (ModuleOwner::JobSupplied, None),
                &bytes,
                &signature,
            ) {
                return Err(JobHandlerError::Unsigned(why));
            }
            let grants = limits::job_supplied_grants(&self.config);
            let limits = limits::of_job_supplied(&self.config);
            if let Some(capability) = inspection
                .capabilities
                .iter()
                .copied()
                .find(|wanted| !grants.allows(*wanted))
            {
                return Err(JobHandlerError::NotGranted {
                    capability,
                    remedy: remedy(capability),
                });
            }
            let tenant = self.tenants.of(&owner);
            let on_quarantine = Some(self.quarantine_callback());
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
                .map_err(JobHandlerError::Record)?;
            let inspected = (&*bytes, inspection);
            let module = Module::load_inspected(
                &self.engine()?,
                &name,
                inspected,
                &grants,
                limits,
                services,
            )?;
            let registrations = module.init(&[])?;
            Ok(DeployedModule {
                entry: None,
                owner,
                module: Arc::new(module).into(),
                registrations,
            })
        };
        load().map_err(|error| Problem::of_file(format!("--handler {}: {error}", path.display())))
    }

    /// Returns the state store of a configured module, if it is granted: the same for all versions
    /// of one name.
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
        // All modules of a user share one total. The site's modules have only limits of their own.
        Ok(Some(Arc::new(if *owner == Owner::Site {
            state
        } else {
            state.within(total)
        })))
    }
}
