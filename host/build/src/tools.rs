//! Directories of language tools, and the permission to install them.
use std::{
    env, fs,
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
    /// The directory: Python packages in `python/`, npm packages in `js/`.
    pub dir: PathBuf,
    /// Permission to install tools.
    pub install: Install,
}

impl BuildTools {
    /// Returns the directory `$PEAL_TOOLS`, or one in the user's cache.
    pub fn of_user(install: Install) -> BuildTools {
        let named = |name| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let cache = || named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
        let dir = named("PEAL_TOOLS").or_else(|| Some(cache()?.join("peal/tools")));
        BuildTools {
            dir: dir.unwrap_or_else(|| env::temp_dir().join("peal-tools")),
            install,
        }
    }

    pub(crate) fn may_install(&self) -> bool {
        self.install == Install::Allowed
    }
}

/// Finds a program on `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
}

pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
