//! How long an MPI program takes that says hello, from the start of its launcher to the launcher's end.
use super::{
    arm::Values,
    launch::{self, Scratch},
    programs::Programs,
};
use crate::mpi::Release;
use anyhow::{Context, Result, ensure};
use std::{process::Command, time::Instant};

/// What starts the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Launcher {
    /// `peal run`.
    Peal,
    /// That which the release brings.
    ItsOwn,
}

impl Launcher {
    /// In the names of arms.
    pub fn name(self, release: Release) -> &'static str {
        match self {
            Launcher::Peal => "peal",
            Launcher::ItsOwn => release.launcher(),
        }
    }
}

/// The mean of so many starts, one after the other.
pub fn time(
    programs: &Programs,
    launcher: Launcher,
    release: Release,
    procs: u32,
    count: u32,
) -> Result<Values> {
    // Once without looking at the clock: what is read from a disk is then in memory for everybody.
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
            release.set_libraries(&programs.peers, &mut peal);
            peal
        }
        Launcher::ItsOwn => release.launch(&programs.peers, procs),
    };
    command.arg(program).arg("hello");
    let said = launch::finish(command, &Scratch::new()?)?;
    let greetings = said
        .lines()
        .filter(|line| line.starts_with("hello from "))
        .count();
    ensure!(
        usize::try_from(procs).ok() == Some(greetings),
        "{greetings} of {procs} procs said hello: {said:?}"
    );
    Ok(())
}
