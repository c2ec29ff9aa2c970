//! Directories of language tools, and the permission to install them.
use crate::{BuildError, error::of_file};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// Permission to install missing tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Install {
    /// No installation; the error says how to install the tool.
    Never,
    /// Installation into the tools' directory, and of Debian packages for root.
    Allowed,
}

/// Directory in which tools are found, besides `PATH`, and installed.
#[derive(Clone, Debug)]
pub struct BuildTools {
    /// The directory: Python packages in `python/` and `go/`, npm packages in `js/` and `ts/`.
    pub dir: PathBuf,
    /// Permission to install tools.
    pub install: Install,
}

impl BuildTools {
    /// Returns the directory `$PEAL_TOOLS`, or one in the user's cache.
    ///
    /// # Errors
    /// No variable names a directory of the user. One for temporary files is no substitute: other
    /// users could put programs there.
    pub fn of_user(install: Install) -> Result<BuildTools, BuildError> {
        let dir = user_dir(|name| env::var_os(name))?;
        Ok(BuildTools { dir, install })
    }

    pub(crate) fn may_install(&self) -> bool {
        self.install == Install::Allowed
    }
}

fn user_dir(get: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, BuildError> {
    let named = |name| {
        // An empty variable counts as unset (XDG Base Directory Specification).
        get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = || named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    named("PEAL_TOOLS")
        .or_else(|| Some(cache()?.join("peal/tools")))
        .ok_or(BuildError::NoToolsDir)
}

/// Returns the entries of a directory, sorted: their order differs between machines, and with it what
/// is built of them.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let entries = fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.map_err(of_file(dir))?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Finds a program on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
}

pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    // A directory has execute permission, too.
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_with(set: &[(&str, &str)]) -> Result<PathBuf, String> {
        let get = |name: &str| {
            let set = set.iter().find(|(other, _)| *other == name);
            set.map(|(_, value)| OsString::from(value))
        };
        user_dir(get).map_err(|error| error.to_string())
    }

    #[test]
    fn tools_directory_without_variables_is_refused() {
        let all = [
            ("PEAL_TOOLS", "/t"),
            ("XDG_CACHE_HOME", "/c"),
            ("HOME", "/h"),
        ];
        assert_eq!(dir_with(&all), Ok("/t".into()));
        assert_eq!(dir_with(&all[1..]), Ok("/c/peal/tools".into()));
        assert_eq!(dir_with(&all[2..]), Ok("/h/.cache/peal/tools".into()));
        let reason = dir_with(&[("HOME", "")]).unwrap_err();
        assert!(reason.contains("PEAL_TOOLS"), "{reason}");
    }
}
