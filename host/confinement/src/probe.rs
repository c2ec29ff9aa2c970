//! Test of what the kernel enforces of a confinement, on a thread that ends afterwards.
use crate::{
    Confinement, ConfinementError, EnforcementLevel, ProcessRole, RefusedCalls, calls, files,
};
use std::{io, thread};

/// Enforcement by the running kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelSupport {
    /// Enforcement for files and connections (Landlock).
    pub files: EnforcementLevel,
    /// Enforcement for system calls (seccomp).
    pub calls: EnforcementLevel,
}

impl KernelSupport {
    /// Confines a new thread as a server, and returns what the kernel enforced. This process stays as it
    /// is.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be started, or if the kernel refuses a part that it has.
    pub fn probe() -> Result<KernelSupport, ConfinementError> {
        let confined = || {
            let files = files::confine(&Confinement::of(ProcessRole::Server))?;
            // Calls that end a thread are never refused here: the filter only logs.
            let calls = calls::allow_only(ProcessRole::Server, RefusedCalls::Log)?;
            Ok(KernelSupport { files, calls })
        };
        let thread = thread::Builder::new().spawn(confined);
        let ended = thread.map_err(ConfinementError::Probe)?.join();
        ended.unwrap_or_else(|_| {
            let ended = io::Error::other("the confined thread panicked");
            Err(ConfinementError::Probe(ended))
        })
    }
}
