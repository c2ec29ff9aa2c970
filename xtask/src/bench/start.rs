//! Time of an MPI program that says hello, from the start of its launcher to the launcher's end.
use super::{
    arm::Values,
    launch::{self, Scratch},
    programs::Programs,
};
use crate::mpi::Release;
use anyhow::{Context, Result, ensure};
use std::{process::Command, time::Instant};

/// Launcher of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// `peal run`.
    Peal,
    /// Launcher of the release itself.
    ItsOwn,
    /// None: each rank is an MPI job of its own. Any launcher's ranks take at least this long.
    Nobody,
}

impl Launcher {
    /// Returns the name in names of arms.
    pub fn name(self, release: Release) -> &'static str {
        match self {
            Launcher::Peal => "peal",
            Launcher::ItsOwn => release.launcher(),
            Launcher::Nobody => "floor",
        }
    }
}

/// Runs a command as often as its first argument says, all at the same time.
const ALONE: &str =
    r#"count=$1; shift; while [ "$count" -gt 0 ]; do "$@" & count=$((count - 1)); done; wait"#;

/// Measures the mean time of this number of starts, one after the other.
pub fn time(
    programs: &Programs,
    launcher: Launcher,
    release: Release,
    procs: u32,
    count: u32,
) -> Result<Values> {
    // The first start is not measured: it reads files from the disk that are cached afterwards.
    start(programs, launcher, release, procs)?;
    let began = Instant::now();
    for _ in 0..count {
        start(programs, launcher, release, procs)?;
    }
    let each = began.elapsed().as_secs_f64() * 1000.0 / f64::from(count.max(1));
    Ok(vec![("ms".to_owned(), each)])
}

fn start(programs: &Programs, launcher: Launcher, release: Release, procs: u32) -> Result<()> {
    let program = programs
        .mpi
        .as_ref()
        .context("the MPI program is not there")?;
    let mut command = match launcher {
        Launcher::Peal => {
            let mut peal = Command::new(&programs.peal);
            peal.args(["run", "-n", &procs.to_string(), "--"]);
            peal.env("XDG_CACHE_HOME", &programs.cache)
                .env_remove("PEAL_LOG");
            release.set_libraries(&programs.test_servers, &mut peal);
            peal
        }
        Launcher::ItsOwn => release.launch(&programs.test_servers, procs),
        Launcher::Nobody => {
            let mut shell = Command::new("sh");
            shell.args(["-c", ALONE, "sh", &procs.to_string()]);
            // Else each would start a daemon of its release.
            shell.env("OMPI_MCA_ess_singleton_isolated", "1");
            release.set_libraries(&programs.test_servers, &mut shell);
            shell
        }
    };
    command.arg(program).arg("hello");
    let output = launch::finish(command, &Scratch::new()?)?;
    let greetings = output
        .lines()
        .filter(|line| line.starts_with("hello from "))
        .count();
    ensure!(
        usize::try_from(procs).ok() == Some(greetings),
        "{greetings} of {procs} procs said hello: {output:?}"
    );
    Ok(())
}
