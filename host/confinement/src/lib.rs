//! Confinement of a server's process, which limits what it can reach if the sandbox of components
//! or the server itself is broken.
//!
//! The kernel enforces it. Landlock confines the files that the process can read, write and run,
//! and the TCP ports to which it can connect. seccomp refuses system calls that a server never
//! makes. Neither can be undone, and both apply to everything that the process starts.
mod calls;
mod error;
mod files;

pub use error::ConfinementError;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Files and ports that a process needs. Other files can be neither read nor written, no program
/// can be run, and no other TCP connection can be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confinement {
    /// Files and directories, with all below them, that the process reads.
    pub read: BTreeSet<PathBuf>,
    /// Files and directories that the process reads and changes.
    pub write: BTreeSet<PathBuf>,
    /// Directories below which the process finds files and directories and removes them.
    pub remove: BTreeSet<PathBuf>,
    /// TCP ports to which the process connects, on any machine.
    pub connect: BTreeSet<u16>,
}

/// Part of a measure that the kernel enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnforcementLevel {
    /// The whole measure.
    Full,
    /// The part that an older kernel has.
    Partial,
    /// No part.
    Missing,
}

/// A confinement that is in force.
#[derive(Clone, Debug)]
pub struct ActiveConfinement {
    /// Enforcement for files and connections.
    pub files: EnforcementLevel,
    /// Enforcement for system calls.
    pub calls: EnforcementLevel,
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
}

impl Confinement {
    /// Confines this process, which must have only one thread: others would not be confined. Paths
    /// that do not exist are left out and cannot be reached if they are created later.
    pub fn enforce(self) -> Result<ActiveConfinement, ConfinementError> {
        check_single_thread()?;
        let Confinement {
            read,
            write,
            remove,
            connect,
        } = self;
        // `is_below` compares canonical paths, so the roots have to be canonical as well.
        let read: BTreeSet<PathBuf> = read
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        let write: BTreeSet<PathBuf> = write
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        let files = files::confine((&read, &write, &remove), &connect)?;
        Ok(ActiveConfinement {
            files,
            calls: calls::refuse()?,
            read,
            write,
        })
    }
}

impl ActiveConfinement {
    /// Returns true if a path, existing or not, can be read.
    pub fn can_read(&self, path: &Path) -> bool {
        self.can_write(path)
            || self.files == EnforcementLevel::Missing
            || is_below(path, &self.read)
    }

    /// Returns true if a path can be changed.
    pub fn can_write(&self, path: &Path) -> bool {
        self.files == EnforcementLevel::Missing || is_below(path, &self.write)
    }
}

/// Makes the kernel refuse the system calls that no server makes. The process must have only one
/// thread. Files and other processes stay accessible, because the kernel lets no process with
/// confined files inspect other processes.
pub fn refuse_calls() -> Result<EnforcementLevel, ConfinementError> {
    check_single_thread()?;
    calls::refuse()
}

/// Returns an error if the process has another thread, which would not be confined.
fn check_single_thread() -> Result<(), ConfinementError> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(ConfinementError::Threads)?
        .count();
    if threads == 1 {
        Ok(())
    } else {
        Err(ConfinementError::Late { threads })
    }
}

/// Returns true if the canonical path is one of the roots or below one. For a path that does not
/// exist, the nearest existing directory counts.
fn is_below(path: &Path, roots: &BTreeSet<PathBuf>) -> bool {
    let real = path.ancestors().find_map(|above| above.canonicalize().ok());
    real.is_some_and(|real| real.ancestors().any(|above| roots.contains(above)))
}
