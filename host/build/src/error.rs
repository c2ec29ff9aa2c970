//! Errors of building a component.
use crate::{Language, MANIFEST};
use std::{io, path::PathBuf};
use thiserror::Error;

/// Error of building a component.
#[derive(Debug, Error)]
pub enum BuildError {
    /// The directory is not a project.
    #[error(
        "{dir} should be a project and has no peal-module.toml (`peal module new` creates one)"
    )]
    NoProject {
        /// The directory.
        dir: PathBuf,
    },
    /// The manifest of the project is invalid.
    #[error("{file}: {reason}")]
    Manifest {
        /// The path of the manifest.
        file: PathBuf,
        /// The error and what would be right.
        reason: String,
    },
    /// The SDK of the language is not where the manifest says.
    #[error(
        "no SDK for {language}: there is no {contract}; `sdk` in peal-module.toml should be the directory of the SDKs or of an installed package"
    )]
    NoSdk {
        /// The language.
        language: Language,
        /// The directory that the SDK should have.
        contract: PathBuf,
    },
    /// The declaration of the module is too long for the component.
    #[error("declaration of module {name}: {reason}")]
    Declaration {
        /// The name of the module.
        name: String,
        /// The error and what would be right.
        reason: String,
    },
    /// A tool is missing.
    #[error("{tool} is needed and missing: {install}")]
    Missing {
        /// The tool.
        tool: String,
        /// The ways to install it.
        install: String,
    },
    /// The directory of the tools is unknown.
    #[error("no directory for build tools: set PEAL_TOOLS, or XDG_CACHE_HOME or HOME")]
    NoToolsDir,
    /// A command could not be started.
    #[error("`{command}` could not be started: {reason}")]
    Unstarted {
        /// The command.
        command: String,
        /// The error.
        reason: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {how}")]
    Failed {
        /// The command.
        command: String,
        /// The exit status, with the command's output unless that was shown already.
        how: String,
    },
    /// The sources have an error, reported in the language's words.
    #[error("{file} does not build:\n{output}")]
    Source {
        /// The file of the module.
        file: PathBuf,
        /// The error with file and line, or the tool's whole output if none was found in it.
        output: String,
    },
    /// A role of the manifest is not exported.
    #[error(
        "{} has the role {role}, and {file} does not export it: {remedy}",
        MANIFEST
    )]
    NoExport {
        /// The role.
        role: String,
        /// The file of the module.
        file: PathBuf,
        /// The code to write.
        remedy: String,
    },
    /// A file could not be read or written.
    #[error("{file}: {reason}")]
    File {
        /// The path of the file.
        file: PathBuf,
        /// The error.
        reason: io::Error,
    },
    /// The tool's output could not be encoded as a component.
    #[error("{file} does not make a component: {reason}")]
    Encode {
        /// The path of the output.
        file: PathBuf,
        /// The error.
        reason: String,
    },
}

/// Adds the path of a file to an I/O error.
pub(crate) fn of_file(file: &std::path::Path) -> impl FnOnce(io::Error) -> BuildError {
    let file = file.to_owned();
    move |reason| BuildError::File { file, reason }
}
