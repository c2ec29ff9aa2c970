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

    /// Returns the pipe with the turns of this job, one byte each. It ends when the process that
    /// gives the turns has ended.
    pub fn turns(&self) -> Result<File> {
        File::open(&self.turn).with_context(|| format!("opening {}", self.turn.display()))
    }

    /// Reports that the turn is over.
    pub fn turn_is_over(&self) -> Result<()> {
        Ok((&self.over).write_all(&[0])?)
    }
}
