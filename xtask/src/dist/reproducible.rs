//! Builds whose results depend on the sources and the compiler alone: they name no directory of this machine.
use super::git;
use crate::command::cargo;
use anyhow::{Context, Result};
use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Separator in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: &str = "\u{1f}";

/// Beginnings of variables that change what is compiled: wrappers of the compiler, and profiles.
const FOREIGN: [&str; 3] = ["RUSTC", "CARGO_PROFILE_", "CARGO_BUILD_"];

/// Place, compiler options and time of a build.
pub struct ReproducibleBuild {
    /// Directory of cargo. It is not that of other builds, which have other options.
    pub target: PathBuf,
    /// Time of the last commit, in seconds since the epoch.
    pub time: u64,
    /// Directories, and their names in the results.
    names: [(PathBuf, &'static str); 3],
}

impl ReproducibleBuild {
    /// Prepares a build of the last commit.
    pub fn new(root: &Path) -> Result<ReproducibleBuild> {
        let time = git(root, &["log", "-1", "--format=%ct"])?;
        let home = env::home_dir().context("this user has no home directory")?;
        let cargo_home =
            env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        let target = root.join("target/dist-build");
        Ok(ReproducibleBuild {
            time: time.trim().parse().context("the time of the last commit")?,
            // Of several that fit, compilers take the last one.
            names: [
                (root.to_owned(), "/peal"),
                (target.clone(), "/target"),
                (cargo_home, "/cargo"),
            ],
            target,
        })
    }

    /// Returns a command of cargo for such a build.
    pub fn cargo(&self, root: &Path) -> Command {
        let flags = |option: &str| -> Vec<String> {
            let of = |(directory, name): &(PathBuf, &str)| {
                format!("{option}={}={name}", directory.display())
            };
            self.names.iter().map(of).collect()
        };
        let mut command = cargo(root);
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
