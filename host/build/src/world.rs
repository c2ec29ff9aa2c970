//! The world of one component: what it may import and what it exports, in WIT.
use crate::{BuildError, Manifest, bundled::capabilities, error::of_file};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The name of that world, of the package `peal:module`.
pub(crate) const WORLD: &str = "peal-module";

/// The version of the contract.
const VERSION: &str = "0.1.0";

/// What every module may import; it takes no grant.
const ALWAYS: [&str; 3] = ["call", "amendment", "exception"];

/// The world of a component as text. Where the language leaves out what is not used, all capabilities are in it.
pub fn world(manifest: &Manifest) -> String {
    let all: Vec<&str> = capabilities().collect();
    let own: Vec<&str> = manifest.capabilities.iter().map(String::as_str).collect();
    let asked = if manifest.language.asks_for_what_it_uses() {
        all
    } else {
        own
    };
    let mut text = format!("package peal:module;\n\nworld {WORLD} {{\n");
    for import in ALWAYS.into_iter().chain(asked) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  import peal:pmix/{import}@{VERSION};");
    }
    for role in &manifest.roles {
        let _ = writeln!(text, "  export peal:pmix/{role}@{VERSION};");
    }
    text + "}\n"
}

/// Writes the world with the contract beside it, as tools of the component model expect it, and returns the directory.
pub(crate) fn write(
    manifest: &Manifest,
    contract: &Path,
    into: &Path,
) -> Result<PathBuf, BuildError> {
    let dir = into.join("wit");
    let deps = dir.join("deps/pmix");
    fs::create_dir_all(&deps).map_err(of_file(&deps))?;
    let entries = fs::read_dir(contract).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    for entry in entries.map_err(of_file(contract))? {
        fs::copy(entry.path(), deps.join(entry.file_name())).map_err(of_file(&entry.path()))?;
    }
    let file = dir.join("world.wit");
    fs::write(&file, world(manifest)).map_err(of_file(&file))?;
    Ok(dir)
}
