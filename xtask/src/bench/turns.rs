//! Jobs that measure by turns. All run at once, each under its server; while one measures for some
//! milliseconds, the others wait. Changing load of the machine then disturbs all of them alike.
use super::{
    arm::{JobMeasurement, Values},
    launch::{self, Running, Scratch},
    programs::Programs,
};
use anyhow::{Result, ensure};
use std::os::fd::OwnedFd;

/// Job that waits for its turn.
struct TurnJob {
    server: Running,
    scratch: Scratch,
    turn: OwnedFd,
    over: OwnedFd,
}

/// Number of starts of the jobs in a round. Much depends on the cores on which the kernel runs the
/// procs, and that changes only with a new start.
const SESSIONS: u32 = 3;

/// Measures the jobs. Returns the values of each in their order, as means over several sessions.
pub fn measure(jobs: &[JobMeasurement], programs: &Programs) -> Result<Vec<Values>> {
    let mut sums = session(jobs, programs)?;
    for _ in 1..SESSIONS {
        for (sum, more) in sums
            .iter_mut()
            .flatten()
            .zip(session(jobs, programs)?.into_iter().flatten())
        {
            ensure!(sum.0 == more.0, "{} and {} are not the same", sum.0, more.0);
            sum.1 += more.1;
        }
    }
    sums.iter_mut()
        .flatten()
        .for_each(|(_, sum)| *sum /= f64::from(SESSIONS));
    Ok(sums)
}

/// Runs one session. All jobs have the same number of turns, and each is first equally often.
fn session(jobs: &[JobMeasurement], programs: &Programs) -> Result<Vec<Values>> {
    let mut players = jobs
        .iter()
        .map(|job| TurnJob::start(job, programs))
        .collect::<Result<Vec<_>>>()?;
    let turns = jobs.iter().map(|job| job.extra).max().unwrap_or_default();
    for turn in 0..turns {
        let mut order: Vec<&mut TurnJob> = players.iter_mut().collect();
        order.rotate_left(turn as usize % jobs.len().max(1));
        order.into_iter().try_for_each(TurnJob::play)?;
    }
    players.iter().try_for_each(TurnJob::go)?;
    players.into_iter().map(TurnJob::finish).collect()
}

impl TurnJob {
    fn start(job: &JobMeasurement, programs: &Programs) -> Result<TurnJob> {
        let scratch = Scratch::new()?;
        // No other process has these pipes open, so that the turns end with this process.
        let turn = scratch.pipe("turn")?;
        let over = scratch.pipe("over")?;
        let server = Running::start(job.command(programs, &scratch)?, &scratch)?;
        Ok(TurnJob {
            server,
            scratch,
            turn,
            over,
        })
    }

    /// Lets the job take its turn, or end after the last one.
    fn go(&self) -> Result<()> {
        launch::release(&self.turn, 1)
    }

    fn play(&mut self) -> Result<()> {
        self.go()?;
        let [_] = self.server.message("its turn is over", &self.over)?;
        Ok(())
    }

    fn finish(self) -> Result<Values> {
        launch::values(&self.server.finish(&self.scratch)?)
    }
}
