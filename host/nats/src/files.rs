//! Files of a cluster: secrets are created and never replaced, everything else is replaced as a whole. In a
//! dry run they are compared and not written.
use std::{
    collections::BTreeMap,
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

/// Change of a file that a dry run found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SiteFileChange {
    /// The file would be created.
    Created(PathBuf),
    /// The file would get other contents.
    Replaced(PathBuf),
}

/// Files that a command makes.
pub(crate) trait SiteFileAccess {
    /// Returns true if a file exists.
    fn contains(&self, path: &Path) -> bool;

    /// Returns the contents of a file; `None` if it does not exist.
    fn read(&self, path: &Path) -> Result<Option<String>, SiteFileError>;

    /// Creates a directory that only its owner can use, if there is none.
    fn create_directory(&mut self, path: &Path) -> Result<(), SiteFileError>;

    /// Creates the file of a secret, which must not exist.
    fn create_secret(&mut self, path: &Path, text: &str) -> Result<(), SiteFileError>;

    /// Replaces a file as a whole, so that an interrupted command leaves the old one.
    fn replace(&mut self, path: &Path, text: &str) -> Result<(), SiteFileError>;
}

/// Files on disk, which are written.
pub(crate) struct WrittenFiles;

impl SiteFileAccess for WrittenFiles {
    fn contains(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn read(&self, path: &Path) -> Result<Option<String>, SiteFileError> {
        read(path)
    }

    fn create_directory(&mut self, path: &Path) -> Result<(), SiteFileError> {
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(SiteFileError::at(path))
    }

    fn create_secret(&mut self, path: &Path, text: &str) -> Result<(), SiteFileError> {
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

    fn replace(&mut self, path: &Path, text: &str) -> Result<(), SiteFileError> {
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
}

/// Files of a dry run: those on disk, and in memory those that would be written.
#[derive(Default)]
pub(crate) struct PlannedFiles {
    written: BTreeMap<PathBuf, PlannedFile>,
}

/// File that would be written.
struct PlannedFile {
    text: String,
    change: SiteFileChange,
}

impl PlannedFiles {
    /// Returns the files that would change, in the order of their paths.
    pub(crate) fn into_changes(self) -> Vec<SiteFileChange> {
        let files = self.written.into_values();
        files.map(|file| file.change).collect()
    }

    fn plan(&mut self, path: &Path, text: &str, change: SiteFileChange) {
        let text = text.to_owned();
        let file = PlannedFile { text, change };
        self.written.insert(path.to_owned(), file);
    }
}

impl SiteFileAccess for PlannedFiles {
    fn contains(&self, path: &Path) -> bool {
        self.written.contains_key(path) || WrittenFiles.contains(path)
    }

    fn read(&self, path: &Path) -> Result<Option<String>, SiteFileError> {
        match self.written.get(path) {
            Some(file) => Ok(Some(file.text.clone())),
            None => read(path),
        }
    }

    fn create_directory(&mut self, path: &Path) -> Result<(), SiteFileError> {
        match path.metadata() {
            Ok(found) if !found.is_dir() => {
                Err(SiteFileError::at(path)(io::ErrorKind::NotADirectory.into()))
            }
            // Rights of directories count when files are written.
            _ => Ok(()),
        }
    }

    fn create_secret(&mut self, path: &Path, text: &str) -> Result<(), SiteFileError> {
        if self.contains(path) {
            return Err(SiteFileError::at(path)(io::ErrorKind::AlreadyExists.into()));
        }
        self.plan(path, text, SiteFileChange::Created(path.to_owned()));
        Ok(())
    }

    fn replace(&mut self, path: &Path, text: &str) -> Result<(), SiteFileError> {
        match read(path) {
            Ok(Some(found)) if found == text => {}
            Ok(None) => self.plan(path, text, SiteFileChange::Created(path.to_owned())),
            // A file that cannot be read as text can be replaced.
            Ok(Some(_)) | Err(_) => {
                self.plan(path, text, SiteFileChange::Replaced(path.to_owned()));
            }
        }
        Ok(())
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
