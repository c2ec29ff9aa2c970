//! The engine, one per process. It compiles components, caches compiled code on disk and advances
//! the epoch by which calls are interrupted.
use crate::cache::{CodeReaders, checked_dir, own_dir};
use crate::compile::{CodeTarget, MemoryLayout};
use crate::instance::Instance;
use crate::limits::{
    CORE_INSTANCES_PER_PLACE, MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES, MEMORIES_PER_PLACE,
    TABLES_PER_PLACE,
};
use crate::memory_limiter::{Budget, BudgetExceeded, InstanceSlot};
use crate::retire::Retirement;
use crate::ticker::Ticker;
use crate::{Digest, Inspection, LimitKind, ModuleLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use thiserror::Error;
use wasmtime::component::Component;
use wasmtime::{
    Cache, CacheConfig, Config, Enabled, EngineWeak, InstanceAllocationStrategy,
    PoolingAllocationConfig, WasmBacktraceDetails,
};

/// Settings of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Directory in which compiled code is cached, so that known modules start at once; `None`
    /// keeps nothing.
    ///
    /// A user with write access to it can run code in this process. It is created for this user
    /// alone. A directory that other users can access or replace is refused.
    pub cache_dir: Option<PathBuf>,
    /// Owner of the cache directory, if that is not this process's user. This process then only reads
    /// code there, and its group may do so.
    pub cache_owner: Option<u32>,
    /// Number before those of the first instance and the first request. Engines of several processes
    /// have different ones, so that records of all of them name each instance differently.
    pub numbers_after: u64,
    /// Bound on the instances of all modules together. An instance of a large component counts as
    /// several. Modules of tenants may use three quarters of it.
    pub max_instances: u32,
    /// Modules for which fuel is counted.
    pub fuel: FuelCount,
    /// Places in the backtraces of failed calls.
    pub backtraces: BacktracePlaces,
    /// Interval at which running calls are checked against their time. A call is interrupted at
    /// most two ticks late.
    pub tick: Duration,
}

impl Default for EngineSettings {
    /// No cache, 1000 instances, fuel only where it is limited, 5 ms.
    fn default() -> EngineSettings {
        let fuel = FuelCount::default();
        EngineSettings {
            cache_dir: None,
            cache_owner: None,
            numbers_after: 0,
            max_instances: 1000,
            fuel,
            backtraces: BacktracePlaces::default(),
            tick: Duration::from_millis(5),
        }
    }
}

/// Modules for which fuel is counted. Counting slows guests down and needs other compiled code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuelCount {
    /// Modules with a fuel limit.
    #[default]
    WhereLimited,
    /// All modules.
    Always,
}

/// Places in the backtraces of failed calls. Lines need other compiled code, which is larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BacktracePlaces {
    /// Functions.
    #[default]
    Functions,
    /// Functions, with file and line if the component has debug information.
    Lines,
}

/// Failure to make an engine.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The cache directory cannot be made or read.
    #[error("cache directory {}: {source}", dir.display())]
    CacheDir {
        /// The cache directory.
        dir: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Users other than its readers have access to the cache directory.
    #[error("cache directory {} has owner {owner} and mode {mode:o}; it must belong to user {expected_owner} with mode {expected_mode:o}", dir.display())]
    CacheDirShared {
        /// The cache directory.
        dir: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its mode.
        mode: u32,
        /// User to whom it must belong.
        expected_owner: u32,
        /// Mode that it must have.
        expected_mode: u32,
    },
    /// Other users can replace the cache directory.
    #[error(
        "cache directory {}: {} above it has owner {owner} and mode {mode:o}; it must belong to root or this user and be \
         writable by its owner alone, or sticky",
        dir.display(), parent.display()
    )]
    CacheDirExposed {
        /// The cache directory.
        dir: PathBuf,
        /// The parent directory that other users can change.
        parent: PathBuf,
        /// Owner of the parent.
        owner: u32,
        /// Its mode.
        mode: u32,
    },
    /// wasmtime refused the settings.
    #[error("WebAssembly engine cannot start: {reason}")]
    Refused {
        /// Reason of wasmtime.
        reason: String,
    },
    /// The thread that advances the epoch could not be started.
    #[error("thread that interrupts calls cannot start: {0}")]
    Ticker(io::Error),
}

/// Use of the cache of compiled code so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheUse {
    /// Components found in the cache.
    pub hits: usize,
    /// Components compiled.
    pub misses: usize,
}

