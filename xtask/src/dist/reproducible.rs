//! Builds whose results depend on the sources and the compiler alone: they name no directory of this machine.
use super::{clone, git};
use crate::command::{cargo, remove_directory};
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

/// Directory of the sources, wherever the repository is. Flags of the compiler replace paths in the results, and
/// that is not all: cargo makes the path of the Rust SDK, which is outside of the modules' workspace, a part of
/// the names of symbols, and the length of the paths of WIT files becomes a part of some under optimization at
/// link time.
const SOURCES: &str = "/var/tmp/peal-dist";

/// File that is locked while the directory is in use.
const LOCK: &str = "/var/tmp/peal-dist.lock";

/// Separator in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// Beginnings of variables that change what is compiled: wrappers of the compiler, and profiles.
const FOREIGN: [&str; 3] = ["RUSTC", "CARGO_PROFILE_", "CARGO_BUILD_"];

/// Place, compiler options and time of a build.
pub struct ReproducibleBuild {
    /// Clone of the repository.
    pub sources: PathBuf,
    /// Directory of cargo. It is not that of other builds, which have other options.
    pub target: PathBuf,
    /// Time of the last commit, in seconds since the epoch.
    pub time: u64,
    /// Directories, and their names in the results.
    names: [(PathBuf, &'static str); 3],
    /// Released when the build has ended, however it ends.
    _lock: File,
}

/// Locks the directory of the sources for this process.
fn lock() -> Result<File> {
    // A link that another user has made is not followed.
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits())?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    let file = options.custom_flags(no_link).open(LOCK).context(LOCK)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!(
                "another `cargo xtask dist` builds in {SOURCES}; start this one when it has ended"
            )
        }
        Err(TryLockError::Error(error)) => Err(error).context(LOCK),
    }
}

impl ReproducibleBuild {
    /// Prepares a build of the last commit, whose sources it clones. Tools of the repository serve the clone.
    pub fn new(root: &Path) -> Result<ReproducibleBuild> {
        let lock = lock()?;
        let sources = PathBuf::from(SOURCES);
        remove_directory(&sources)?;
        // No other user may write into it. An error if another user has made it since.
        let mut private = DirBuilder::new();
        private.mode(0o700).create(&sources).context(SOURCES)?;
        clone(root, &sources)?;
        link_tools(root, &sources)?;
        let time = git(root, &["log", "-1", "--format=%ct"])?;
        let home = env::home_dir().context("this user has no home directory")?;
        let cargo_home =
            env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        let target = root.join("target/dist-build");
        Ok(ReproducibleBuild {
            time: time.trim().parse().context("the time of the last commit")?,
            // Of several that fit, compilers take the last one.
            names: [
                (sources.clone(), "/peal"),
                (target.clone(), "/target"),
                (cargo_home, "/cargo"),
            ],
            target,
            sources,
            _lock: lock,
        })
    }

    /// Removes the sources.
    pub fn end(self) -> Result<()> {
        remove_directory(&self.sources)
    }

    /// Returns a command of cargo for such a build.
    pub fn cargo(&self) -> Command {
        let flags = |option: &str| -> Vec<String> {
            let of = |(directory, name): &(PathBuf, &str)| {
                format!("{option}={}={name}", directory.display())
            };
            self.names.iter().map(of).collect()
        };
        let mut command = cargo(&self.sources);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if FOREIGN.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        command
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "0")
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                flags("--remap-path-prefix").join(SEPARATOR),
            )
            .env("CFLAGS", flags("-ffile-prefix-map").join(" "))
            .env("CXXFLAGS", flags("-ffile-prefix-map").join(" "))
            .env("SOURCE_DATE_EPOCH", self.time.to_string());
        command
    }
}

/// Links the tools of the repository into its clone: they are downloaded once.
pub fn link_tools(root: &Path, sources: &Path) -> Result<()> {
    let tools = root.join("target/tools");
    let target = sources.join("target");
    for directory in [&tools, &target] {
        fs::create_dir_all(directory)
            .with_context(|| format!("creating {}", directory.display()))?;
    }
    symlink(&tools, target.join("tools")).context("linking the tools")
}
