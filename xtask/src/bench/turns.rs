//! Jobs that measure by turns: all are there at once, each under its server, and while one measures for some milliseconds the others
//! wait. Whatever else the machine does, and it changes from second to second, disturbs all of them alike.
use super::{
    arm::{JobMeasurement, Values},
    launch::{self, Running, Scratch},
    programs::Programs,
};
use anyhow::{Result, ensure};
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

/// How often the jobs are started in a round. Much follows from where the kernel lets procs run, and that stays as it is for long.
const SITTINGS: u32 = 3;

/// What each job measured, in their order: the mean of several sittings.
pub fn measure(jobs: &[JobMeasurement], programs: &Programs) -> Result<Vec<Values>> {
    let mut sums = sitting(jobs, programs)?;
    for _ in 1..SITTINGS {
        for (sum, more) in sums
            .iter_mut()
            .flatten()
            .zip(sitting(jobs, programs)?.into_iter().flatten())
        {
            ensure!(sum.0 == more.0, "{} and {} are not the same", sum.0, more.0);
            sum.1 += more.1;
        }
    }
    sums.iter_mut()
        .flatten()
        .for_each(|(_, sum)| *sum /= f64::from(SITTINGS));
    Ok(sums)
}

/// Each job has as many turns, and each is first as often as the others.
fn sitting(jobs: &[JobMeasurement], programs: &Programs) -> Result<Vec<Values>> {
    let mut players = jobs
        .iter()
        .map(|job| Player::start(job, programs))
        .collect::<Result<Vec<_>>>()?;
    let turns = jobs.iter().map(|job| job.extra).max().unwrap_or_default();
    for turn in 0..turns {
        let mut order: Vec<&mut Player> = players.iter_mut().collect();
        order.rotate_left(turn as usize % jobs.len().max(1));
        order.into_iter().try_for_each(Player::play)?;
    }
    players.iter().try_for_each(Player::go)?;
    players.into_iter().map(Player::finish).collect()
}

impl Player {
    fn start(job: &JobMeasurement, programs: &Programs) -> Result<Player> {
        let scratch = Scratch::new()?;
        // Nobody else has them, so that the turns end when we do.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = |name| openat(CWD, scratch.path().join(name), flags, Mode::empty());
        let (turn, over) = (pipe("turn")?, pipe("over")?);
        let server = Running::start(job.command(programs, &scratch)?, &scratch)?;
        Ok(Player {
            server,
            scratch,
            turn,
            over,
        })
    }

    /// It may take its turn, or behind the last one go.
    fn go(&self) -> Result<()> {
        write(&self.turn, &[0])?;
        Ok(())
    }

    fn play(&mut self) -> Result<()> {
        self.go()?;
        let over = &self.over;
        self.server
            .until("its turn is over", || match read(over, &mut [0; 1]) {
                Ok(_) => Ok(Some(())),
                Err(Errno::AGAIN) => Ok(None),
                Err(error) => Err(error.into()),
            })
    }

    fn finish(self) -> Result<Values> {
        launch::values(&self.server.finish(&self.scratch)?)
    }
}
