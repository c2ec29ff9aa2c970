//! What can go wrong between sources and a component.
use crate::MANIFEST;
use std::{io, path::PathBuf};
use thiserror::Error;

/// Why there is no component.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The directory is no project.
    #[error("{dir} has no peal-module.toml: it is no project (`peal module new` makes one)")]
    NoProject {
        /// Where one was looked for.
        dir: PathBuf,
    },
    /// The project's manifest is wrong.
    #[error("{file}: {reason}")]
    Manifest {
        /// Which.
        file: PathBuf,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A tool is missing.
    #[error("{what} is needed and not there: {install}")]
    Missing {
        /// The tool.
        what: String,
        /// What to do about it.
        install: String,
    },
    /// A command could not be started.
    #[error("`{command}` cannot be started: {reason}")]
    Unstarted {
        /// Which.
        command: String,
        /// Why.
        reason: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {how}")]
    Failed {
        /// Which.
        command: String,
        /// How, and what it said unless that was shown already.
        how: String,
    },
    /// What the author wrote is wrong, in the words of the language.
    #[error("{file} does not build:\n{said}")]
    Source {
        /// The file of the module.
        file: PathBuf,
        /// The error with its file and line, or what the tool wrote where it cannot be found in that.
        said: String,
    },
    /// A role of the manifest is not filled.
    #[error(
        "{} has the role {role}, and {file} does not export it: {remedy}",
        MANIFEST
    )]
    NoExport {
        /// Which role.
        role: String,
        /// The file of the module.
        file: PathBuf,
        /// What the author has to write.
        remedy: String,
    },
    /// A file cannot be read or written.
    #[error("{file}: {reason}")]
    File {
        /// Which.
        file: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// What the tool made does not make a component.
    #[error("{file} does not make a component: {reason}")]
    Encode {
        /// What it was made of.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Says of an error of I/O which file it is about.
pub(crate) fn of_file(file: &std::path::Path) -> impl FnOnce(io::Error) -> BuildError {
    let file = file.to_owned();
    move |reason| BuildError::File { file, reason }
}
