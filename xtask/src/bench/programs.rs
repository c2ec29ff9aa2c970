//! Programs of the bench, built for release. The C library is optimized at link time, as it is shipped.
use super::Group;
use crate::{
    c_programs,
    command::{self, cargo, target_dir},
    graphs, guests, libpmix, mpi, test_servers,
};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Paths of the programs and components.
#[derive(Clone)]
pub struct Programs {
    /// Path of `peal`.
    pub peal: PathBuf,
    /// Path of a `peal` whose trace is compiled out, if a group needs it.
    pub peal_without_trace: Option<PathBuf>,
    /// Measuring programs in Rust.
    pub bench: PathBuf,
    /// Servers of a cluster; built if a group needs it.
    pub cluster_bench: PathBuf,
    /// Attackers and victims of the tests; built if a group needs it.
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
    /// Directory of Slurm's packages.
    pub slurm: PathBuf,
}

/// Programs that are linked with `libpmix`.
#[derive(Clone)]
pub struct CPrograms {
    /// Host environment on the C library's server.
    pub host: PathBuf,
    /// Client that measures.
    pub client: PathBuf,
    /// Directory of the programs of the labs.
    pub labs: PathBuf,
    /// Library for `LD_PRELOAD` that sets `TCP_NODELAY` on all sockets.
    pub no_delay: PathBuf,
    /// Directory of Peal's `libpmix`, if a group needs it.
    pub peal_library: Option<PathBuf>,
}

impl Programs {
    /// Returns the path of a component.
    pub fn component(&self, name: &str) -> PathBuf {
        self.components.join(name).with_extension("wasm")
    }
}

/// Builds the programs that these groups need.
pub fn build(root: &Path, groups: &[Group]) -> Result<Programs> {
    eprintln!("building peal and peal-bench for release (first time: some minutes)");
    let packages = ["--package", "peal", "--package", "peal-bench"];
    command::run(
        cargo(root)
            .args(["build", "--quiet", "--release", "--bins"])
            .args(packages),
    )?;
    let peal_without_trace = groups
        .contains(&Group::Trace)
        .then(|| build_without_trace(root))
        .transpose()?;
    if [Group::Attack, Group::Siege]
        .iter()
        .any(|group| groups.contains(group))
    {
        // This is a build of its own: the tests need features that shipped programs do not have.
        let attack = ["--package", "peal-tests", "--bin", "peal-attack"];
        command::run(
            cargo(root)
                .args(["build", "--quiet", "--release"])
                .args(attack),
        )?;
    }
    if groups.contains(&Group::Cluster) {
        let cluster = ["--package", "peal-cluster-bench", "--features", "jemalloc"];
        command::run(
            cargo(root)
                .args(["build", "--quiet", "--release"])
                .args(cluster),
        )?;
    }
    let mut programs = located(root, &target_dir(root).join("release"))?;
    programs.peal_without_trace = peal_without_trace;
    let needs_library = [Group::Libpmix, Group::Launchers, Group::Nodes]
        .iter()
        .any(|group| groups.contains(group));
    if let Some(c) = programs.c.as_mut().filter(|_| needs_library) {
        c.peal_library = Some(libpmix::build_for_bench(root)?);
    }
    Ok(programs)
}

/// Builds the programs of the tests, for counts: those for release take minutes to build.
pub fn build_for_counts(root: &Path) -> Result<Programs> {
    graphs::build_programs(root)?;
    located(root, &target_dir(root).join("debug"))
}

/// Builds the components and the programs in C. Returns their paths, and those of the programs in Rust, which
/// are in this directory.
fn located(root: &Path, built: &Path) -> Result<Programs> {
    let components = guests::build(root)?;
    let c = c_programs::build(root)?.map(|programs| CPrograms {
        host: programs.join("host"),
        client: programs.join("bench/client"),
        labs: programs.join("labs"),
        no_delay: programs.join("bench/nodelay.so"),
        peal_library: None,
    });
    let cache = root.join("target/test-cache");
    let test_servers = test_servers::directory(root);
    Ok(Programs {
        peal: built.join("peal"),
        peal_without_trace: None,
        bench: built.join("peal-bench"),
        cluster_bench: built.join("peal-cluster-bench"),
        attack: built.join("peal-attack"),
        components,
        cache,
        c,
        mpi: mpi::program(root)?,
        slurm: test_servers::slurm_packages(&test_servers),
        test_servers,
    })
}

/// Builds `peal` with all spans and lines of the trace compiled out. The feature is that of the
/// crate `tracing`, so that `peal` itself has none that must never be shipped. Intermediate files
/// are in the usual place, where most of them serve both builds; the program is not.
fn build_without_trace(root: &Path) -> Result<PathBuf> {
    eprintln!("building peal without its trace (first time: some minutes)");
    let target = root.join("target/without-trace");
    command::run(
        cargo(root)
            .args(["build", "--quiet", "--release", "--bins"])
            .args(["--package", "peal"])
            .args(["--features", "tracing/release_max_level_off"])
            .arg("--target-dir")
            .arg(&target)
            .env("CARGO_BUILD_BUILD_DIR", root.join("target")),
    )?;
    Ok(target.join("release/peal"))
}
