//! The directory of compiled code. Whoever can write there can run code in this process, so nobody else may: neither in the
//! directory itself nor by putting another in its place.
use crate::EngineError;
use std::fs::{DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Others may write, or read, or anything.
const WRITE_BY_OTHERS: u32 = 0o022;
const ANYTHING_BY_OTHERS: u32 = 0o077;
/// What is in such a directory can be renamed and removed by its owner only.
const STICKY: u32 = 0o1000;

/// Makes it for this user alone, unless it is there, and returns where it really is.
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
    let dir = dir.canonicalize().map_err(failed)?;
    let found = dir.metadata().map_err(failed)?;
    let (owner, mode) = owner_and_mode(&found);
    if owner != this_user() || mode & ANYTHING_BY_OTHERS != 0 {
        return Err(EngineError::CacheDirShared { dir, owner, mode });
    }
    for above in dir.ancestors().skip(1) {
        let (owner, mode) = owner_and_mode(&above.metadata().map_err(failed)?);
        let trusted = owner == 0 || owner == this_user();
        if !trusted || mode & WRITE_BY_OTHERS != 0 && mode & STICKY == 0 {
            return Err(EngineError::CacheDirExposed {
                above: above.to_owned(),
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
