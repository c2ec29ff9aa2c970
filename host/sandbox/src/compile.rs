//! Compilation in another process: the code goes into the cache of compiled code, where an engine finds it.
use crate::engine::{base_config, frugal, open_cache};
use crate::{EngineError, FuelCount};
use serde::{Deserialize, Serialize};
use std::path::Path;
use thiserror::Error;
use wasmtime::component::Component;

/// The kind of code that an engine loads: code of another kind is not found in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CodeTarget {
    /// The counting of fuel: always, or not at all.
    pub fuel: FuelCount,
    /// Address space of memories.
    pub layout: MemoryLayout,
}

/// Address space that the memories of instances have, which the code relies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLayout {
    /// Address space is reserved ahead.
    Reserved,
    /// Address space is taken as it is needed, since it is scarce.
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

/// Compiles a component on this thread alone, unless its code is in the cache already, and puts the code there.
pub fn compile(cache_dir: &Path, target: CodeTarget, component: &[u8]) -> Result<(), CompileError> {
    let cache = open_cache(cache_dir)?;
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
    // Code that could not be written is counted as neither.
    match cache.cache_hits() + cache.cache_misses() {
        0 => Err(CompileError::NotKept(cache_dir.display().to_string())),
        _ => Ok(()),
    }
}
