//! Removes what was registered, by handles of directories alone: each is opened in the one before, no link is followed, and what is
//! in one is looked at and removed in that very directory, whatever lies at its path by then.
use peal_core::job_control::{Cleanup, Depth, Subdirectories, TopDirectory};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat, unlinkat},
    io::{Errno, Result},
};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Component, Path},
};

/// How far a removal goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// How many files and directories it looks at.
    pub(crate) entries: u64,
    /// How many directories below each other it goes into.
    pub(crate) depth: usize,
}

/// What is left that was to be removed. What the user may not remove, and what has come meanwhile, is left without a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// What is beyond the bounds.
    Beyond,
}

/// To walk through a directory, without reading it.
const THROUGH: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// To read one. The flag against waiting is for what is none and has taken its place.
const READ: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// Removes it all as whoever runs this.
pub(crate) fn remove(cleanup: &Cleanup, bounds: Bounds) -> Left {
    let mut removal = Removal {
        cleanup,
        bounds,
        left: Left::Nothing,
    };
    for path in &cleanup.files {
        note(path, removal.file(path));
    }
    // The deepest first: a directory that has another one in it is empty only when that is gone.
    for path in cleanup.directories.iter().rev() {
        note(path, removal.directory(path));
    }
    removal.left
}

fn note(path: &Path, done: Result<()>) {
    match done {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => tracing::debug!(?path, %error, "what was to be removed is not"),
    }
}

struct Removal<'a> {
    cleanup: &'a Cleanup,
    /// What is left of them.
    bounds: Bounds,
    left: Left,
}

impl Removal<'_> {
    fn file(&self, path: &Path) -> Result<()> {
        let (parent, name) = parent(path)?;
        unlinkat(parent, name, AtFlags::empty())
    }

    fn directory(&mut self, path: &Path) -> Result<()> {
        let (parent, name) = parent(path)?;
        let dir = openat(&parent, name, READ, Mode::empty())?;
        let device = fstat(&dir)?.st_dev;
        self.empty(dir.as_fd(), device, self.bounds.depth)?;
        match self.cleanup.top {
            TopDirectory::Remove => remove_empty(parent.as_fd(), name),
            TopDirectory::Leave => Ok(()),
        }
    }

    /// Removes what is in a directory, and goes so many deeper.
    fn empty(&mut self, dir: BorrowedFd<'_>, device: u64, deeper: usize) -> Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            if self.bounds.entries == 0 {
                self.left = Left::Beyond;
                return Ok(());
            }
            self.bounds.entries -= 1;
            if self.cleanup.ignored.contains(&name) {
                continue;
            }
            match self.entry(dir, &name, device, deeper) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => {
                    tracing::debug!(?name, %error, "what was to be removed in a directory is not")
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
                // It may be empty all the same.
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
            self.left = Left::Beyond;
            return Ok(());
        };
        let below = openat(dir, name, READ, Mode::empty())?;
        // What is mounted there lies elsewhere.
        if fstat(&below)?.st_dev == device {
            self.empty(below.as_fd(), device, deeper)
        } else {
            Err(Errno::XDEV)
        }
    }
}

fn remove_empty(parent: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        // What is in it stays.
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        removed => removed,
    }
}

/// The directory that a path leads to without its last name, and that name. No link is followed.
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
