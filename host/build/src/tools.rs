//! Where the tools of languages are, and whether they may be fetched.
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Whether what is missing may be installed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Install {
    /// No: say what to do.
    Never,
    /// Yes: into the directory of tools, and Debian's packages where we are root.
    Allowed,
}

/// Where tools are looked for beside `PATH`, and put.
#[derive(Clone, Debug)]
pub struct BuildTools {
    /// Python packages in `python/`, those of npm in `js/`.
    pub dir: PathBuf,
    /// Whether they may be put there.
    pub install: Install,
}

impl BuildTools {
    /// In `$PEAL_TOOLS`, else in the user's cache.
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

/// A program on `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|file| is_program(file))
}

pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}
