//! Debian packages, for root.
use crate::{BuildError, ProgressCallback, command::run_quietly};
use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command};

/// Returns true if packages can be installed: apt exists and the user is root.
pub fn is_available() -> bool {
    Path::new("/usr/bin/apt-get").exists()
        && fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Installs packages.
pub fn install(packages: &[&str], progress: ProgressCallback<'_>) -> Result<(), BuildError> {
    progress(&format!("installing {} (once)", packages.join(" ")));
    run_quietly(Command::new("apt-get").args(["-q", "update"]))?;
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive").args([
        "-q",
        "install",
        "-y",
        "--no-install-recommends",
    ]);
    run_quietly(install.args(packages)).map(drop)
}
