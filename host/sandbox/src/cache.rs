//! Directory of the compiled code. A user with write access to it can run code in this process. So
//! only this user may have access to it, and no other user may be able to replace it.
use crate::EngineError;
use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Permission bits that let other users write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Permission bits that give other users any access.
const ANYTHING_BY_OTHERS: u32 = 0o077;
/// Mode bit of a directory in which only its owner may rename or remove an entry.
const STICKY: u32 = 0o1000;

/// Creates the directory for this user alone, unless it exists, and returns its canonical path.
pub(crate) fn private_dir(dir: &Path) -> Result<PathBuf, EngineError> {
    let failed = |source| EngineError::CacheDir {
        dir: dir.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(failed)?;
    // Only the canonical path is used from here on: a link in the given one could be changed after
    // the check.
    let dir = dir.canonicalize().map_err(failed)?;
    let found = dir.metadata().map_err(failed)?;
    // A directory that existed before keeps its owner and mode.
    let (owner, mode) = owner_and_mode(&found);
    if owner != this_user() || mode & ANYTHING_BY_OTHERS != 0 {
        return Err(EngineError::CacheDirShared { dir, owner, mode });
    }
    // A user who can write to a parent can replace the directory. With the sticky bit only the
    // owner of an entry can rename it.
    for above in dir.ancestors().skip(1) {
        let (owner, mode) = owner_and_mode(&above.metadata().map_err(failed)?);
        let trusted = owner == 0 || owner == this_user();
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