/// Engine that compiles and runs components. Clones are cheap and share one engine.
#[derive(Clone)]
pub struct Engine {
    settings: Arc<EngineSettings>,
    cache: Option<Cache>,
    tick: Duration,
    requests: Arc<AtomicU64>,
    /// Instances started so far.
    started: Arc<AtomicU64>,
    usual: Runtime,
    /// Runtime that counts fuel, if the usual one does not. It is made for the first module with a
    /// fuel limit.
    counting: Arc<Mutex<Option<Runtime>>>,
    /// Places taken by the instances of all modules.
    places: Arc<Budget>,
    /// Places taken by the instances of tenants' modules.
    tenants_places: Arc<Budget>,
    retirement: Arc<Retirement>,
}

/// Engine for which components are compiled and in which they run. Counting fuel is a property of
/// the compiled code, so an [`Engine`] may need two.
#[derive(Clone)]
pub(crate) struct Runtime {
    inner: wasmtime::Engine,
    ticker: Ticker,
    components: Arc<Mutex<Components>>,
    pooled: u32,
}

/// Components compiled and in use, so that a component of many modules and jobs is in memory once.
type Components = BTreeMap<Digest, Weak<Component>>;

impl Engine {
    /// Makes an engine. If the address space is limited (`ulimit -v`), the pool is smaller or
    /// absent, and a warning is logged.
    pub fn new(settings: &EngineSettings) -> Result<Engine, EngineError> {
        let open = |dir: &PathBuf| {
            let dir = match settings.cache_owner {
                None => own_dir(dir, CodeReaders::Owner),
                Some(owner) => checked_dir(dir, owner, CodeReaders::Group),
            };
            open_cache(dir?)
        };
        let cache = settings.cache_dir.as_ref().map(open).transpose()?;
        // A tick of zero would make the ticker spin.
        let tick = settings.tick.max(MIN_TICK);
        let usual = Runtime::new(settings, settings.fuel, cache.clone(), tick)?;
        // A smaller pool leaves fewer places. An exhausted pool would fail without naming a limit,
        // and idle instances are evicted only for a failure that names one.
        let most = if usual.pooled > 0 {
            usual.pooled
        } else {
            settings.max_instances
        };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(Engine {
            settings: Arc::new(settings.clone()),
            cache,
            tick,
            requests: Arc::new(AtomicU64::new(settings.numbers_after.saturating_add(1))),
            started: Arc::new(AtomicU64::new(settings.numbers_after)),
            usual,
            counting: Arc::default(),
            places: Arc::new(Budget::new(LimitKind::Instances, most)),
            tenants_places: Arc::new(Budget::new(
                LimitKind::TenantsInstances,
                most - reserve(most),
            )),
            retirement: Arc::default(),
        })
    }

    /// Stops the instances of a removed module on a thread of their own, if they were used and
    /// export `lifecycle`.
    pub(crate) fn retire(&self, instances: impl Iterator<Item = Box<Instance>>) {
        instances
            // The others are dropped here: dropping a store runs no guest code.
            .filter(|instance| instance.wants_to_stop())
            .for_each(|instance| self.retirement.retire(instance));
    }

    /// Returns the number of pooled instances: fewer than configured if the address space is
    /// limited, 0 without a pool.
    pub fn pooled(&self) -> u32 {
        self.usual.pooled
    }

    /// Returns the places that the instances of all modules take now, counted as in
    /// `max_instances`.
    pub fn instances(&self) -> usize {
        self.places.used()
    }

    /// Takes the places of one more instance. An instance takes as many as its share of the pool,
    /// so that the places run out before any part of the pool does. Without a pool this is the only
    /// limit.
    pub(crate) fn take_places(
        &self,
        places: usize,
        is_of_tenant: bool,
    ) -> Result<Vec<InstanceSlot>, BudgetExceeded> {
        // Ask the tenants' budget first, so that the failure of a tenant names the limit that
        // tenants share. If the second budget refuses, dropping the first slot gives its places
        // back.
        let tenants = is_of_tenant.then_some(&self.tenants_places);
        tenants
            .into_iter()
            .chain([&self.places])
            .map(|budget| InstanceSlot::of(budget, places))
            .collect()
    }

