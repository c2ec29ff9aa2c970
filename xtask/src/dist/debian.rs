//! Packages for Debian, built by debhelper from files that are there already.
use super::{copy, write};
use crate::command::{remove_directory, run_quietly};
use anyhow::{Context, Result};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// Revision of the packages of one version.
const REVISION: u32 = 1;

/// Files of the repository that the packages have under other names: file, and place in `debian/`.
const PACKAGED: [(&str, &str); 3] = [
    ("packaging/peal.service", "peal.service"),
    ("packaging/peal.sysusers", "peal.sysusers"),
    ("packaging/peal.tmpfiles", "peal.tmpfiles"),
];

/// Builds the packages in `dist` from the files in `place`. `time` is that of all files, in seconds since
/// the epoch. Returns the packages.
///
/// # Errors
///
/// Fails without debhelper.
pub fn build(
    root: &Path,
    dist: &Path,
    place: &Path,
    version: &str,
    time: u64,
) -> Result<Vec<PathBuf>> {
    let work = dist.join("debian-build");
    remove_directory(&work)?;
    let debian = work.join("debian");
    for entry in fs::read_dir(root.join("packaging/debian"))? {
        let path = entry?.path();
        copy(&path, &debian.join(path.file_name().unwrap_or_default()))?;
    }
    for (file, name) in PACKAGED {
        copy(&root.join(file), &debian.join(name))?;
    }
    copy(&root.join("packaging/peal.toml"), &work.join("peal.toml"))?;
    symlink(place, work.join("files")).context("linking the files")?;
    let date = run_quietly(Command::new("date").args(["--utc", "-R", "-d", &format!("@{time}")]))?;
    let version = format!("{version}-{REVISION}");
    let log = format!(
        "peal ({version}) unstable; urgency=medium\n\n  * /usr/share/doc/peal/CHANGELOG.md has the changes.\n\n \
         -- Peal maintainers <maintainers@peal.invalid>  {}\n",
        date.trim_end()
    );
    write(&debian.join("changelog"), &log)?;
    run_quietly(
        Command::new("dpkg-buildpackage")
            .current_dir(&work)
            .env("SOURCE_DATE_EPOCH", time.to_string())
            .args([
                "--build=binary",
                "--unsigned-changes",
                "--no-check-builddeps",
            ]),
    )?;
    let list = fs::read_to_string(debian.join("files")).context("reading the list of packages")?;
    let packages = list.lines().filter_map(|line| line.split(' ').next());
    // Sums and logs of the build are for archives.
    let (packages, others): (Vec<&str>, Vec<&str>) =
        packages.partition(|name| name.ends_with(".deb") && !name.contains("-dbgsym"));
    for name in others {
        fs::remove_file(dist.join(name)).with_context(|| format!("removing {name}"))?;
    }
    let changes = format!("peal_{version}_");
    for entry in fs::read_dir(dist)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&changes) && name.ends_with(".changes") {
            fs::remove_file(entry.path())?;
        }
    }
    remove_directory(&work)?;
    Ok(packages.iter().map(|name| dist.join(name)).collect())
}
