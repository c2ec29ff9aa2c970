//! Compilation of user modules outside of the server.
use peal_config::Config;
use peal_sandbox::CodeTarget;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Compiles components in separate processes, at a low priority and within limits.
pub trait ComponentCompiler: Send + Sync {
    /// Compiles a component into a directory of compiled code. Blocks until it is there or has
    /// failed.
    fn compile(
        &self,
        target: CodeTarget,
        place: CodePlace,
        component: &[u8],
    ) -> Result<(), CompileFailure>;
}

/// Directory of compiled code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CodePlace {
    /// Directory of the server.
    Server,
    /// Directory of the process that runs the modules of a user.
    User(u32),
}

/// Limits of the compilation of one component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompileLimits {
    /// Maximum time.
    pub timeout: Duration,
    /// Maximum memory in bytes.
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
    /// The component could not be compiled, or its code could not be stored.
    #[error("{0}")]
    Refused(String),
    /// The process was killed at the timeout.
    #[error("compilation took longer than {0:?} (deploy.compile_timeout_ms)")]
    TimedOut(Duration),
    /// The process ended by itself, perhaps for lack of memory.
    #[error(
        "compilation ended with {status}; {memory} bytes of memory are allowed (deploy.max_compile_memory_bytes)"
    )]
    Died {
        /// The exit status as text.
        status: String,
        /// The memory limit in bytes.
        memory: u64,
    },
    /// No compiler process is available. The component is not at fault.
    #[error("components of users cannot be compiled: {0}")]
    Unavailable(String),
}

/// Returns the error for a server without a cache of compiled code.
pub(crate) fn no_cache() -> CompileFailure {
    CompileFailure::Unavailable("compiled code is not kept; set sandbox.cache_dir".to_owned())
}