    /// Returns the runtime for a module with these limits.
    pub(crate) fn runtime(&self, limits: &ModuleLimits) -> Result<Runtime, EngineError> {
        if limits.fuel.is_none() || self.usual.counts_fuel() {
            return Ok(self.usual.clone());
        }
        // Hold the lock until the runtime exists: a second one would reserve the address space of a
        // whole pool again.
        let mut counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*counting {
            return Ok(runtime.clone());
        }
        let runtime = Runtime::new(
            &self.settings,
            FuelCount::Always,
            self.cache.clone(),
            self.tick,
        )?;
        Ok(counting.insert(runtime).clone())
    }

    /// Returns the kind of code that a module with these limits needs.
    pub fn code_target(&self, limits: &ModuleLimits) -> Result<CodeTarget, EngineError> {
        let runtime = self.runtime(limits)?;
        let fuel = if runtime.counts_fuel() {
            FuelCount::Always
        } else {
            FuelCount::WhereLimited
        };
        let layout = if runtime.pooled > 0 {
            MemoryLayout::Reserved
        } else {
            MemoryLayout::Frugal
        };
        Ok(CodeTarget { fuel, layout })
    }

    /// Returns the directory of compiled code, if there is one.
    pub fn cache_dir(&self) -> Option<&Path> {
        self.cache.as_ref().map(|cache| cache.directory().as_path())
    }

    /// Returns the use of the cache, or `None` without a cache.
    pub fn cache_use(&self) -> Option<CacheUse> {
        self.cache.as_ref().map(|cache| CacheUse {
            hits: cache.cache_hits(),
            misses: cache.cache_misses(),
        })
    }

    /// Returns the number of a new instance, from 1.
    pub(crate) fn number_instance(&self) -> u64 {
        self.started
            // A number only has to be unique, so no other memory is ordered by it.
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }

    /// Returns the counter of requests of all guests of this engine, from 1.
    pub(crate) fn requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.requests)
    }
}

impl Runtime {
    fn new(
        settings: &EngineSettings,
        fuel: FuelCount,
        cache: Option<Cache>,
        tick: Duration,
    ) -> Result<Runtime, EngineError> {
        let mut config = base_config(cache);
        config.consume_fuel(fuel == FuelCount::Always);
        if settings.backtraces == BacktracePlaces::Lines {
            config
                .generate_address_map(true)
                .wasm_backtrace_details(WasmBacktraceDetails::Enable);
        }
        let (inner, pooled) = build(&config, settings.max_instances)?;
        let ticker = start_ticker(inner.weak(), tick).map_err(EngineError::Ticker)?;
        Ok(Runtime {
            inner,
            ticker,
            components: Arc::default(),
            pooled,
        })
    }

    /// Returns the component of these bytes. It is compiled unless another module has it.
    pub(crate) fn component(
        &self,
        digest: Digest,
        bytes: &[u8],
    ) -> wasmtime::Result<Arc<Component>> {
        let components = || {
            self.components
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(component) = components().get(&digest).and_then(Weak::upgrade) {
            return Ok(component);
        }
        // Compile without the lock: two threads that compile the same component waste time of their
        // own, but delay no other.
        let component = Arc::new(Component::from_binary(&self.inner, bytes)?);
        let mut components = components();
        // Replaced versions of a component are never looked up again and would stay in the map.
        components.retain(|_, component| component.strong_count() > 0);
        components.insert(digest, Arc::downgrade(&component));
        Ok(component)
    }

    pub(crate) fn inner(&self) -> &wasmtime::Engine {
        &self.inner
    }

    pub(crate) fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    pub(crate) fn counts_fuel(&self) -> bool {
        self.inner.get_consume_fuel()
    }
}

/// Shortest interval between ticks.
const MIN_TICK: Duration = Duration::from_micros(100);

fn refused(error: wasmtime::Error) -> EngineError {
    EngineError::Refused {
        reason: format!("{error:#}"),
    }
}

/// Makes an engine with a pool of `most` instances, or of fewer that fit into the address space.
/// Returns the size of the pool, 0 without one.
fn build(config: &Config, most: u32) -> Result<(wasmtime::Engine, u32), EngineError> {
    let mut size = most;
    let error = loop {
        let mut pooled = config.clone();
        pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling(size)));
        match wasmtime::Engine::new(&pooled) {
            Ok(engine) if size == most => return Ok((engine, size)),
            Ok(engine) => {
                tracing::warn!(
                    most,
                    size,
                    hint = SCARCE,
                    "instance pool smaller than configured"
                );
                return Ok((engine, size));
            }
            Err(error) if size / 2 < SMALLEST_POOL => break error,
            // The pool reserves all of its address space at once, so a smaller one may fit. An
            // error with another cause appears again below, where no pool is made.
            Err(_) => size /= 2,
        }
    };
    tracing::warn!(
        reason = format!("{error:#}"),
        hint = SCARCE,
        "instances not pooled, starts are slower"
    );
    let mut scarce = config.clone();
    frugal(&mut scarce);
    Ok((wasmtime::Engine::new(&scarce).map_err(refused)?, 0))
}

