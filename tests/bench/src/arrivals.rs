//! Synchronization of the procs of a measurement outside of PMIx. `tests/c/bench/arrivals.h`
//! describes it.
use anyhow::{Context, Result};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Returns the time since the epoch by the clock that all procs of this machine share.
pub fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Files in the directory of a measurement.
pub struct Arrivals {
    tally: File,
    last: File,
    leave: File,
    over: File,
    turn: PathBuf,
}

impl Arrivals {
    /// Opens the files.
    pub fn open(dir: &Path) -> Result<Arrivals> {
        let open = |name, options: &mut OpenOptions| {
            let path = dir.join(name);
            options
                .open(&path)
                .with_context(|| format!("opening {}", path.display()))
        };
        // Pipes are opened for reading and writing, so that neither end waits for the other to be
        // opened.
        let both = || OpenOptions::new().read(true).write(true).clone();
        Ok(Arrivals {
            tally: open("tally", OpenOptions::new().append(true))?,
            last: open("last", &mut both())?,
            leave: open("leave", &mut both())?,
            over: open("over", &mut both())?,
            turn: dir.join("turn"),
        })
    }

    /// Records one of `round` arrivals.
    pub fn arrive(&self, at: Duration, round: u32) -> Result<()> {
        let mut tally = &self.tally;
        tally.write_all(&[0])?;
        // The position is now behind the bytes that were just appended.
        if tally.stream_position()?.is_multiple_of(u64::from(round)) {
            (&self.last).write_all(&u64::try_from(at.as_nanos())?.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Returns the time of the last arrival of a round.
    pub fn await_last(&self) -> Result<Duration> {
        let mut at = [0; 8];
        (&self.last).read_exact(&mut at)?;
        Ok(Duration::from_nanos(u64::from_ne_bytes(at)))
    }

    /// Waits until all procs may leave.
    pub fn await_leave(&self) -> Result<()> {
        Ok((&self.leave).read_exact(&mut [0])?)
    }

    /// Returns the turns of this job. Without `is_by_turns` it never waits for one.
    pub fn turns(&self, is_by_turns: bool) -> Result<Turns<'_>> {
        let open =
            || File::open(&self.turn).with_context(|| format!("opening {}", self.turn.display()));
        Ok(Turns {
            begin: is_by_turns.then(open).transpose()?,
            over: &self.over,
        })
    }
}

/// Turns of a job that measures by turns with other jobs.
pub struct Turns<'a> {
    /// Pipe with one byte for each turn. It ends when the process that gives the turns has ended.
    begin: Option<File>,
    over: &'a File,
}

impl Turns<'_> {
    /// Waits until the next turn begins.
    pub fn begin(&self) -> Result<()> {
        match self.begin.as_ref() {
            Some(mut begin) => Ok(begin.read_exact(&mut [0])?),
            None => Ok(()),
        }
    }

    /// Reports that the turn is over.
    pub fn end(&self) -> Result<()> {
        let mut over = self.over;
        match self.begin {
            Some(_) => Ok(over.write_all(&[0])?),
            None => Ok(()),
        }
    }
}
