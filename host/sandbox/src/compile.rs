//! Compilation in another process. The result goes into the cache of compiled code, where an engine
//! finds it.
use crate::cache::{CodeReaders, own_dir};
use crate::engine::{base_config, frugal, open_cache};
use crate::{EngineError, FuelCount};
use serde::{Deserialize, Serialize};
use std::path::Path;
use thiserror::Error;
use wasmtime::component::Component;

/// Kind of code that an engine loads. The cache does not find code of another kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CodeTarget {
    /// Modules for which fuel is counted.
    pub fuel: FuelCount,
    /// Address space of the memories.
    pub layout: MemoryLayout,
}

/// Address space of the memories of instances. The compiled code depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLayout {
    /// Address space is reserved ahead.
    Reserved,
    /// Address space is reserved on demand because it is scarce.
    Frugal,
}

/// Failure of a compilation.
#[derive(Debug, Error)]
pub enum CompileError {
    /// The cache or the engine cannot be used.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The component is invalid.
    #[error("component cannot be compiled: {0}")]
    Component(String),
    /// The code could not be written.
    #[error("the compiled code cannot be written to {0}")]
    NotKept(String),
}

/// Compiles a component on the calling thread and stores the code in the cache, unless the cache
/// has it.
pub fn compile(
    cache_dir: &Path,
    readers: CodeReaders,
    target: CodeTarget,
    component: &[u8],
) -> Result<(), CompileError> {
    let cache = open_cache(own_dir(cache_dir, readers)?)?;
    // No pool: nothing is instantiated here, and the key of the cache does not depend on the pool.
    let mut config = base_config(Some(cache.clone()));
    config
        .consume_fuel(target.fuel == FuelCount::Always)
        .parallel_compilation(false);
    if target.layout == MemoryLayout::Frugal {
        frugal(&mut config);
    }
    let engine = wasmtime::Engine::new(&config).map_err(|error| EngineError::Refused {
        reason: format!("{error:#}"),
    })?;
    Component::from_binary(&engine, component)
        .map_err(|error| CompileError::Component(format!("{error:#}")))?;
    // The cache counts a hit or a miss only if the code is in it afterwards.
    match cache.cache_hits() + cache.cache_misses() {
        0 => Err(CompileError::NotKept(cache_dir.display().to_string())),
        _ => Ok(()),
    }
}
