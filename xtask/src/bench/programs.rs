//! What is measured, built as it is shipped.
use crate::{
    c_programs,
    command::{self, cargo},
    guests, mpi, test_servers,
};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// The programs and components.
pub struct Programs {
    /// `peal`.
    pub peal: PathBuf,
    /// The measuring programs that are written in Rust.
    pub bench: PathBuf,
    /// The attackers and their victims, of the tests.
    pub attack: PathBuf,
    /// The components.
    pub components: PathBuf,
    /// Where compiled code is kept.
    pub cache: PathBuf,
    /// Those that are linked with `libpmix`, if it is to be had.
    pub c: Option<CPrograms>,
    /// The MPI program of the tests, if there is an Open MPI.
    pub mpi: Option<PathBuf>,
    /// Where the releases of Open MPI are that are not the system's.
    pub peers: PathBuf,
}

/// The programs that are linked with `libpmix`.
pub struct CPrograms {
    /// The host environment on the C library's server.
    pub host: PathBuf,
    /// The client that measures.
    pub client: PathBuf,
    /// For `LD_PRELOAD`: sets `TCP_NODELAY` everywhere.
    pub no_delay: PathBuf,
}

/// Builds everything.
pub fn build(root: &Path) -> Result<Programs> {
    eprintln!("building peal and peal-bench for release (first time: some minutes)");
    let packages = ["--package", "peal", "--package", "peal-bench"];
    command::run(
        cargo(root)
            .args(["build", "--quiet", "--release", "--bins"])
            .args(packages),
    )?;
    // By itself: the tests ask for features that what is shipped does not have.
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
        peers: test_servers::directory(root),
    })
}
