//! Removes registered files and directories by directory handles alone. Each directory is opened
//! relative to its parent, and no link is followed. Entries are examined and removed relative to
//! that handle, so that a path replaced in the meantime has no effect.
use peal_core::job_control::{Cleanup, Depth, Subdirectories, TopDirectory};
use peal_model::UserIdentity;
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat, unlinkat},
    io::{Errno, Result},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

/// Removal on behalf of a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemovalOrder {
    /// User with whose rights the files are removed.
    pub identity: UserIdentity,
    /// Files and directories.
    pub cleanup: Cleanup,
    /// Bounds of the work.
    pub bounds: RemovalBounds,
}

/// Bounds of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemovalBounds {
    /// Maximum number of files and directories to examine.
    pub entries: u64,
    /// Maximum depth of nested directories to enter.
    pub depth: usize,
}

/// Completeness of a removal. Entries that the user may not remove, and entries created in the
/// meantime, remain without a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RemovalExtent {
    /// Nothing remains because of the bounds.
    Nothing,
    /// Entries beyond the bounds remain.
    Beyond,
}

/// Flags to open a directory for the next step of a path, without the right to read it.
const THROUGH: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags to open a directory for reading. `NONBLOCK` avoids waiting if a FIFO or device has taken
/// its place.
const READ: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// Removes the files and directories of a registration with the rights of the calling thread.
pub fn remove(cleanup: &Cleanup, bounds: RemovalBounds) -> RemovalExtent {
    let mut removal = Removal {
        cleanup,
        bounds,
        left: RemovalExtent::Nothing,
    };
    for path in &cleanup.files {
        note(path, removal.file(path));
    }
    // In reverse order, nested directories come first: their parent is empty only after them.
    for path in cleanup.directories.iter().rev() {
        note(path, removal.directory(path));
    }
    removal.left
}

/// Logs a failed removal. A path that no longer exists is no failure.
fn note(path: &Path, done: Result<()>) {
    match done {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => tracing::debug!(?path, %error, "cleanup path not removed"),
    }
}

struct Removal<'a> {
    cleanup: &'a Cleanup,
    /// Remaining bounds.
    bounds: RemovalBounds,
    left: RemovalExtent,
}

impl Removal<'_> {
    fn file(&self, path: &Path) -> Result<()> {
        let (parent, name) = parent(path)?;
        unlinkat(parent, name, AtFlags::empty())
    }

    fn directory(&mut self, path: &Path) -> Result<()> {
        let (parent, name) = parent(path)?;
        let dir = openat(&parent, name, READ, Mode::empty())?;
        // Entries on another device are not entered: another file system is mounted there.
        let device = fstat(&dir)?.st_dev;
        self.empty(dir.as_fd(), device, self.bounds.depth)?;
        match self.cleanup.top {
            TopDirectory::Remove => remove_empty(parent.as_fd(), name),
            TopDirectory::Leave => Ok(()),
        }
    }

    /// Removes the entries of a directory, down to `deeper` further levels.
    fn empty(&mut self, dir: BorrowedFd<'_>, device: u64, deeper: usize) -> Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            if self.bounds.entries == 0 {
                self.left = RemovalExtent::Beyond;
                return Ok(());
            }
            // Counted also if the entry is ignored, since the bound limits the time of the removal.
            self.bounds.entries -= 1;
            if self.cleanup.ignored.contains(&name) {
                continue;
            }
            match self.entry(dir, &name, device, deeper) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => {
                    tracing::debug!(?name, %error, "cleanup entry not removed")
                }
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsString,
        device: u64,
        deeper: usize,
    ) -> Result<()> {
        let Stat { st_mode, .. } = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // If the entry is replaced after this, the removal fails: `unlinkat` removes either files
        // or directories.
        if FileType::from_raw_mode(st_mode) != FileType::Directory {
            return match self.cleanup.subdirectories {
                Subdirectories::All => unlinkat(dir, name, AtFlags::empty()),
                Subdirectories::OnlyEmpty => Ok(()),
            };
        }
        match (self.cleanup.depth, self.cleanup.subdirectories) {
            (Depth::Flat, Subdirectories::All) => Ok(()),
            (Depth::Flat, Subdirectories::OnlyEmpty) => remove_empty(dir, name),
            (Depth::Recursive, _) => {
                let emptied = self.below(dir, name, device, deeper);
                // It may be empty although an error occurred below.
                remove_empty(dir, name).and(emptied)
            }
        }
    }

    fn below(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        device: u64,
        deeper: usize,
    ) -> Result<()> {
        let Some(deeper) = deeper.checked_sub(1) else {
            self.left = RemovalExtent::Beyond;
            return Ok(());
        };
        let below = openat(dir, name, READ, Mode::empty())?;
        // Another file system is mounted there; its files are outside of the directory.
        if fstat(&below)?.st_dev == device {
            self.empty(below.as_fd(), device, deeper)
        } else {
            Err(Errno::XDEV)
        }
    }
}

/// Removes a directory if it is empty.
fn remove_empty(parent: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        // A directory with remaining entries stays; that is no error.
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        removed => removed,
    }
}

/// Opens the parent directory of a path without following links. Returns it with the last name.
fn parent(path: &Path) -> Result<(OwnedFd, &OsStr)> {
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let last = names.next_back().ok_or(Errno::INVAL)?;
    let root = open("/", THROUGH, Mode::empty())?;
    let parent = names.try_fold(root, |dir, name| openat(dir, name, THROUGH, Mode::empty()))?;
    Ok((parent, last))
}

#[cfg(test)]
mod tests;
