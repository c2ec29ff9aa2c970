//! Catalogue of the components in a directory, such as those that ship with Peal.
use crate::component_file::{self, ReadError};
use peal_declaration::ModuleDeclaration;
use peal_sandbox::{FormatError, Inspection, inspect};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Limit of the components in a catalogue.
const MAX_COMPONENTS: usize = 1024;

/// Directory of the shipped components, relative to the program: of a package, and of a build tree.
const PLACES: [&str; 2] = ["../share/peal/modules", "../guests"];

/// Error of a catalogue.
#[derive(Debug, Error)]
pub enum CatalogueError {
    /// No directory of components was found beside the program.
    #[error("there is no {} beside {}: name the directory of the components with --from", PLACES.join(" or "), .program.display())]
    NoDirectory {
        /// Directory of the program.
        program: PathBuf,
    },
    /// The directory cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Directory {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The directory has too many components.
    #[error("{} has more than {MAX_COMPONENTS} components", .0.display())]
    TooMany(PathBuf),
    /// A component cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file is not an acceptable component.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The path.
        path: PathBuf,
        /// The error.
        reason: FormatError,
    },
}

/// Component that can be added to a server.
#[derive(Clone, Debug)]
pub struct AvailableModule {
    /// Absolute path of the component.
    pub path: PathBuf,
    /// Properties of the component.
    pub inspection: Inspection,
}

impl AvailableModule {
    /// Reads one component.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is not a component.
    pub fn read(path: &Path) -> Result<AvailableModule, CatalogueError> {
        let bytes = component_file::read(path)?;
        let inspection = inspect(&bytes).map_err(|reason| CatalogueError::Format {
            path: path.to_owned(),
            reason,
        })?;
        let path = path.canonicalize().map_err(of_directory(path))?;
        Ok(AvailableModule { path, inspection })
    }

    /// Returns the declaration of the module. One that declares nothing has the name of its file.
    pub fn declaration(&self) -> ModuleDeclaration {
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy();
        let declaration = self.inspection.declaration.clone();
        declaration.unwrap_or_else(|| ModuleDeclaration {
            name: stem().into_owned(),
            ..ModuleDeclaration::default()
        })
    }
}

fn of_directory(path: &Path) -> impl Fn(io::Error) -> CatalogueError {
    let path = path.to_owned();
    move |source| CatalogueError::Directory {
        path: path.clone(),
        source,
    }
}

/// Returns the directory of the components that ship with this program.
///
/// # Errors
/// Fails if there is none, as for a program that was copied elsewhere.
pub fn shipped_dir() -> Result<PathBuf, CatalogueError> {
    let program = env::current_exe().map_err(of_directory(Path::new("/proc/self/exe")))?;
    let program = program.parent().unwrap_or(Path::new("/")).to_owned();
    let mut places = PLACES.iter().map(|place| program.join(place));
    match places.find(|place| place.is_dir()) {
        Some(place) => Ok(place.canonicalize().map_err(of_directory(&place))?),
        None => Err(CatalogueError::NoDirectory { program }),
    }
}

/// Returns the components of a directory whose modules say what they are for, sorted by name.
///
/// # Errors
/// Fails if the directory or a component in it cannot be read.
pub fn available(dir: &Path) -> Result<Vec<AvailableModule>, CatalogueError> {
    let entries = fs::read_dir(dir).map_err(of_directory(dir))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(of_directory(dir))?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "wasm")
        {
            files.push(path);
        }
        if files.len() > MAX_COMPONENTS {
            return Err(CatalogueError::TooMany(dir.to_owned()));
        }
    }
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let module = AvailableModule::read(&file)?;
        if !module.declaration().description.is_empty() {
            found.push(module);
        }
    }
    Ok(found)
}
