//! The engine: one per process. It compiles components, keeps the compiled code on disk and ticks the clock by which
//! calls are cut off.
use crate::cache::private_dir;
use crate::compile::{CodeTarget, MemoryLayout};
use crate::instance::Instance;
use crate::limits::{
    CORE_INSTANCES_PER_PLACE, MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES, MEMORIES_PER_PLACE,
    TABLES_PER_PLACE,
};
use crate::memory_limiter::{Budget, BudgetExceeded, InstanceSlot};
use crate::retire::Retirement;
use crate::{Digest, Inspection, LimitKind, ModuleLimits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{io, thread};
use thiserror::Error;
use wasmtime::component::Component;
use wasmtime::{
    Cache, CacheConfig, Config, Enabled, EngineWeak, InstanceAllocationStrategy,
    PoolingAllocationConfig,
};

/// How the engine is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Where compiled code is kept, so that a module that was seen before starts at once; none keeps nothing. Whoever can
    /// write there can run code in this process: it is made for this user alone, and one that others can reach is refused,
    /// as is one that they could put another in the place of.
    pub cache_dir: Option<PathBuf>,
    /// The most instances of all modules together that exist at once. Those of large components count as several, and the modules
    /// of tenants have three quarters of it at most.
    pub max_instances: u32,
    /// For which modules fuel is counted.
    pub fuel: FuelCount,
    /// How often running calls are checked against their time. A call is cut off at most two ticks late.
    pub tick: Duration,
}

impl Default for EngineSettings {
    /// No cache, 1000 instances, no fuel counted in vain, 5 ms.
    fn default() -> EngineSettings {
        let fuel = FuelCount::default();
        EngineSettings {
            cache_dir: None,
            max_instances: 1000,
            fuel,
            tick: Duration::from_millis(5),
        }
    }
}

/// For which modules fuel is counted. It slows guests down, and what is compiled for it is another code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuelCount {
    /// For those that have a limit of it.
    #[default]
    WhereLimited,
    /// For all.
    Always,
}

/// Why an engine could not be made.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The cache directory cannot be made or read.
    #[error("cache directory {}: {source}", dir.display())]
    CacheDir {
        /// Which directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The cache directory is not this user's alone.
    #[error("cache directory {} has owner {owner} and mode {mode:o}; it must be this user's own with mode 700", dir.display())]
    CacheDirShared {
        /// Which directory.
        dir: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// Others can put another directory in the place of the cache directory.
    #[error(
        "cache directory {}: {} above it has owner {owner} and mode {mode:o}; it must belong to root or this user and be \
         writable by its owner alone, or sticky",
        dir.display(), above.display()
    )]
    CacheDirExposed {
        /// Which directory.
        dir: PathBuf,
        /// The one above it that others can change.
        above: PathBuf,
        /// The owner of that.
        owner: u32,
        /// Its permissions.
        mode: u32,
    },
    /// The engine refused its settings.
    #[error("the WebAssembly engine cannot start: {reason}")]
    Refused {
        /// What it said.
        reason: String,
    },
    /// The ticking thread could not be started.
    #[error("the thread that limits calls cannot start: {0}")]
    Ticker(io::Error),
}

/// What the cache of compiled code was good for so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheUse {
    /// How many components were found in it.
    pub hits: usize,
    /// How many had to be compiled.
    pub misses: usize,
}

/// Compiles and runs components. Cheap to clone; all clones are one engine.
#[derive(Clone)]
pub struct Engine {
    settings: Arc<EngineSettings>,
    cache: Option<Cache>,
    tick: Duration,
    requests: Arc<AtomicU64>,
    /// How many instances there were so far.
    started: Arc<AtomicU64>,
    usual: Runtime,
    /// The one that counts fuel, where the usual one does not: made for the first module that has a limit of it.
    counting: Arc<Mutex<Option<Runtime>>>,
    /// The places that instances take: of all modules, and of those that tenants have.
    places: Arc<Budget>,
    tenants_places: Arc<Budget>,
    retirement: Arc<Retirement>,
}

