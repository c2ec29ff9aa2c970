//! New projects: the list of files for a language and roles, and writing them to a new directory.
/// Returns the text of a role in a directory of templates, with this extension.
macro_rules! template {
    ($dir:literal, $extension:literal, $role:expr) => {
        match $role {
            Role::EventHandler => template!($dir / "event-handler" $extension),
            Role::ConnectionPolicy => template!($dir / "connection-policy" $extension),
            Role::EventPolicy => template!($dir / "event-policy" $extension),
            Role::JobControlPolicy => template!($dir / "job-control-policy" $extension),
            Role::MonitorPolicy => template!($dir / "monitor-policy" $extension),
            Role::ProvisionPolicy => template!($dir / "provision-policy" $extension),
            Role::LogPolicy => template!($dir / "log-policy" $extension),
            Role::GroupPolicy => template!($dir / "group-policy" $extension),
            Role::SpawnPolicy => template!($dir / "spawn-policy" $extension),
            Role::LogChannel => template!($dir / "log-channel" $extension),
            Role::Lifecycle => template!($dir / "lifecycle" $extension),
        }
    };
    ($dir:literal / $name:literal $extension:literal) => {
        include_str!(concat!("../../templates/", $dir, "/", $name, $extension))
    };
}

mod c;
mod cases;
mod cpp;
mod go;
mod js;
mod python;
mod readme;
mod rust;
mod ts;

use peal_build::{Language, MANIFEST, Manifest};
use peal_sandbox::Role;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Reason why no project was created.
#[derive(Debug, Error)]
pub enum ProjectError {
    /// The name is not valid for a module.
    #[error(
        "{name:?} is no name for a module: it has small letters, digits and single dashes, begins with a letter, and has at most 64 of them"
    )]
    Name {
        /// Given name.
        name: String,
    },
    /// There is no such role.
    #[error("there is no role {name:?}; there are {}", known_roles())]
    Role {
        /// Given name.
        name: String,
    },
    /// A module with these roles would never be called.
    #[error(
        "lifecycle alone is never called for anything: name another role beside it, such as event-handler"
    )]
    OnlyLifecycle,
    /// The directory exists already.
    #[error(
        "{path} is there already and is not changed; choose another name, or another directory with --dir"
    )]
    Exists {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A file cannot be written.
    #[error("{path}: {reason}")]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        reason: io::Error,
    },
}

fn known_roles() -> String {
    Role::ALL.map(Role::name).join(", ")
}

/// Returns the role of this name.
pub fn role(name: &str) -> Result<Role, ProjectError> {
    let role = Role::ALL.into_iter().find(|role| role.name() == name);
    role.ok_or_else(|| ProjectError::Role {
        name: name.to_owned(),
    })
}

/// File of a project: its relative path, and its contents.
pub type File = (String, String);

/// Origin of the SDK of a project.
#[derive(Clone, Copy, Debug)]
pub enum SdkOrigin<'a> {
    /// Copy in the project, so that it builds without anything else.
    Copied,
    /// Installed package in this directory, relative to the project.
    Installed(&'a Path),
}

impl SdkOrigin<'_> {
    /// Returns the directory of an SDK, relative to the project.
    fn library(self, name: &str) -> String {
        match self {
            SdkOrigin::Copied => format!("sdk/{name}"),
            SdkOrigin::Installed(dir) => dir.display().to_string(),
        }
    }
}

/// Returns the files of a project, including the SDK if the project has a copy.
pub fn files(
    name: &str,
    language: Language,
    roles: &BTreeSet<Role>,
    sdk: SdkOrigin<'_>,
) -> Result<Vec<File>, ProjectError> {
    if !peal_build::is_name(name) {
        return Err(ProjectError::Name {
            name: name.to_owned(),
        });
    }
    // Checked before any file is written.
    if !roles.iter().any(|role| *role != Role::Lifecycle) {
        return Err(ProjectError::OnlyLifecycle);
    }
    let own = match language {
        Language::Rust => rust::files(roles, sdk),
        Language::C => c::files(roles),
        Language::Cpp => cpp::files(roles),
        Language::Go => go::files(roles, sdk),
        Language::Python => python::files(roles, sdk),
        Language::Js => js::files(roles, sdk),
        Language::Ts => ts::files(roles, sdk),
    };
    let own = own.into_iter().chain(cases::files(roles));
    let mut files: Vec<File> = own
        // A valid name needs no escapes in any of these languages.
        .map(|(path, text)| (path.to_owned(), text.replace("MODULE", name)))
        .collect();
    files.push((MANIFEST.to_owned(), manifest(name, language, roles, sdk)));
    files.push((
        "README.md".to_owned(),
        readme::text(name, language, roles, sdk),
    ));
    files.push((format!("{name}.toml"), readme::table(name, roles)));
    files.push((
        ".gitignore".to_owned(),
        format!("/target\n/{name}.wasm\n__pycache__/\n"),
    ));
    if let SdkOrigin::Copied = sdk {
        files.extend(peal_build::carried(language).map(|(path, text)| (path.to_owned(), text)));
    }
    Ok(files)
}

/// Splits parts into code and tests, at the line that divides each part.
fn halves(parts: &[&str], between: &str) -> (String, String) {
    let halves = || {
        parts
            .iter()
            // A part without this line has no test of its own.
            .map(|part| part.split_once("=== test\n").unwrap_or((part, "")))
    };
    let code: Vec<&str> = halves().map(|(code, _)| code).collect();
    let tests: Vec<&str> = halves().map(|(_, test)| test).collect();
    (code.join(between), tests.join("\n"))
}

fn manifest(name: &str, language: Language, roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> String {
    let names: Vec<String> = roles
        .iter()
        .map(|role| format!("\"{}\"", role.name()))
        .collect();
    let mut text = format!(
        "name = \"{name}\"\nlanguage = \"{language}\"\nroles = [{}]\n",
        names.join(", ")
    );
    if let SdkOrigin::Installed(dir) = sdk {
        // A path in quotes as Rust shows it is TOML, except for characters that no path needs.
        text += &format!("sdk = {:?}\n", dir.display().to_string());
    }
    // For other languages `Manifest::parse` refuses the key.
    if !language.detects_imports() {
        // A log channel needs a sink to write to.
        let capabilities = if roles.contains(&Role::LogChannel) {
            "\"sink\""
        } else {
            ""
        };
        let all = peal_build::capabilities().collect::<Vec<_>>().join(", ");
        text += &format!(
            "# Capabilities that the module imports and its admin grants, of:\n# {all}.\ncapabilities = [{capabilities}]\n"
        );
    }
    debug_assert!(Manifest::parse(&text).is_ok(), "{text}");
    text
}

/// Writes a project into a directory that must not exist or must be empty. No file is ever
/// overwritten.
pub fn write(dir: &Path, files: &[File]) -> Result<(), ProjectError> {
    // A dangling link counts as well: a check that follows links would not see it.
    let occupied = fs::symlink_metadata(dir).is_ok()
        && !fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    if occupied {
        return Err(ProjectError::Exists {
            path: dir.to_owned(),
        });
    }
    for (path, text) in files {
        let path = dir.join(path);
        let failed = |reason| ProjectError::Write {
            path: path.clone(),
            reason,
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let file = fs::File::create_new(&path).map_err(failed)?;
        io::Write::write_all(&mut &file, text.as_bytes()).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
