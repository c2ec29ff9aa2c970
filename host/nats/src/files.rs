//! Files of a cluster: secrets are created and never replaced, everything else is replaced as a whole.
use std::{
    fs::{self, DirBuilder, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;
use thiserror::Error;

/// Maximum size of a file that is read, in bytes.
const MAX_FILE: u64 = 16 << 20;
/// Mode of secrets.
const SECRET: u32 = 0o600;
/// Mode of other files.
const PUBLIC: u32 = 0o644;

/// Error for a file of a cluster.
#[derive(Debug, Error)]
#[error("{}: {source}", path.display())]
pub struct SiteFileError {
    path: PathBuf,
    source: io::Error,
}

impl SiteFileError {
    /// Adds the path to an error.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> SiteFileError + use<> {
        let path = path.to_owned();
        move |source| SiteFileError { path, source }
    }
}

/// Returns the contents of a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, SiteFileError> {
    let read = || {
        let mut text = String::new();
        let file = fs::File::open(path)?;
        if file.take(MAX_FILE + 1).read_to_string(&mut text)? as u64 > MAX_FILE {
            let message = format!("the file has more than {MAX_FILE} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(text)
    };
    match read() {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SiteFileError::at(path)(error)),
    }
}

/// Creates a directory that only its owner can use, if there is none.
pub(crate) fn create_directory(path: &Path) -> Result<(), SiteFileError> {
    let mut builder = DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(SiteFileError::at(path))
}

/// Creates the file of a secret, which must not exist.
pub(crate) fn create_secret(path: &Path, text: &str) -> Result<(), SiteFileError> {
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(SECRET)
            .open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(SiteFileError::at(path))
}

/// Replaces a file as a whole, so that an interrupted command leaves the old one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), SiteFileError> {
    let write = || {
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut file = NamedTempFile::new_in(directory)?;
        file.write_all(text.as_bytes())?;
        let mode = Permissions::from_mode(PUBLIC);
        file.as_file().set_permissions(mode)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(SiteFileError::at(path))
}
