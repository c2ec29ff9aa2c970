//! Loads the modules of a run and puts each where its roles belong: chains of handlers, policies, log channels.
use crate::{
    component::{self, Component},
    limits::{self, Tenants},
    node::Brought,
    seats,
};
use anyhow::{Context, Result, bail};
use peal_config::{Config, ModuleEntry, Problem, Problems, Sandbox, SinkName};
use peal_core::{
    owner::Owner,
    policy::OnFailure,
    registration::{Codes, Registration},
};
use peal_model::Nspace;
use peal_sandbox::{
    Capability, Engine, EngineError, EngineSettings, Grants, GuestPool, Module, ModuleRegistration, PoolSettings, Role,
    Services, Sink, State,
};
use peal_server::{
    GuestPools, HostedChains, HostedChannels, HostedHandler, HostedPolicies, StoredState,
    embedded::{EmbeddedHost, Stream},
};
use peal_store::Store;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Each hook asks about one request after the other.
const HOOKS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// The guest threads that the configuration wants. The site's chain and the log channels take one thing after the other, so one
/// thread is all that each can use.
pub fn pools(config: &Sandbox) -> Result<GuestPools> {
    let mut threads = PoolSettings::default();
    if let Some(number) = config.threads {
        threads.threads = number;
    }
    let pool = |settings| GuestPool::new(settings).map(Arc::new).context("cannot start the guest threads");
    let site = PoolSettings { threads: NonZeroUsize::MIN, ..PoolSettings::default() };
    let policies = pool(PoolSettings { threads: HOOKS, ..PoolSettings::default() })?;
    Ok(GuestPools { site: pool(site)?, tenants: pool(threads)?, policies, channels: pool(site)? })
}

/// The engine that the configuration wants.
pub fn engine(config: &Sandbox) -> Result<Engine> {
    let default = EngineSettings::default();
    let (max_instances, fuel) = (config.max_instances, limits::fuel(config.fuel));
    let settings = |cache_dir| EngineSettings { cache_dir, max_instances, fuel, ..default };
    Ok(match &config.cache_dir {
        Some(dir) => Engine::new(&settings(Some(dir.clone())))?,
        None => Engine::new(&settings(user_cache())).or_else(|error| match error {
            // Nobody asked for that directory: modules are compiled anew rather than not at all.
            EngineError::CacheDir { .. } | EngineError::CacheDirShared { .. } | EngineError::CacheDirExposed { .. } => {
                tracing::warn!(%error, "compiled code is not kept");
                Engine::new(&settings(None))
            }
            error => Err(error),
        })?,
    })
}

/// Where users keep what can be made again.
fn user_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base =
        set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("peal").join("compiled"))
}

/// The modules of a server, each in its seats.
#[derive(Default)]
pub struct Hosted {
    pub chains: HostedChains,
    pub policies: HostedPolicies,
    pub channels: HostedChannels,
}

/// What modules are loaded with.
pub struct Loader<'a> {
    pub engine: &'a Engine,
    /// Its outputs are what sinks write to.
    pub host: &'a EmbeddedHost,
    /// Where state is kept, if it is.
    pub store: Option<&'a Arc<Store>>,
    /// What holds for modules beside what is said of each.
    pub config: &'a Config,
    /// Who has modules already.
    pub tenants: &'a Tenants,
}

/// The modules of a node: the site's from the configuration, with their components, and those that a job brings.
pub fn hosted<'a>(
    loader: &Loader<'_>,
    site: impl IntoIterator<Item = (&'a ModuleEntry, Component)>,
    job: Option<Brought<'_>>,
) -> Result<Hosted> {
    let mut hosted = Hosted::default();
    let mut problems = Vec::new();
    for (entry, component) in site {
        problems.extend(add_configured(&mut hosted, loader, entry, component).err());
    }
    if !problems.is_empty() {
        return Err(Problems(problems).into());
    }
    if let Some(Brought { nspace, handlers }) = job {
        for path in handlers {
            let added = add_brought(&mut hosted.chains, loader, path, nspace);
            added.with_context(|| format!("--handler {}", path.display()))?;
        }
    }
    Ok(hosted)
}

