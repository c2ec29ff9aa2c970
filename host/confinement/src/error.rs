//! Errors of the confinement.
use std::io;
use thiserror::Error;

/// Failure to confine the process. A measure that an older kernel lacks is not an error.
#[derive(Debug, Error)]
pub enum ConfinementError {
    /// The process has other threads, which would not be confined.
    #[error("a process can only be confined while it has one thread; this one has {threads}")]
    Late {
        /// Number of threads.
        threads: usize,
    },
    /// The threads cannot be counted.
    #[error("cannot count the threads of this process in /proc/self/task: {0}")]
    Threads(#[source] io::Error),
    /// The thread that tests the confinement cannot be started, or did not end well.
    #[error("cannot test the confinement on a thread: {0}")]
    Probe(#[source] io::Error),
    /// Landlock failed although the kernel has it.
    #[error("landlock: {0}")]
    Files(#[from] landlock::RulesetError),
    /// The capabilities cannot be dropped.
    #[error("cannot drop capabilities: {0}")]
    Capabilities(#[from] rustix::io::Errno),
    /// seccomp failed although the kernel has it.
    #[error("seccomp: {0}")]
    Calls(#[from] seccompiler::Error),
}
