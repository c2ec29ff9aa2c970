//! The engine that runs components, and its threads.
use crate::limits;
use peal_config::{Config, Sandbox};
use peal_model::Hook;
use peal_sandbox::{
    BacktracePlaces, Engine, EngineError, EngineSettings, GuestPool, PoolSettings, Priority,
};
use peal_server::GuestPools;
use peal_tenant::RuntimeSettings;
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Number of threads for policies. Each hook handles one request at a time, so one thread per hook
/// is all that can be used. With fewer threads one hook would wait for the policies of another.
const POLICY_THREADS: NonZeroUsize = NonZeroUsize::new(Hook::ALL.len()).unwrap();

/// Number of threads for log channels: one per channel of the Standard, so that a slow one delays
/// no other.
const CHANNELS: NonZeroUsize = NonZeroUsize::new(peal_core::log::CHANNELS.len()).unwrap();

/// Maximum number of queued calls of shadow modules; further ones are missed.
const MAX_SHADOW_CALLS: usize = 256;

/// Creates the guest pools. The site's chain handles one event at a time, so it has one thread.
pub fn pools(config: &Config) -> GuestPools {
    let usual = PoolSettings {
        spin: config.server.spin_time,
        ..PoolSettings::default()
    };
    let threads = config.sandbox.threads.unwrap_or(usual.threads);
    let pool = |settings| Arc::new(GuestPool::new(settings));
    let site = PoolSettings {
        threads: NonZeroUsize::MIN,
        ..usual
    };
    let policies = pool(PoolSettings {
        threads: POLICY_THREADS,
        ..usual
    });
    let channels = pool(PoolSettings {
        threads: CHANNELS,
        ..usual
    });
    // One thread of low priority, so that shadows take no time from the modules that act.
    let shadows = pool(PoolSettings {
        queue: MAX_SHADOW_CALLS,
        priority: Priority::Lowest,
        spin: Duration::ZERO,
        ..site
    });
    GuestPools {
        site: pool(site),
        tenants: pool(PoolSettings { threads, ..usual }),
        policies,
        channels,
        shadows,
    }
}

/// Creates the engine.
pub fn engine(config: &Sandbox) -> Result<Engine, EngineError> {
    engine_with(config, BacktracePlaces::Functions)
}

/// Creates an engine that keeps no compiled code.
pub fn engine_without_cache(config: &Sandbox) -> Result<Engine, EngineError> {
    Engine::new(&engine_settings(config, BacktracePlaces::Functions, None))
}

/// Creates an engine with these places in backtraces.
pub fn engine_with(config: &Sandbox, backtraces: BacktracePlaces) -> Result<Engine, EngineError> {
    let settings = |cache_dir| engine_settings(config, backtraces, cache_dir);
    let with_cache = Engine::new(&settings(code_dir(config)));
    Ok(match &config.cache_dir {
        Some(_) => with_cache?,
        None => with_cache.or_else(|error| match error {
            // The default directory is optional: compile again rather than fail.
            EngineError::CacheDir { .. }
            | EngineError::CacheDirShared { .. }
            | EngineError::CacheDirExposed { .. } => {
                tracing::warn!(%error, "compiled code cache disabled");
                Engine::new(&settings(None))
            }
            error => Err(error),
        })?,
    })
}

fn engine_settings(
    config: &Sandbox,
    backtraces: BacktracePlaces,
    cache_dir: Option<PathBuf>,
) -> EngineSettings {
    EngineSettings {
        cache_dir,
        max_instances: config.max_instances,
        fuel: limits::fuel(config.fuel),
        backtraces,
        ..EngineSettings::default()
    }
}

/// Returns the settings of the processes that run the modules of users; `None` if compiled code has no
/// directory.
pub(crate) fn runtime_settings(
    config: &Config,
    fuel: peal_config::FuelCount,
) -> Option<RuntimeSettings> {
    let threads = config
        .sandbox
        .threads
        .unwrap_or(PoolSettings::default().threads);
    let owner_limits = limits::tenant_limits(config);
    // An instance of an interpreted language takes several places.
    let places = owner_limits.instances.saturating_mul(PLACES);
    Some(RuntimeSettings {
        code_dir: user_code_dir(&code_dir(&config.sandbox)?),
        code_owner: rustix::process::geteuid().as_raw(),
        fuel: limits::fuel(fuel),
        max_instances: u32::try_from(places)
            .unwrap_or(u32::MAX)
            .min(config.sandbox.max_instances),
        threads: threads.get(),
        owner_limits,
    })
}

/// Number of places in the engine of a user's process for each instance that a user may have.
const PLACES: usize = 4;

/// Returns the directory above those of the code of each user. It is beside that of the server's code,
/// which no other user may enter.
pub fn user_code_dir(code_dir: &Path) -> PathBuf {
    let mut name = code_dir.file_name().unwrap_or_default().to_owned();
    name.push("-for-users");
    code_dir.with_file_name(name)
}

/// Returns the directory for compiled code: the configured one, or the cache directory of the user.
pub fn code_dir(config: &Sandbox) -> Option<PathBuf> {
    if config.cache_dir.is_some() {
        return config.cache_dir.clone();
    }
    cache_dir().map(|dir| dir.join("compiled"))
}

/// Returns the directory of Peal among the caches of the user.
pub fn cache_dir() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("peal"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn policies_of_each_hook_run_while_all_other_hooks_are_busy() {
        let pools = pools(&Config::default());
        let (begin, begun) = sync_channel(Hook::ALL.len());
        let waiting: Vec<_> = Hook::ALL
            .iter()
            .map(|_| {
                let (end, ended) = sync_channel::<()>(0);
                let begin = begin.clone();
                let job = move || {
                    begin.send(()).unwrap();
                    let _ = ended.recv();
                };
                pools.policies.try_run(job).unwrap();
                end
            })
            .collect();
        for hook in Hook::ALL {
            begun
                .recv_timeout(Duration::from_secs(30))
                .unwrap_or_else(|_| panic!("{} waits", hook.name()));
        }
        drop(waiting);
    }
}
