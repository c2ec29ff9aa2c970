//! Modules of a release.
use super::{ReproducibleBuild, copy};
use crate::guests;
use anyhow::Result;
use std::path::Path;

/// Builds the modules that ship, and copies them into a directory.
///
/// # Errors
///
/// Names the module that was not built, as without the tools of its language.
pub fn build(build: &ReproducibleBuild, into: &Path) -> Result<()> {
    let components = guests::build_shipped(&build.sources)?;
    for guest in guests::shipped(&build.sources)? {
        let name = format!("{}.wasm", guest.manifest.name);
        copy(&components.join(&name), &into.join(&name))?;
    }
    Ok(())
}