/// What components are compiled for and run in: whether fuel is counted is a matter of the code.
#[derive(Clone)]
pub(crate) struct Runtime {
    inner: wasmtime::Engine,
    components: Arc<Mutex<Components>>,
    pooled: u32,
}

/// What is compiled and in use, so that a component which many modules and jobs bring is in memory once.
type Components = BTreeMap<Digest, Weak<Component>>;

impl Engine {
    /// An engine of these settings. Where the address space is capped (`ulimit -v`) it has a smaller pool, or does without
    /// pre-reserved memory, and says so.
    pub fn new(settings: &EngineSettings) -> Result<Engine, EngineError> {
        let cache = settings.cache_dir.as_deref().map(open_cache).transpose()?;
        let tick = settings.tick.max(MIN_TICK);
        let usual = Runtime::new(settings.max_instances, settings.fuel, cache.clone(), tick)?;
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
            requests: Arc::new(AtomicU64::new(1)),
            started: Arc::default(),
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

    /// Has instances of a module that is gone told so, if they want to know and were ever used.
    pub(crate) fn retire(&self, instances: impl Iterator<Item = Box<Instance>>) {
        instances
            .filter(|instance| instance.wants_to_stop())
            .for_each(|instance| self.retirement.retire(instance));
    }

    /// How many instances are pooled: fewer than were asked for where the address space is capped, and none where there is
    /// no pool.
    pub fn pooled(&self) -> u32 {
        self.usual.pooled
    }

    /// How many instances of all modules there are now, as they count for the most there may be.
    pub fn instances(&self) -> usize {
        self.places.used()
    }

    /// Room for one more instance that takes so many places. An instance takes as many as it needs of the pool, so that this is
    /// used up before anything of the pool is; without a pool this is the only limit.
    pub(crate) fn room(
        &self,
        places: usize,
        is_of_tenant: bool,
    ) -> Result<Vec<InstanceSlot>, BudgetExceeded> {
        let tenants = is_of_tenant.then_some(&self.tenants_places);
        tenants
            .into_iter()
            .chain([&self.places])
            .map(|budget| InstanceSlot::of(budget, places))
            .collect()
    }

    /// What a module of these limits runs in.
    pub(crate) fn runtime(&self, limits: &ModuleLimits) -> Result<Runtime, EngineError> {
        if limits.fuel.is_none() || self.usual.counts_fuel() {
            return Ok(self.usual.clone());
        }
        let mut counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*counting {
            return Ok(runtime.clone());
        }
        let runtime = Runtime::new(
            self.settings.max_instances,
            FuelCount::Always,
            self.cache.clone(),
            self.tick,
        )?;
        Ok(counting.insert(runtime).clone())
    }

    /// The kind of code that a module of these limits runs as.
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

    /// The directory of compiled code, if there is one.
    pub fn cache_dir(&self) -> Option<&Path> {
        self.cache.as_ref().map(|cache| cache.directory().as_path())
    }

    /// How the cache did; none where there is none.
    pub fn cache_use(&self) -> Option<CacheUse> {
        self.cache.as_ref().map(|cache| CacheUse {
            hits: cache.cache_hits(),
            misses: cache.cache_misses(),
        })
    }

    /// The number of one more instance, from 1.
    pub(crate) fn number_instance(&self) -> u64 {
        self.started
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }

    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }

    /// Numbers the requests of all guests of this engine, from 1.
    pub(crate) fn requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.requests)
    }
}

impl Runtime {
    fn new(
        most: u32,
        fuel: FuelCount,
        cache: Option<Cache>,
        tick: Duration,
    ) -> Result<Runtime, EngineError> {
        let mut config = base_config(cache);
        config.consume_fuel(fuel == FuelCount::Always);
        let (inner, pooled) = build(&config, most)?;
        start_ticker(inner.weak(), tick).map_err(EngineError::Ticker)?;
        Ok(Runtime {
            inner,
            components: Arc::default(),
            pooled,
        })
    }

