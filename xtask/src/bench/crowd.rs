//! Times of the server with many procs: until all have initialized, `peal ps`, a killed proc, and the end.
use super::{
    arm::{Hosts, JobMeasurement, Side, Values},
    launch::{self, Running, Scratch},
    programs::Programs,
};
use crate::command::run_quietly;
use anyhow::{Context, Result};
use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};
use std::{
    fs,
    fs::OpenOptions,
    os::fd::OwnedFd,
    process::Command,
    time::{Duration, Instant},
};

/// Number of runs of `peal ps`, of which the median counts.
const LISTS: usize = 5;

/// Job with many procs, in the mode `crowd` of the measuring program.
struct Crowd {
    server: Running,
    scratch: Scratch,
    procs: u32,
    last: OwnedFd,
    turn: OwnedFd,
    leave: OwnedFd,
}

/// Measures a job of this many procs once, in milliseconds and in processor time of the server for a proc.
pub fn measure(programs: &Programs, side: Side, procs: u32) -> Result<Values> {
    let start = now();
    let mut crowd = Crowd::start(programs, side, procs)?;
    let initialized = crowd.arrival("all procs have initialized")?;
    let used = processor_time(crowd.server.pid())?;
    launch::release(&crowd.turn, procs)?;
    crowd.arrival("all procs have a handler")?;
    let mut values = vec![
        ("init_ms".to_owned(), milliseconds(initialized - start)),
        (
            "init_cpu_us".to_owned(),
            used.as_secs_f64() * 1e6 / f64::from(procs),
        ),
    ];
    if side == Side::Peal {
        let list = crowd.list(programs)?;
        values.push(("ps_ms".to_owned(), milliseconds(list)));
    }
    let (killed, told) = crowd.kill_one()?;
    values.push(("death_ms".to_owned(), milliseconds(told - killed)));
    let end = crowd.end()?;
    values.push(("end_ms".to_owned(), milliseconds(end)));
    Ok(values)
}

impl Crowd {
    fn start(programs: &Programs, side: Side, procs: u32) -> Result<Crowd> {
        let scratch = Scratch::new()?;
        let pipe = |name| scratch.pipe(name);
        let (last, turn, leave) = (pipe("last")?, pipe("turn")?, pipe("leave")?);
        let job = JobMeasurement {
            side,
            procs,
            mode: "crowd",
            count: 0,
            warm: 0,
            extra: 0,
            hosts: Hosts::Nothing,
        };
        let mut command = job.command(programs, &scratch)?;
        // The C library's host environment lets the other procs continue, too.
        command.env("PEAL_RUN_ON_ABORT", "continue");
        let server = Running::start(command, &scratch)?;
        Ok(Crowd {
            server,
            scratch,
            procs,
            last,
            turn,
            leave,
        })
    }

    /// Waits for the last arrival of a stage and returns its time.
    fn arrival(&mut self, what: &str) -> Result<Duration> {
        let at = self.server.message(what, &self.last)?;
        Ok(Duration::from_nanos(u64::from_ne_bytes(at)))
    }

    /// Returns the median time of `peal ps`.
    fn list(&self, programs: &Programs) -> Result<Duration> {
        let pid = self.server.pid().to_string();
        let mut times = Vec::new();
        for _ in 0..LISTS {
            let mut command = Command::new(&programs.peal);
            command.args(["ps", "--pid", &pid]);
            let start = Instant::now();
            run_quietly(&mut command)?;
            times.push(start.elapsed());
        }
        times.sort();
        times.get(LISTS / 2).copied().context("nothing was listed")
    }

    /// Kills the last rank. Returns the time, and that of the last handler that was told.
    fn kill_one(&mut self) -> Result<(Duration, Duration)> {
        OpenOptions::new()
            .write(true)
            .open(self.scratch.path().join("tally"))?
            .set_len(0)?;
        let processes = fs::read(self.scratch.path().join("times"))?;
        let process = processes
            .last_chunk()
            .context("no proc has written its process id")?;
        let process =
            Pid::from_raw(i32::from_ne_bytes(*process)).context("a process has the id 0")?;
        let killed = now();
        kill_process(process, Signal::KILL)?;
        let told = self.arrival("all others are told that a proc was killed")?;
        Ok((killed, told))
    }

    /// Lets the others end and returns the time until the server has ended.
    fn end(self) -> Result<Duration> {
        let start = Instant::now();
        launch::release(&self.leave, self.procs - 1)?;
        // The status is that of the killed proc.
        self.server.ended()?;
        Ok(start.elapsed())
    }
}

/// Returns the processor time of all threads that a process has.
fn processor_time(process: u32) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        let on_a_processor = text.split_whitespace().next();
        let nanoseconds = on_a_processor.context("a thread has no times")?.parse()?;
        sum += Duration::from_nanos(nanoseconds);
    }
    Ok(sum)
}

/// Returns the time of the clock by which procs note their arrivals.
fn now() -> Duration {
    // It counts from the start of the machine.
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
