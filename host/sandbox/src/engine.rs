//! The engine: one per process. It compiles components, keeps the compiled code on disk and ticks the clock by which
//! calls are cut off.
use crate::Digest;
use crate::cache::private_dir;
use crate::instance::Instance;
use crate::limits::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_TABLES};
use crate::retire::Retirement;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use std::{io, thread};
use thiserror::Error;
use wasmtime::component::Component;
use wasmtime::{Cache, CacheConfig, Config, Enabled, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How the engine is set up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSettings {
    /// Where compiled code is kept, so that a module that was seen before starts at once; none keeps nothing. Whoever can
    /// write there can run code in this process: it is made for this user alone, and one that others can reach is refused,
    /// as is one that they could put another in the place of.
    pub cache_dir: Option<PathBuf>,
    /// The most instances of all modules together that exist at once.
    pub max_instances: u32,
    /// How often running calls are checked against their time. A call is cut off at most two ticks late.
    pub tick: Duration,
    /// Whether instructions are counted.
    pub fuel: Fuel,
}

/// Whether an engine counts the instructions of guests, which makes them slower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fuel {
    /// It does not.
    Ignored,
    /// It does, and tells the [`crate::Stage`] of a module.
    Counted,
}

impl Default for EngineSettings {
    /// No cache, 1000 instances, 5 ms, nothing counted.
    fn default() -> EngineSettings {
        EngineSettings { cache_dir: None, max_instances: 1000, tick: Duration::from_millis(5), fuel: Fuel::Ignored }
    }
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
    inner: wasmtime::Engine,
    cache: Option<Cache>,
    tick: Duration,
    requests: Arc<AtomicU64>,
    components: Arc<Mutex<Components>>,
    max_instances: u32,
    instances: Arc<AtomicU32>,
    retirement: Arc<Retirement>,
}

/// What is compiled and in use, so that a component which many modules and jobs bring is in memory once.
type Components = BTreeMap<Digest, Weak<Component>>;

/// The room of one instance, free again when this is dropped.
pub(crate) struct Room(Arc<AtomicU32>);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Engine {
    /// An engine of these settings. Where the address space is capped (`ulimit -v`) it does without pre-reserved memory
    /// and says so.
    pub fn new(settings: &EngineSettings) -> Result<Engine, EngineError> {
        let cache = settings.cache_dir.as_deref().map(open_cache).transpose()?;
        let tick = settings.tick.max(MIN_TICK);
        let inner = build(settings, cache.clone())?;
        start_ticker(inner.weak(), tick).map_err(EngineError::Ticker)?;
        Ok(Engine {
            inner,
            cache,
            tick,
            requests: Arc::new(AtomicU64::new(1)),
            components: Arc::default(),
            max_instances: settings.max_instances,
            instances: Arc::default(),
            retirement: Arc::default(),
        })
    }

    /// Has instances of a module that is gone told so, if they want to know and were ever used.
    pub(crate) fn retire(&self, instances: impl Iterator<Item = Box<Instance>>) {
        instances.filter(|instance| instance.wants_to_stop()).for_each(|instance| self.retirement.retire(instance));
    }

    /// Room for one more instance, or how many there may be. The pool has a limit as well; without a pool this is the only one.
    pub(crate) fn room(&self) -> Result<Room, u32> {
        let one_more = |count: u32| (count < self.max_instances).then(|| count.saturating_add(1));
        match self.instances.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Ok(Room(Arc::clone(&self.instances))),
            Err(_) => Err(self.max_instances),
        }
    }

    /// The component of these bytes, compiled unless some module has it already.
    pub(crate) fn component(&self, digest: Digest, bytes: &[u8]) -> wasmtime::Result<Arc<Component>> {
        let components = || self.components.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// How the cache did; none where there is none.
    pub fn cache_use(&self) -> Option<CacheUse> {
        self.cache.as_ref().map(|cache| CacheUse { hits: cache.cache_hits(), misses: cache.cache_misses() })
    }

    pub(crate) fn inner(&self) -> &wasmtime::Engine {
        &self.inner
    }

    pub(crate) fn tick(&self) -> Duration {
        self.tick
    }

    /// Numbers the requests of all guests of this engine, from 1.
    pub(crate) fn requests(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.requests)
    }
}

const MIN_TICK: Duration = Duration::from_micros(100);

fn refused(error: wasmtime::Error) -> EngineError {
    EngineError::Refused { reason: format!("{error:#}") }
}

/// With instances pooled, or without where the pool's address space is not to be had.
fn build(settings: &EngineSettings, cache: Option<Cache>) -> Result<wasmtime::Engine, EngineError> {
    let mut pooled = base_config(settings.fuel, cache.clone());
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pooling(settings.max_instances)));
    let error = match wasmtime::Engine::new(&pooled) {
        Ok(engine) => return Ok(engine),
        Err(error) => error,
    };
    tracing::warn!(
        reason = format!("{error:#}"),
        "instances are not pooled and start more slowly: is the address space limited (ulimit -v)?"
    );
    let mut frugal = base_config(settings.fuel, cache);
    frugal.memory_reservation(0).memory_reservation_for_growth(FRUGAL_RESERVE).memory_guard_size(0);
    wasmtime::Engine::new(&frugal).map_err(refused)
}

/// How much address space a memory takes beyond its size where address space is scarce.
const FRUGAL_RESERVE: u64 = 1024 * 1024;

/// The most functions of a backtrace.
const MAX_FRAMES: usize = 16;

/// What guests can observe is the same on every machine and in every replay: no threads, no NaN bits of the processor.
fn base_config(fuel: Fuel, cache: Option<Cache>) -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(fuel == Fuel::Counted)
        .concurrency_support(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(MAX_FRAMES))
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .shared_memory(false)
        .wasm_memory64(false)
        .cache(cache);
    config
}

/// Room for components of interpreted languages (three memories, tens of tables with thousands of elements). Slots reserve
/// address space, not memory.
fn pooling(max_instances: u32) -> PoolingAllocationConfig {
    const MIB: usize = 1024 * 1024;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(max_instances)
        .total_core_instances(max_instances.saturating_mul(8))
        .total_memories(max_instances.saturating_mul(2))
        .total_tables(max_instances.saturating_mul(4))
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
fn open_cache(dir: &Path) -> Result<Cache, EngineError> {
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
    thread::Builder::new().name("peal-epoch".into()).spawn(ticking).map(drop)
}
