//! Reading of component files.
use peal_config::UnsafePermissions;
use peal_sandbox::MAX_COMPONENT_BYTES;
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Error of reading a component.
#[derive(Debug, Error)]
pub enum ReadError {
    /// An error of the operating system.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The path is a directory, a pipe or the like.
    #[error("cannot read {}: it is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The component exceeds the limit for users.
    #[error("{} has {size} bytes; the limit for components of users is {limit} (tenant.max_component_bytes)", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Other users could have written the file.
    #[error("the component, which has no sha256 here: {0}")]
    Exposed(#[from] UnsafePermissions),
}

/// Reads a component, at most one byte more than the maximum size of a component.
pub fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    contents(path, open(path)?)
}

/// Opens a regular file. Does not block on a pipe.
pub(crate) fn open(path: &Path) -> Result<File, ReadError> {
    let cannot = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .map_err(cannot)?;
    // Asked of the open file, since the path may lead to another one by now.
    if !file.metadata().map_err(cannot)?.is_file() {
        return Err(ReadError::NotAFile {
            path: path.to_owned(),
        });
    }
    Ok(file)
}

pub(crate) fn contents(path: &Path, file: File) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    let read = file
        // One byte more than allowed, so that inspection refuses the size.
        .take(MAX_COMPONENT_BYTES as u64 + 1)
        .read_to_end(&mut bytes);
    read.map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes)
}
