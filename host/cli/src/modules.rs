//! Loads the modules of a run and puts their handlers into the chains of their owners.
use crate::config::{Config, ModuleConfig, SandboxConfig};
use anyhow::{Context, Result, bail};
use peal_core::{
    owner::Owner,
    registration::{Codes, Lifetime, Registration},
};
use peal_model::{Info, Nspace, Status};
use peal_sandbox::{
    Digest, Engine, EngineError, EngineSettings, Grants, GuestPool, Limits, MAX_COMPONENT_BYTES, Module, PoolSettings,
    Role, Services,
};
use peal_server::{GuestPools, HostedChains, HostedHandler};
use std::{
    fs::File,
    io::Read,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The engine and the guest threads that the configuration wants. The site's chain runs its events one after the other, so
/// one thread is all that it can use.
pub fn engine(config: &SandboxConfig) -> Result<(Engine, GuestPools)> {
    let default = EngineSettings::default();
    let max_instances = config.max_instances.unwrap_or(default.max_instances);
    let settings = |cache_dir| EngineSettings { cache_dir, max_instances, ..default };
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
pub fn chains(engine: &Engine, config: &Config, handlers: &[PathBuf], job: &Nspace) -> Result<HostedChains> {
    let mut chains = HostedChains::default();
    for module in &config.module {
        add_configured(&mut chains, engine, module)?;
    }
    for path in handlers {
        add_brought(&mut chains, engine, path, job).with_context(|| format!("--handler {}", path.display()))?;
    }
    Ok(chains)
}

fn add_configured(chains: &mut HostedChains, engine: &Engine, config: &ModuleConfig) -> Result<()> {
    let bytes = read(&config.path)?;
    // Before anything of it is compiled.
    let digest = Digest::of(&bytes).to_string();
    if let Some(pin) = &config.sha256
        && !pin.eq_ignore_ascii_case(&digest)
    {
        bail!("{} has sha256 {digest}, the configuration wants {pin}", config.path.display());
    }
    let grants = config.grants.iter().map(|grant| grant.0).collect();
    let module = load(engine, &config.name, &bytes, &grants, config.limits.limits())?;
    let codes: Vec<Status> = config.codes.iter().map(|code| code.0).collect();
    let registration = Registration {
        place: config.place.clone().into(),
        lifetime: if config.oneshot { Lifetime::OneShot } else { Lifetime::Standing },
        ..Registration::new(&config.name, Codes::of(&codes))
    };
    register(chains, Owner::Site, module, registration, &config.settings()?)
}

/// A module that a job brings has the tenant's grants and handles every code, unless it says itself what it wants.
fn add_brought(chains: &mut HostedChains, engine: &Engine, path: &Path, job: &Nspace) -> Result<()> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let module = load(engine, &name, &read(path)?, &Grants::tenant(), Limits::default())?;
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

fn load(engine: &Engine, name: &str, bytes: &[u8], grants: &Grants, limits: Limits) -> Result<Arc<Module>> {
    let module = Module::load(engine, name, bytes, grants, limits, Services::default())?;
    if !module.has_role(Role::EventHandler) {
        bail!("it does not handle events: it exports no peal:pmix/event-handler");
    }
    Ok(Arc::new(module))
}

/// Reads a component, and no more of what is none than tells that it is too large.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(cannot)?;
    let mut bytes = Vec::new();
    file.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(cannot)?;
    Ok(bytes)
}
