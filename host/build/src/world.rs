//! World of one component: its imports and exports, in WIT.
use crate::{BuildError, Manifest, bundled::capabilities, error::of_file};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Name of the world in the package `peal:module`.
pub(crate) const WORLD: &str = "peal-module";

/// Version of the contract.
pub(crate) const VERSION: &str = "0.1.0";

/// Interfaces that every module may import without a grant.
const UNGRANTED_INTERFACES: [&str; 3] = ["call", "amendment", "exception"];

/// Returns the world of a component as text. If the compiler removes unused imports, the world has
/// all capabilities.
pub fn world(manifest: &Manifest) -> String {
    let all: Vec<&str> = capabilities().collect();
    let own: Vec<&str> = manifest.capabilities.iter().map(String::as_str).collect();
    let capabilities = if manifest.language.detects_imports() {
        all
    } else {
        own
    };
    let mut text = format!("package peal:module;\n\nworld {WORLD} {{\n");
    for import in UNGRANTED_INTERFACES.into_iter().chain(capabilities) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  import peal:pmix/{import}@{VERSION};");
    }
    for role in &manifest.roles {
        let _ = writeln!(text, "  export peal:pmix/{role}@{VERSION};");
    }
    text + "}\n"
}

/// Writes the world and the contract in the layout of component tools, and returns the directory.
pub(crate) fn write(
    manifest: &Manifest,
    contract: &Path,
    into: &Path,
) -> Result<PathBuf, BuildError> {
    let dir = into.join("wit");
    // Component tools look in `deps` for the packages that a world uses.
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
