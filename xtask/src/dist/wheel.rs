//! Python wheel that carries the command `peal`.
use super::{copy, write};
use crate::{
    command::{remove_directory, run_quietly},
    packages,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Word in `packaging/wheel/pyproject.toml` that stands for the version.
const VERSION: &str = "VERSION";

/// Builds the wheel in `dist` from the files in `place`. `time` is that of all files, in seconds since the
/// epoch. Returns the wheel.
pub fn build(root: &Path, dist: &Path, place: &Path, version: &str, time: u64) -> Result<PathBuf> {
    let work = dist.join("wheel-build");
    remove_directory(&work)?;
    let sources = root.join("packaging/wheel");
    let project = fs::read_to_string(sources.join("pyproject.toml"))
        .context("reading packaging/wheel/pyproject.toml")?;
    write(
        &work.join("pyproject.toml"),
        &project.replacen(VERSION, version, 1),
    )?;
    copy(&sources.join("platform.py"), &work.join("platform.py"))?;
    copy(&place.join("bin/peal"), &work.join("peal"))?;
    let bill = "share/doc/peal/peal.cdx.json";
    copy(&place.join(bill), &work.join("peal.cdx.json"))?;
    let python = packages::python_with_build(root)?;
    let built = work.join("built");
    run_quietly(
        Command::new(python)
            .args(["-m", "build", "--wheel", "--outdir"])
            .args([&built, &work])
            .env("SOURCE_DATE_EPOCH", time.to_string()),
    )?;
    let mut wheels = fs::read_dir(&built)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = wheels.next().context("no wheel was built")?;
    let kept = dist.join(wheel.file_name().unwrap_or_default());
    fs::rename(&wheel, &kept).with_context(|| format!("moving {}", wheel.display()))?;
    remove_directory(&work)?;
    Ok(kept)
}
