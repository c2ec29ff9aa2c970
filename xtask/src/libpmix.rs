//! `cargo xtask libpmix`: Peal as the C library, laid out so that programs find it.
use crate::{
    command::{cargo, run, target_dir},
    dist::ReproducibleBuild,
    graphs,
};
use anyhow::{Context, Result};
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// Name by which programs load the library.
const SONAME: &str = "libpmix.so.2";

/// Name by which the linker finds the library.
const LINK: &str = "libpmix.so";

/// Name by which cargo builds the library.
const BUILT: &str = "libpeal_libpmix.so";

/// Kind of build of the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LibraryProfile {
    /// As the tests use it.
    Debug,
    /// As it is shipped: optimized, at link time too, and stripped.
    Shipped,
}

/// Builds the library, lays it out in `target/libpmix/lib`, and prints its size.
pub fn build(root: &Path, profile: LibraryProfile) -> Result<()> {
    let directory = root.join("target/libpmix/lib");
    let library = match profile {
        LibraryProfile::Debug => {
            graphs::build_library(root)?;
            lay_out(&target_dir(root).join("debug").join(BUILT), &directory)?
        }
        LibraryProfile::Shipped => build_by(cargo(root), &target_dir(root), &directory)?,
    };
    let size = fs::metadata(&library)
        .with_context(|| format!("reading {}", library.display()))?
        .len();
    println!("{}: {size} bytes", library.display());
    Ok(())
}

/// Builds the library as it is shipped, and lays it out in a directory of the bench, so that the
/// library of the tests stays as it is. Returns the directory.
pub fn build_for_bench(root: &Path) -> Result<PathBuf> {
    let directory = root.join("target/libpmix-bench/lib");
    build_by(cargo(root), &target_dir(root), &directory)?;
    Ok(directory)
}

/// Builds the library as it is shipped, and lays it out in this directory.
pub fn build_shipped(build: &ReproducibleBuild, directory: &Path) -> Result<()> {
    build_by(build.cargo(), &build.target, directory).map(drop)
}

/// Builds the library as it is shipped by this command of cargo, lays it out in this directory, and returns its path.
fn build_by(mut command: Command, target: &Path, directory: &Path) -> Result<PathBuf> {
    command.args(["rustc", "--package", graphs::LIBRARY, "--lib"]);
    command.args(["--crate-type", "cdylib", "--profile", "library"]);
    run(&mut command)?;
    lay_out(&target.join("library").join(BUILT), directory)
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
