//! Compilation of what users installed, outside of the server.
use peal_config::Config;
use peal_sandbox::CodeTarget;
use std::time::Duration;
use thiserror::Error;

/// Compiles components in processes of their own, at a low priority and within limits.
pub trait ComponentCompiler: Send + Sync {
    /// Has the code of a component in the cache of compiled code. Blocks until it is there, or cannot be.
    fn compile(&self, target: CodeTarget, component: &[u8]) -> Result<(), CompileFailure>;
}

/// Limits of the compilation of one component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompileLimits {
    /// Longest time.
    pub timeout: Duration,
    /// Most memory, in bytes.
    pub memory: u64,
}

impl From<&Config> for CompileLimits {
    fn from(config: &Config) -> CompileLimits {
        CompileLimits {
            timeout: config.deploy.compile_timeout,
            memory: config.deploy.max_compile_memory,
        }
    }
}

/// Failure of a compilation in another process.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CompileFailure {
    /// The component cannot be compiled, or its code not be kept.
    #[error("{0}")]
    Refused(String),
    /// The process was killed at the time-out.
    #[error("compilation took longer than {0:?} (deploy.compile_timeout_ms)")]
    TimedOut(Duration),
    /// The process ended by itself, perhaps for lack of memory.
    #[error(
        "compilation ended with {status}; {memory} bytes of memory are allowed (deploy.max_compile_memory_bytes)"
    )]
    Died {
        /// Its exit status, as the system words it.
        status: String,
        /// Its limit of memory, in bytes.
        memory: u64,
    },
    /// There is no process that compiles. The component is not to blame.
    #[error("components of users cannot be compiled: {0}")]
    Unavailable(String),
}

/// The mistake where compiled code is not kept.
pub(crate) fn no_cache() -> CompileFailure {
    CompileFailure::Unavailable("compiled code is not kept; set sandbox.cache_dir".to_owned())
}
