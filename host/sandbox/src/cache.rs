//! Directory of the compiled code. A user with write access to it can run code in the processes that
//! take code from it. So only its owner may write it, and no other user may be able to replace it.
use crate::EngineError;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Permission bits that let other users write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Permission bits that give other users any access.
const ANYTHING_BY_OTHERS: u32 = 0o077;
/// Permission bits that give other users any access, and the group more than reading.
const ANYTHING_BUT_GROUP_READS: u32 = 0o027;
/// Mode bit of a directory in which only its owner may rename or remove an entry.
const STICKY: u32 = 0o1000;

/// Users that read a directory of compiled code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CodeReaders {
    /// Its owner alone.
    #[default]
    Owner,
    /// Its owner, and processes of its group that run modules of one user.
    Group,
}

impl CodeReaders {
    /// Returns the mode of a directory.
    fn mode(self) -> u32 {
        match self {
            CodeReaders::Owner => 0o700,
            CodeReaders::Group => 0o750,
        }
    }

    /// Returns the permission bits that the directory must not have.
    fn refused(self) -> u32 {
        match self {
            CodeReaders::Owner => ANYTHING_BY_OTHERS,
            CodeReaders::Group => ANYTHING_BUT_GROUP_READS,
        }
    }
}

/// Creates the directory of this user, unless it exists, and returns its canonical path.
pub(crate) fn own_dir(dir: &Path, readers: CodeReaders) -> Result<PathBuf, EngineError> {
    DirBuilder::new()
        .recursive(true)
        .mode(readers.mode())
        .create(dir)
        .map_err(|source| EngineError::CacheDir {
            dir: dir.to_owned(),
            source,
        })?;
    checked_dir(dir, this_user(), readers)
}

/// Returns the canonical path of a directory of compiled code. It must belong to `owner`.
pub(crate) fn checked_dir(
    dir: &Path,
    dir_owner: u32,
    readers: CodeReaders,
) -> Result<PathBuf, EngineError> {
    let failed = |source| EngineError::CacheDir {
        dir: dir.to_owned(),
        source,
    };
    // Only the canonical path is used from here on: a link in the given one could be changed after
    // the check.
    let dir = dir.canonicalize().map_err(failed)?;
    let found = dir.metadata().map_err(failed)?;
    // A directory that existed before keeps its owner and mode.
    let (owner, mode) = owner_and_mode(&found);
    if owner != dir_owner || mode & readers.refused() != 0 {
        return Err(EngineError::CacheDirShared {
            dir,
            owner,
            mode,
            expected_owner: dir_owner,
            expected_mode: readers.mode(),
        });
    }
    // A user who can write to a parent can replace the directory. With the sticky bit only the
    // owner of an entry can rename it.
    for above in dir.ancestors().skip(1) {
        let (owner, mode) = owner_and_mode(&above.metadata().map_err(failed)?);
        let trusted = owner == 0 || owner == dir_owner;
        if !trusted || mode & WRITE_BY_OTHERS != 0 && mode & STICKY == 0 {
            return Err(EngineError::CacheDirExposed {
                parent: above.to_owned(),
                owner,
                mode,
                dir,
            });
        }
    }
    Ok(dir)
}

fn owner_and_mode(found: &Metadata) -> (u32, u32) {
    (found.uid(), found.mode() & 0o7777)
}

fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}
