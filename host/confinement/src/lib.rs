//! A second wall around a server: what its process can reach once the sandbox of components, or the server itself, is broken.
//!
//! The kernel keeps it. Landlock confines which files the process can read, write and run, and to which TCP ports it can
//! connect; seccomp refuses system calls that a server never makes. Neither can be taken down again, and whatever the process
//! starts is behind it too.
mod calls;
mod error;
mod files;

pub use error::WallError;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// What a process needs, and so can reach behind the wall. What else there is in the file system can neither be read nor
/// written, nothing can be run, and no other TCP connection be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confinement {
    /// The files and directories, with all below them, that it reads.
    pub read: BTreeSet<PathBuf>,
    /// Those that it reads and changes.
    pub write: BTreeSet<PathBuf>,
    /// The directories below which it looks for files and directories, and removes them.
    pub remove: BTreeSet<PathBuf>,
    /// The TCP ports that it connects to, on whatever machine.
    pub connect: BTreeSet<u16>,
}

/// How much of a measure this kernel takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnforcementLevel {
    /// All of it.
    Whole,
    /// What an older kernel knows of it.
    Partly,
    /// Nothing.
    Missing,
}

/// A wall that stands.
#[derive(Clone, Debug)]
pub struct ActiveConfinement {
    /// How files, and connections, are confined.
    pub files: EnforcementLevel,
    /// How system calls are.
    pub calls: EnforcementLevel,
    read: BTreeSet<PathBuf>,
    write: BTreeSet<PathBuf>,
}

impl Confinement {
    /// Raises the wall around this process, which may have no more than the one thread: others would stay outside. Paths that
    /// are not there are left out, and cannot be reached if they come later.
    pub fn raise(self) -> Result<ActiveConfinement, WallError> {
        alone()?;
        let Confinement {
            read,
            write,
            remove,
            connect,
        } = self;
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
    /// Whether what is there, or will be, can be read.
    pub fn lets_read(&self, path: &Path) -> bool {
        self.lets_write(path)
            || self.files == EnforcementLevel::Missing
            || is_below(path, &self.read)
    }

    /// Whether it can be changed.
    pub fn lets_write(&self, path: &Path) -> bool {
        self.files == EnforcementLevel::Missing || is_below(path, &self.write)
    }
}

/// Has the kernel refuse this process, which may have no more than the one thread, the system calls that no server makes. Files
/// and other processes it reaches as before: the kernel lets nobody look into other processes whose files are confined.
pub fn refuse_calls() -> Result<EnforcementLevel, WallError> {
    alone()?;
    calls::refuse()
}

/// Whether there is no other thread, which would stay outside.
fn alone() -> Result<(), WallError> {
    let threads = fs::read_dir("/proc/self/task")
        .map_err(WallError::Threads)?
        .count();
    if threads == 1 {
        Ok(())
    } else {
        Err(WallError::Late { threads })
    }
}

/// Whether a path really is one of these or below one. Of what is not there, the nearest directory that is counts.
fn is_below(path: &Path, roots: &BTreeSet<PathBuf>) -> bool {
    let real = path.ancestors().find_map(|above| above.canonicalize().ok());
    real.is_some_and(|real| real.ancestors().any(|above| roots.contains(above)))
}