    /// The component of these bytes, compiled unless some module has it already.
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
        // Without the lock: two who compile the same at once lose time, not others'.
        let component = Arc::new(Component::from_binary(&self.inner, bytes)?);
        let mut components = components();
        components.retain(|_, component| component.strong_count() > 0);
        components.insert(digest, Arc::downgrade(&component));
        Ok(component)
    }

    pub(crate) fn inner(&self) -> &wasmtime::Engine {
        &self.inner
    }

    pub(crate) fn counts_fuel(&self) -> bool {
        self.inner.get_consume_fuel()
    }
}

const MIN_TICK: Duration = Duration::from_micros(100);

fn refused(error: wasmtime::Error) -> EngineError {
    EngineError::Refused {
        reason: format!("{error:#}"),
    }
}

/// With instances pooled: as many as there may be, or so many that the address space has room for them. How many these are.
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
                    "there can be fewer instances than configured: {SCARCE}"
                );
                return Ok((engine, size));
            }
            Err(error) if size / 2 < SMALLEST_POOL => break error,
            Err(_) => size /= 2,
        }
    };
    tracing::warn!(
        reason = format!("{error:#}"),
        "instances are not pooled and start more slowly: {SCARCE}"
    );
    let mut scarce = config.clone();
    frugal(&mut scarce);
    Ok((wasmtime::Engine::new(&scarce).map_err(refused)?, 0))
}

/// Has memories take no address space ahead.
pub(crate) fn frugal(config: &mut Config) {
    config
        .memory_reservation(0)
        .memory_reservation_for_growth(FRUGAL_RESERVE)
        .memory_guard_size(0);
}

const SCARCE: &str = "is the address space limited (ulimit -v)?";

/// The smallest pool that is tried, unless a smaller one is asked for: one component of an interpreted language takes tens of
/// its tables and core instances.
const SMALLEST_POOL: u32 = 16;

/// How much address space a memory takes beyond its size where address space is scarce.
const FRUGAL_RESERVE: u64 = 1024 * 1024;

/// The most functions of a backtrace.
const MAX_FRAMES: usize = 16;

/// What guests can observe is the same on every machine and in every replay: no threads, no NaN bits of the processor.
pub(crate) fn base_config(cache: Option<Cache>) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(MAX_FRAMES))
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .shared_memory(false)
        .wasm_memory64(false)
        // Neither is needed to name the functions of a backtrace, and both make what is read from the cache larger.
        .generate_address_map(false)
        .native_unwind_info(false)
        .cache(cache);
    config
}

/// How many places an instance of a component takes.
pub(crate) fn places(component: &Component, inspection: &Inspection) -> usize {
    // Only of a component that core modules are handed to it is not known, and such a one is refused.
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

/// How many places are the site's alone, so that its modules start again whatever the others do: a quarter, at least one.
fn reserve(most: usize) -> usize {
    most.div_ceil(4)
}

/// Room for components of interpreted languages (three memories, tens of tables with thousands of elements). Slots reserve
/// address space, not memory. Of core instances there may be twice as many as are counted: where components in a component call
/// each other, the engine puts at most one more before each.
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
        .linear_memory_keep_resident(256 * 1024)
        .table_keep_resident(64 * 1024)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// wasmtime itself keys what it keeps by the component's digest, its own version and its settings.
pub(crate) fn open_cache(dir: &Path) -> Result<Cache, EngineError> {
    let mut config = CacheConfig::new();
    config.with_directory(private_dir(dir)?);
    Cache::new(config).map_err(refused)
}

/// Ticks until the engine is gone. A tick that comes late is not made up for.
fn start_ticker(engine: EngineWeak, tick: Duration) -> io::Result<()> {
    let ticking = move || {
        loop {
            thread::sleep(tick);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    };
    thread::Builder::new()
        .name("peal-epoch".into())
        .spawn(ticking)
        .map(drop)
}
