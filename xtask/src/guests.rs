//! Builds the components that ship with Peal: `guests/<kind>/<name>`, crate `peal-<name>`, becomes
//! `target/guests/<name>.wasm`.
use crate::{command, toolchain};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};
use wit_component::ComponentEncoder;

/// Where cargo builds the guests; theirs is a workspace of its own.
pub fn target_dir(root: &Path) -> PathBuf {
    root.join("target/guests-build")
}

/// Builds all guests and returns the directory of the components. What has not changed stays untouched.
pub fn build(root: &Path) -> Result<PathBuf> {
    let toolchain = toolchain::find()?;
    let built = target_dir(root).join(toolchain::TARGET).join("release");
    let hint = if built.exists() { "" } else { " (first time: up to two minutes)" };
    println!("building the guests{hint}");
    let mut cargo = toolchain.cargo(&root.join("guests"));
    cargo.args(["build", "--quiet", "--release", "--workspace", "--target", toolchain::TARGET]);
    command::run(cargo.args(toolchain.build_args()).env("CARGO_TARGET_DIR", target_dir(root)))?;

    let components = root.join("target/guests");
    fs::create_dir_all(&components).with_context(|| format!("creating {}", components.display()))?;
    for name in names(&root.join("guests"))? {
        let module = built.join(format!("peal_{}.wasm", name.replace('-', "_")));
        let component = encode(&module).with_context(|| format!("making a component of {}", module.display()))?;
        write_if_changed(&components.join(format!("{name}.wasm")), &component)?;
    }
    Ok(components)
}

/// The names of the guests: the directories that hold a crate, two levels down.
fn names(guests: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for kind in directories(guests)? {
        for guest in directories(&kind)? {
            if guest.join("Cargo.toml").exists() {
                names.extend(guest.file_name().map(|name| name.to_string_lossy().into_owned()));
            }
        }
    }
    names.sort();
    Ok(names)
}

fn directories(parent: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(parent).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let entries = entries.with_context(|| format!("reading {}", parent.display()))?;
    Ok(entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir()).collect())
}

fn encode(module: &Path) -> Result<Vec<u8>> {
    let core = fs::read(module)?;
    ComponentEncoder::default().module(&core)?.validate(true).encode()
}

fn write_if_changed(file: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::write(file, bytes).with_context(|| format!("writing {}", file.display()))?;
    println!("wrote {} ({} bytes)", file.display(), bytes.len());
    Ok(())
}