/// Configures memories that reserve no address space ahead.
pub(crate) fn frugal(config: &mut Config) {
    config
        .memory_reservation(0)
        .memory_reservation_for_growth(FRUGAL_RESERVE)
        // Without guard pages the compiled code checks the bounds of each access, so frugal
        // memories are slower and need code of their own.
        .memory_guard_size(0);
}

/// Likely cause, for the trace.
const SCARCE: &str = "the address space may be limited (ulimit -v)";

/// Smallest pool that is tried, unless fewer instances are configured. One component of an
/// interpreted language takes tens of the pool's tables and core instances.
const SMALLEST_POOL: u32 = 16;

/// Address space that a memory reserves beyond its size if address space is scarce, in bytes.
const FRUGAL_RESERVE: u64 = 1024 * 1024;

/// Bound on the functions of a backtrace.
const MAX_FRAMES: usize = 16;

/// Returns the settings that all engines share. Guests observe the same on every machine and in
/// every replay: no threads, no NaN bits of the processor.
pub(crate) fn base_config(cache: Option<Cache>) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        // Guests are called synchronously. The structures for concurrent calls would be made for
        // each store.
        .concurrency_support(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(MAX_FRAMES))
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .shared_memory(false)
        .wasm_memory64(false)
        // Backtraces name functions without these, and all would enlarge the cached code.
        .generate_address_map(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .native_unwind_info(false)
        .cache(cache);
    config
}

/// Returns the number of places that an instance of a component takes.
pub(crate) fn places(component: &Component, inspection: &Inspection) -> usize {
    // The requirements are unknown only for a component that receives core modules, and inspection
    // refuses it.
    let (memories, tables) = component
        .resources_required()
        .map_or((MAX_MEMORIES, MAX_TABLES), |needs| {
            (needs.num_memories, needs.num_tables)
        });
    let places = (inspection.core_instances.div_ceil(CORE_INSTANCES_PER_PLACE))
        .max(memories.div_ceil(MEMORIES_PER_PLACE))
        .max(tables.div_ceil(TABLES_PER_PLACE));
    usize::try_from(places.max(1)).unwrap_or(usize::MAX)
}

/// Returns the number of places kept for the site's modules, so that they start however many
/// instances tenants have: a quarter, at least one.
fn reserve(most: usize) -> usize {
    most.div_ceil(4)
}

/// Returns a pool for components of interpreted languages (three memories, tens of tables with
/// thousands of elements). Slots reserve address space, not memory. The pool has twice the counted
/// core instances: where components within a component call each other, wasmtime adds at most one
/// core instance for each.
fn pooling(max_instances: u32) -> PoolingAllocationConfig {
    const MIB: usize = 1024 * 1024;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(max_instances)
        .total_core_instances(max_instances.saturating_mul(2 * CORE_INSTANCES_PER_PLACE))
        .total_memories(max_instances.saturating_mul(MEMORIES_PER_PLACE))
        .total_tables(max_instances.saturating_mul(TABLES_PER_PLACE))
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_memories_per_component(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_component_instance_size(8 * MIB)
        .max_core_instance_size(8 * MIB)
        .max_memories_per_module(4)
        .max_tables_per_module(8)
        .table_elements(50_000)
        // Below these sizes wasmtime clears a slot by writing zeros. Returning the pages to the
        // kernel would cost page faults when the slot is used again.
        .linear_memory_keep_resident(256 * 1024)
        .table_keep_resident(64 * 1024)
        // Used from Linux 6.7 on, where the kernel tells which pages were written.
        .pagemap_scan(Enabled::Auto);
    pool
}

/// Opens the cache. wasmtime keys its entries by the component's digest, its own version and its
/// settings.
pub(crate) fn open_cache(dir: PathBuf) -> Result<Cache, EngineError> {
    let mut config = CacheConfig::new();
    config.with_directory(dir);
    Cache::new(config).map_err(refused)
}

/// Starts the thread that advances the epoch.
fn start_ticker(engine: EngineWeak, tick: Duration) -> io::Result<Ticker> {
    Ticker::start(tick, move || {
        // The thread must not keep the engine alive.
        if let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
        }
    })
}
