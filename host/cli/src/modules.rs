//! Loads the modules of a run and puts their handlers into the chains of their owners.
use crate::{component, config::module_limits, node::Brought};
use anyhow::{Context, Result, bail};
use peal_config::{ModuleEntry, Problem, Problems, Sandbox};
use peal_core::{
    owner::Owner,
    registration::{Codes, Lifetime, Registration},
};
use peal_model::{Info, Nspace};
use peal_sandbox::{
    Capability, Engine, EngineError, EngineSettings, Grants, GuestPool, Limits, Module, PoolSettings, Role, Services,
};
use peal_server::{GuestPools, HostedChains, HostedHandler, StoredState};
use peal_store::Store;
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The engine and the guest threads that the configuration wants. The site's chain runs its events one after the other, so
/// one thread is all that it can use.
pub fn engine(config: &Sandbox) -> Result<(Engine, GuestPools)> {
    let default = EngineSettings::default();
    let settings = |cache_dir| EngineSettings { cache_dir, max_instances: config.max_instances, ..default };
    let mut threads = PoolSettings::default();
    if let Some(number) = config.threads {
        threads.threads = number;
    }
    let pool = |settings| GuestPool::new(settings).map(Arc::new).context("cannot start the guest threads");
    let site = PoolSettings { threads: NonZeroUsize::MIN, ..PoolSettings::default() };
    let engine = match &config.cache_dir {
        Some(dir) => Engine::new(&settings(Some(dir.clone())))?,
        None => Engine::new(&settings(user_cache())).or_else(|error| match error {
            // Nobody asked for that directory: modules are compiled anew rather than not at all.
            EngineError::CacheDir { .. } | EngineError::CacheDirShared { .. } | EngineError::CacheDirExposed { .. } => {
                tracing::warn!(%error, "compiled code is not kept");
                Engine::new(&settings(None))
            }
            error => Err(error),
        })?,
    };
    Ok((engine, GuestPools { site: pool(site)?, tenants: pool(threads)? }))
}

/// Where users keep what can be made again.
fn user_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base =
        set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("peal").join("compiled"))
}

/// The chains of a run: the site's modules from the configuration, the job's from the command line.
pub fn chains(
    engine: &Engine,
    site: &[ModuleEntry],
    job: Option<Brought<'_>>,
    store: Option<&Arc<Store>>,
) -> Result<HostedChains> {
    let mut chains = HostedChains::default();
    let mut problems = Vec::new();
    for entry in site {
        let added = component::of(entry).and_then(|bytes| {
            add_configured(&mut chains, engine, entry, &bytes, store).map_err(|problem| vec![problem])
        });
        problems.extend(added.err().into_iter().flatten());
    }
    if !problems.is_empty() {
        return Err(Problems(problems).into());
    }
    for path in job.iter().flat_map(|job| job.handlers) {
        let Some(Brought { nspace, .. }) = job else { break };
        add_brought(&mut chains, engine, path, nspace).with_context(|| format!("--handler {}", path.display()))?;
    }
    Ok(chains)
}

/// Adds a module of the site.
fn add_configured(
    chains: &mut HostedChains,
    engine: &Engine,
    entry: &ModuleEntry,
    bytes: &[u8],
    store: Option<&Arc<Store>>,
) -> Result<(), Problem> {
    let settings = &entry.settings;
    let wrong = |key: &'static str| move |error: anyhow::Error| entry.problem(key, format!("{error:#}"));
    let grants = grants(entry);
    let services = services(entry, &grants, store)?;
    let module = load(engine, &settings.name, bytes, &grants, module_limits(&settings.limits), services)
        .map_err(wrong("module.path"))?;
    let registration = Registration {
        place: settings.place.clone(),
        lifetime: if settings.oneshot { Lifetime::OneShot } else { Lifetime::Standing },
        ..Registration::new(&settings.name, Codes::of(&settings.codes))
    };
    register(chains, Owner::Site, module, registration, &settings.config).map_err(wrong("module.place"))
}

fn grants(entry: &ModuleEntry) -> Grants {
    let is_granted = |capability: &Capability| entry.settings.grants.iter().any(|grant| grant == capability.name());
    Capability::ALL.into_iter().filter(is_granted).collect()
}

/// What stands behind the capabilities of a module of the site.
fn services(entry: &ModuleEntry, grants: &Grants, store: Option<&Arc<Store>>) -> Result<Services, Problem> {
    let mut services = Services::default();
    if grants.allows(Capability::State) {
        let store = store.ok_or_else(|| entry.problem("module.grants", "`state` needs a store: set store.path"))?;
        let settings = &entry.settings;
        let state = StoredState::new(store, &settings.name, &Owner::Site, settings.state_quota);
        services.state = Some(Arc::new(state));
    }
    Ok(services)
}

/// A module that a job brings has the tenant's grants and handles every code, unless it says itself what it wants.
fn add_brought(chains: &mut HostedChains, engine: &Engine, path: &Path, job: &Nspace) -> Result<()> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let module =
        load(engine, &name, &component::read(path)?, &Grants::tenant(), Limits::default(), Services::default())?;
    let registration = Registration::new(&name, Codes::Default);
    register(chains, Owner::Namespace(job.clone()), module, registration, &[])
}

fn register(
    chains: &mut HostedChains,
    owner: Owner,
    module: Arc<Module>,
    otherwise: Registration,
    settings: &[Info],
) -> Result<()> {
    let unfit = || format!("module {} cannot be registered", module.name());
    let wishes = module.init(settings)?;
    if wishes.is_empty() {
        return chains.register(owner, otherwise, HostedHandler { module: module.clone(), tag: 0 }).with_context(unfit);
    }
    for wish in wishes {
        let mut registration = Registration::from_directives(&wish.codes, &wish.directives).with_context(unfit)?;
        registration.name = wish.name.unwrap_or_else(|| module.name().to_owned());
        let handler = HostedHandler { module: module.clone(), tag: wish.tag };
        chains.register(owner.clone(), registration, handler).with_context(unfit)?;
    }
    Ok(())
}

fn load(
    engine: &Engine,
    name: &str,
    bytes: &[u8],
    grants: &Grants,
    limits: Limits,
    services: Services,
) -> Result<Arc<Module>> {
    let module = Module::load(engine, name, bytes, grants, limits, services)?;
    if !module.has_role(Role::EventHandler) {
        bail!("it does not handle events: it exports no peal:pmix/event-handler");
    }
    Ok(Arc::new(module))
}
