//! Launchers with a PMIx server of their own: those of other projects, and Peal's.
use crate::{Done, c_program, guest, peal, program, provided, root, run_within, test_servers};
use std::{
    ffi::{OsStr, OsString},
    fs,
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
    time::Duration,
};

/// Launcher of jobs.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// `peal run`.
    Peal,
    /// A bare server of the C library, `tests/c/host.c`.
    CServer(PathBuf),
    /// `mpirun` of Open MPI 4.1.
    Mpirun(PathBuf),
    /// `prterun` of PRRTE, with Open MPI 5.0 below this directory.
    Prterun(PathBuf),
}

/// Variables that let the launchers start procs as root, and more of them than there are cores.
const LENIENT: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
    ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
];

impl Launcher {
    /// Returns the C library's server, for tests with `#[needs(libpmix)]`.
    #[track_caller]
    pub fn c_server() -> Launcher {
        Launcher::CServer(c_program("host"))
    }

    /// Returns `mpirun` of Open MPI 4.1, for tests with `#[needs(openmpi4)]`.
    #[track_caller]
    pub fn mpirun() -> Launcher {
        Launcher::Mpirun(provided("/usr/bin/mpirun".into()))
    }

    /// Returns PRRTE, for tests with `#[needs(openmpi5)]`.
    #[track_caller]
    pub fn prterun() -> Launcher {
        let release = test_servers().join("ompi5");
        provided(release.join("bin/prterun"));
        Launcher::Prterun(release)
    }

    /// Returns the command that starts a job of this number of procs, with these options of the
    /// launcher.
    pub fn job<S: AsRef<OsStr>>(
        &self,
        procs: u32,
        options: &[&str],
        program: impl IntoIterator<Item = S>,
    ) -> Command {
        let procs = procs.to_string();
        let mut command = match self {
            Launcher::Peal => peal(["run", "-n", &procs]),
            Launcher::CServer(host) => {
                let mut command = Command::new(host);
                command.arg(&procs);
                command
            }
            Launcher::Mpirun(mpirun) => {
                let mut command = Command::new(mpirun);
                command.args(["--oversubscribe", "-n", &procs]);
                command.env("OMPI_MCA_orte_tmpdir_base", session_directory());
                command
            }
            Launcher::Prterun(release) => {
                let mut command = Command::new(release.join("bin/prterun"));
                command.args(["--map-by", ":oversubscribe", "-n", &procs]);
                command
                    .env("OPAL_PREFIX", release)
                    .env("LD_LIBRARY_PATH", release.join("lib"));
                command
            }
        };
        command
            .args(options)
            .args(program)
            .stdin(Stdio::null())
            .envs(LENIENT);
        command
            .env("XDG_CACHE_HOME", root().join("target/test-cache"))
            .env("PEAL_CONFIG", "")
            .env_remove("PEAL_LOG");
        command
    }
}

/// Returns a directory of this test for the sessions of `mpirun`. In a common one they make and remove the
/// same directory, so that of those that start while others end some fail.
fn session_directory() -> PathBuf {
    let thread = thread::current();
    let test = thread.name().unwrap_or("jobs").replace("::", ".");
    let name = format!("{}.{test}", process::id());
    let directory = root().join("target/mpirun").join(name);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Number of attempts after which a hanging launcher counts as a failure.
const ATTEMPTS: usize = 3;

/// Status of `timeout` for a command that it ended.
const LATE: i32 = 124;

/// Runs a job of a launcher of another project within this time. Tries again if that hangs, as these
/// launchers sometimes do on few cores.
#[track_caller]
pub fn run_under_foreign(command: &Command, limit: Duration) -> Done {
    let mut bounded = Command::new("timeout");
    bounded
        .arg(limit.as_secs().to_string())
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    let mut attempts = (0..ATTEMPTS).map(|_| run_within(limit * 2, &mut bounded));
    let done = attempts.find(|done| done.status != Some(LATE));
    done.unwrap_or_else(|| panic!("{command:?} hangs {ATTEMPTS} times"))
}

/// Returns `peal attach` with these handlers, followed by a program.
pub fn attach(handlers: &[&str], options: &[&str], words: &[OsString]) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![program("peal").into(), "attach".into()];
    for handler in handlers {
        command.extend(["--handler".into(), guest(handler).into()]);
    }
    command.extend(options.iter().map(OsString::from));
    command.push("--".into());
    command.extend(words.iter().cloned());
    command
}
