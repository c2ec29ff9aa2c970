//! Jobs that measure by turns: all are there at once, each under its server, and while one measures for some milliseconds the others
//! wait. Whatever else the machine does, and it changes from second to second, disturbs all of them alike.
use super::{
    arm::{Job, Values},
    launch::{self, Running, Scratch},
    programs::Programs,
};
use anyhow::Result;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::{Errno, read, write},
};
use std::os::fd::OwnedFd;

/// A job that waits for its turn.
struct Player {
    server: Running,
    scratch: Scratch,
    turn: OwnedFd,
    over: OwnedFd,
}

/// What each job measured, in their order. Each has as many turns, every other time from the last job to the first.
pub fn measure(jobs: &[Job], programs: &Programs) -> Result<Vec<Values>> {
    let mut players = jobs.iter().map(|job| Player::start(job, programs)).collect::<Result<Vec<_>>>()?;
    let turns = jobs.iter().map(|job| job.extra).max().unwrap_or_default();
    for _ in 0..turns {
        players.iter_mut().try_for_each(Player::play)?;
        players.reverse();
    }
    if turns % 2 == 1 {
        players.reverse();
    }
    players.into_iter().map(Player::finish).collect()
}

impl Player {
    fn start(job: &Job, programs: &Programs) -> Result<Player> {
        let scratch = Scratch::new()?;
        let pipe = |name| openat(CWD, scratch.path().join(name), OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
        let (turn, over) = (pipe("turn")?, pipe("over")?);
        let server = Running::start(job.command(programs, &scratch)?, &scratch)?;
        Ok(Player { server, scratch, turn, over })
    }

    fn play(&mut self) -> Result<()> {
        write(&self.turn, &[0])?;
        let over = &self.over;
        self.server.until("its turn is over", || match read(over, &mut [0; 1]) {
            Ok(_) => Ok(Some(())),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        })
    }

    fn finish(self) -> Result<Values> {
        launch::values(&self.server.finish(&self.scratch)?)
    }
}
