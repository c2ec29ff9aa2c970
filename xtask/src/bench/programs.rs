//! Programs of the bench, built as they are shipped.
use crate::{
    c_programs,
    command::{self, cargo},
    guests, mpi, test_servers,
};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Paths of the programs and components.
pub struct Programs {
    /// Path of `peal`.
    pub peal: PathBuf,
    /// Measuring programs in Rust.
    pub bench: PathBuf,
    /// Attackers and victims of the tests.
    pub attack: PathBuf,
    /// Directory of the components.
    pub components: PathBuf,
    /// Cache of compiled code.
    pub cache: PathBuf,
    /// Programs that are linked with `libpmix`, if it is present.
    pub c: Option<CPrograms>,
    /// MPI program of the tests, if there is an Open MPI.
    pub mpi: Option<PathBuf>,
    /// Directory of the releases of Open MPI that are not the system's.
    pub test_servers: PathBuf,
}

/// Programs that are linked with `libpmix`.
pub struct CPrograms {
    /// Host environment on the C library's server.
    pub host: PathBuf,
    /// Client that measures.
    pub client: PathBuf,
    /// Library for `LD_PRELOAD` that sets `TCP_NODELAY` on all sockets.
    pub no_delay: PathBuf,
}

/// Builds all programs.
pub fn build(root: &Path) -> Result<Programs> {
    eprintln!("building peal and peal-bench for release (first time: some minutes)");
    let packages = ["--package", "peal", "--package", "peal-bench"];
    command::run(
        cargo(root)
            .args(["build", "--quiet", "--release", "--bins"])
            .args(packages),
    )?;
    // This is a build of its own: the tests need features that shipped programs do not have.
    let attack = [
        "build",
        "--quiet",
        "--release",
        "--package",
        "peal-tests",
        "--bin",
        "peal-attack",
    ];
    command::run(cargo(root).args(attack))?;
    let built = root.join("target/release");
    let components = guests::build(root)?;
    let c = c_programs::build(root)?.map(|programs| CPrograms {
        host: programs.join("host"),
        client: programs.join("bench/client"),
        no_delay: programs.join("bench/nodelay.so"),
    });
    let cache = root.join("target/test-cache");
    Ok(Programs {
        peal: built.join("peal"),
        bench: built.join("peal-bench"),
        attack: built.join("peal-attack"),
        components,
        cache,
        c,
        mpi: mpi::program(root)?,
        test_servers: test_servers::directory(root),
    })
}
