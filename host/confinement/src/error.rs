//! Why a wall cannot be raised.
use std::io;
use thiserror::Error;

/// Why a wall cannot be raised. What an older kernel does not know is no error.
#[derive(Debug, Error)]
pub enum WallError {
    /// There are other threads, which it would not hold for.
    #[error("a wall has to be raised while a process has one thread; it has {threads}")]
    Late {
        /// How many there are.
        threads: usize,
    },
    /// Nobody knows how many threads there are.
    #[error("cannot count the threads of this process in /proc/self/task: {0}")]
    Threads(#[source] io::Error),
    /// The kernel does not confine files, though it has what it takes.
    #[error("landlock: {0}")]
    Files(#[from] landlock::RulesetError),
    /// The kernel does not refuse system calls, though it has what it takes.
    #[error("seccomp: {0}")]
    Calls(#[from] seccompiler::Error),
}