/// Adds a module of the configuration, in every role that it fills.
fn add_configured(
    hosted: &mut Hosted,
    loader: &Loader<'_>,
    entry: &ModuleEntry,
    component: Component,
) -> Result<(), Problem> {
    let (settings, Component { bytes, owner }) = (&entry.settings, component);
    let wrong = |key: &'static str| move |error: anyhow::Error| entry.problem(key, format!("{error:#}"));
    let grants = grants(entry);
    let services = Services {
        sinks: sinks(loader.host, &settings.sinks),
        state: state(entry, &owner, &grants, loader)?,
        files: limits::files(entry)?,
        tenant: loader.tenants.join(&owner).map_err(wrong("module.scope"))?,
        ..Services::default()
    };
    let limits = limits::of_module(settings, &owner);
    let module = Module::load(loader.engine, &settings.name, &bytes, &grants, limits, services);
    let module = Arc::new(module.map_err(|error| wrong("module.path")(error.into()))?);
    let wishes = module.init(&settings.config).map_err(|error| wrong("module.config")(error.into()))?;
    let (name, place) = (&settings.name, || settings.place.clone());
    let roles = Role::ALL.into_iter().filter(|role| module.has_role(*role)).collect();
    if module.has_role(Role::EventHandler) {
        let unused = seats::handler_keys(entry, &roles);
        if let (Some(first), false) = (unused.first(), wishes.is_empty()) {
            let message = format!("module {name} registers its handlers itself: leave out {}", unused.join(", "));
            return Err(entry.problem(first, message));
        }
        let registration = seats::registration(settings);
        register(&mut hosted.chains, owner, &module, wishes, registration).map_err(wrong("module.place"))?;
    }
    for hook in seats::hooks(&roles) {
        let on_failure = match settings.on_failure {
            peal_config::OnFailure::Deny => OnFailure::Deny,
            peal_config::OnFailure::Pass => OnFailure::Pass,
        };
        let added = hosted.policies.register(hook, name, place(), on_failure, module.clone());
        added.map_err(|error| wrong("module.place")(error.into()))?;
    }
    if module.has_role(Role::LogChannel) {
        let added = hosted.channels.register(name, settings.channels.clone(), place(), module);
        added.map_err(|error| wrong("module.channels")(error.into()))?;
    }
    Ok(())
}

/// The sinks that a module may write to, by the names that it knows them by.
fn sinks(host: &EmbeddedHost, names: &[SinkName]) -> BTreeMap<String, Arc<dyn Sink>> {
    let sink = |name: &SinkName| match name {
        SinkName::Stdout => ("stdout".to_owned(), host.sink(Stream::Stdout)),
        SinkName::Stderr => ("stderr".to_owned(), host.sink(Stream::Stderr)),
    };
    names.iter().map(sink).collect()
}

fn grants(entry: &ModuleEntry) -> Grants {
    let is_granted = |capability: &Capability| entry.settings.grants.iter().any(|grant| grant == capability.name());
    Capability::ALL.into_iter().filter(is_granted).collect()
}

/// Where a module of the configuration keeps its state, if it may.
fn state(
    entry: &ModuleEntry,
    owner: &Owner,
    grants: &Grants,
    loader: &Loader<'_>,
) -> Result<Option<Arc<dyn State>>, Problem> {
    if !grants.allows(Capability::State) {
        return Ok(None);
    }
    let store = loader.store.ok_or_else(|| entry.problem("module.grants", "`state` needs a store: set store.path"))?;
    let settings = &entry.settings;
    let state = StoredState::new(store, &settings.name, owner, settings.state_quota);
    Ok(Some(Arc::new(if *owner == Owner::Site { state } else { state.within(loader.config.tenant.state_quota) })))
}

/// A module that a job brings has the tenant's grants and handles every code, unless it says itself what it wants.
fn add_brought(chains: &mut HostedChains, loader: &Loader<'_>, path: &Path, job: &Nspace) -> Result<()> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (bytes, owner) = (component::read(path)?, Owner::Namespace(job.clone()));
    let (grants, limits) = (limits::brought_grants(loader.config), limits::of_brought(loader.config));
    let services = Services { tenant: loader.tenants.join(&owner)?, ..Services::default() };
    let module = Module::load(loader.engine, &name, &bytes, &grants, limits, services)?;
    if !module.has_role(Role::EventHandler) {
        bail!("it does not handle events: it exports no peal:pmix/event-handler");
    }
    let wishes = module.init(&[])?;
    let registration = Registration::new(&name, Codes::Default);
    register(chains, owner, &Arc::new(module), wishes, registration)
}

/// Registers a module's handlers as it wishes, or if it has no wishes as its owner has it.
fn register(
    chains: &mut HostedChains,
    owner: Owner,
    module: &Arc<Module>,
    wishes: Vec<ModuleRegistration>,
    otherwise: Registration,
) -> Result<()> {
    let unfit = || format!("module {} cannot be registered", module.name());
    if wishes.is_empty() {
        return chains.register(owner, otherwise, HostedHandler { module: module.clone(), tag: 0 }).with_context(unfit);
    }
    for wish in wishes {
        chains.register_wish(owner.clone(), module, &wish).with_context(unfit)?;
    }
    Ok(())
}
