//! `cargo xtask libpmix`: Peal as the C library, laid out so that programs find it.
use crate::command::{cargo, run};
use anyhow::{Context, Result};
use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Name by which programs load the library.
const SONAME: &str = "libpmix.so.2";

/// Name by which the linker finds the library.
const LINK: &str = "libpmix.so";

/// Builds the library, lays it out in `target/libpmix/lib`, and prints its size. With `release` it is
/// optimized and stripped.
pub fn build(root: &Path, release: bool) -> Result<()> {
    let mut command = cargo(root);
    command.args(["rustc", "--package", "peal-libpmix", "--lib"]);
    command.args(["--crate-type", "cdylib"]);
    if release {
        // The option is for this library alone, so that no other crate is built again for it.
        command.args(["--release", "--", "-C", "strip=symbols"]);
    }
    run(&mut command)?;
    let profile = if release { "release" } else { "debug" };
    let built = target_dir(root).join(profile).join("libpeal_libpmix.so");
    let directory = root.join("target/libpmix/lib");
    let library = lay_out(&built, &directory)?;
    let size = fs::metadata(&library)
        .with_context(|| format!("reading {}", library.display()))?
        .len();
    println!("{}: {size} bytes", library.display());
    Ok(())
}

/// Copies the library, and makes the link of the linker. Programs that have loaded the old library
/// keep it.
fn lay_out(built: &Path, directory: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    let library = directory.join(SONAME);
    let fresh = directory.join("libpmix.so.new");
    fs::copy(built, &fresh).with_context(|| format!("copying {}", built.display()))?;
    fs::rename(&fresh, &library).with_context(|| format!("writing {}", library.display()))?;
    let link = directory.join(LINK);
    match symlink(SONAME, &link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("linking {}", link.display()))
        }
        _ => Ok(library),
    }
}

/// Returns cargo's target directory.
fn target_dir(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}
