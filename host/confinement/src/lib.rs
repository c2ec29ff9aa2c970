//! Confinement of the processes of a server, which limits what each can reach if the sandbox of
//! components or the process itself is broken.
//!
//! The kernel enforces it, and a process cannot undo it. It applies to everything that the process
//! starts. Each [`ProcessRole`] begins with nothing and gets what it needs:
//!
//! - Landlock: files that the process can read, write and run, TCP ports to which it can connect,
//!   processes that it can signal. Abstract Unix sockets of other programs are out of reach.
//! - seccomp: system calls, in [groups](CallGroup).
//! - Capabilities: all others are dropped for good.
mod calls;
mod capabilities;
mod error;
mod files;
mod groups;
mod probe;
mod program;
mod roles;
mod threads;

pub use error::ConfinementError;
pub use groups::CallGroup;
pub use probe::KernelSupport;
pub use program::OwnProgram;
pub use roles::{FileScope, ProcessRole, RoleAccess, SignalScope};

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Role of a process, with the files and ports that it needs. Other files can be neither read nor
/// written, no other program can be run, and no other TCP connection can be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confinement {
    /// Role of the process.
    pub role: ProcessRole,
    /// Treatment of system calls that the role does not have.
    pub refused: RefusedCalls,
    /// Files and directories, with all below them, that the process reads.
    pub read: BTreeSet<PathBuf>,
    /// Files and directories that the process reads and changes.
    pub write: BTreeSet<PathBuf>,
    /// Files, and directories with all below them, that the process reads and executes.
    pub execute: BTreeSet<PathBuf>,
    /// TCP ports to which the process connects, on any machine.
    pub connect: BTreeSet<u16>,
}

/// Treatment of system calls that a role does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedCalls {
    /// They fail.
    Fail,
    /// They are made, and the kernel logs them.
    Log,
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
    /// Returns the confinement of a role that reaches no files and ports.
    pub fn of(role: ProcessRole) -> Confinement {
        Confinement {
            role,
            refused: RefusedCalls::Fail,
            read: BTreeSet::new(),
            write: BTreeSet::new(),
            execute: BTreeSet::new(),
            connect: BTreeSet::new(),
        }
    }

    /// Confines this process, which must have only one thread: others would not be confined. Paths
    /// that do not exist are left out and cannot be reached if they are created later. The paths
    /// and ports of a role whose [`FileScope`] is `Everything` have no effect.
    pub fn enforce(mut self) -> Result<ActiveConfinement, ConfinementError> {
        check_single_thread()?;
        // `is_below` compares canonical paths, so the roots have to be canonical as well.
        for paths in [&mut self.read, &mut self.write] {
            *paths = paths
                .iter()
                .filter_map(|path| path.canonicalize().ok())
                .collect();
        }
        let access = self.role.access();
        // The paths of the rules are opened with the capabilities of before.
        let files = match access.file_scope {
            FileScope::Listed => files::confine(&self)?,
            FileScope::Everything => EnforcementLevel::Full,
        };
        capabilities::keep(access.capabilities)?;
        let calls = calls::allow_only(self.role, self.refused)?;
        Ok(ActiveConfinement {
            files,
            calls,
            read: self.read,
            write: self.write,
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

/// Returns an error if the process has another thread, which would not be confined.
fn check_single_thread() -> Result<(), ConfinementError> {
    let threads = threads::count().map_err(ConfinementError::Threads)?;
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
