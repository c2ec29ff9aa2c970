//! Comparison of the SDK in Rust with its last release, by `cargo semver-checks`.
use crate::{
    command::{cargo, run, run_quietly},
    guests,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Release of the tool, of October 2026.
const TOOL: &str = "cargo-semver-checks@0.51.0";

/// Directory with one directory for each released version. The released crate is among its files,
/// since a clone may lack the commits of the release.
const RELEASES: &str = "tests/contract";

/// Directories of the crate that decide what it offers.
const SOURCES: [&str; 2] = ["src", "wit"];

/// Checks that the SDK needs no other version than it has. An SDK that is as released needs no tool.
pub fn check(root: &Path) -> Result<()> {
    let archive = last_release(&root.join(RELEASES))?;
    let place = root.join("target/semver-checks");
    let released = unpack(&archive, &place)?;
    let sdk = root.join("sdk/rust");
    let sources = |of: &Path| guests::fingerprint(&SOURCES.map(|dir| of.join(dir)));
    if sources(&released)? == sources(&sdk)? {
        println!("as in {}", archive.display());
        return Ok(());
    }
    run(Command::new(provide(root)?)
        .current_dir(&sdk)
        .arg("semver-checks")
        .arg("--baseline-root")
        .arg(&released)
        .env("CARGO_TARGET_DIR", &place))
}

/// Returns the crate of the last release.
fn last_release(releases: &Path) -> Result<PathBuf> {
    let mut found: Vec<(semver::Version, PathBuf)> = Vec::new();
    for release in entries(releases)?.iter().filter(|path| path.is_dir()) {
        for file in entries(release)? {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let version = name.strip_prefix("peal-sdk-").map(semver::Version::parse);
            if let Some(Ok(version)) = version {
                found.push((version, file));
            }
        }
    }
    let last = found
        .into_iter()
        .max_by(|(one, _), (other, _)| one.cmp(other));
    let (_, file) = last.with_context(|| format!("{} has no crate", releases.display()))?;
    Ok(file)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.with_context(|| format!("reading {}", dir.display()))?;
    Ok(entries.into_iter().map(|entry| entry.path()).collect())
}

/// Unpacks a crate below a directory, and returns its own directory.
fn unpack(archive: &Path, place: &Path) -> Result<PathBuf> {
    let into = place.join("released");
    fs::create_dir_all(&into).with_context(|| format!("creating {}", into.display()))?;
    run(Command::new("tar")
        .arg("-xzf")
        .arg(archive)
        .arg("-C")
        .arg(&into))?;
    let unpacked = into.join(archive.file_stem().unwrap_or_default());
    // Without a workspace of its own it would be taken for a lost member of the one around it.
    let manifest = unpacked.join("Cargo.toml");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("reading {}", manifest.display()))?;
    fs::write(&manifest, text + "\n[workspace]\n")
        .with_context(|| format!("writing {}", manifest.display()))?;
    Ok(unpacked)
}

/// Returns the path of the tool: the user's own, else compiled into `target/tools`. No registry has
/// it as a program.
fn provide(root: &Path) -> Result<PathBuf> {
    let works = |program: &Path| {
        run_quietly(Command::new(program).args(["semver-checks", "--version"])).is_ok()
    };
    let installed = PathBuf::from("cargo-semver-checks");
    if works(&installed) {
        return Ok(installed);
    }
    let place = root.join("target/tools/semver-checks");
    let compiled = place.join("bin/cargo-semver-checks");
    if !works(&compiled) {
        println!("compiling {TOOL} (once, some minutes)");
        // Unoptimized: it compares two crates, and half of the time is saved.
        run(cargo(root)
            .args(["install", "--quiet", "--locked", "--debug", TOOL, "--root"])
            .arg(&place))?;
    }
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test may fail")]
    fn last_release_is_the_highest_version() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let last = last_release(&root.join(RELEASES)).unwrap();
        assert!(last.extension().is_some_and(|of| of == "crate"), "{last:?}");
        assert!(last_release(&root.join("wit")).is_err());
    }
}
