//! Memory of the server per connected client.
use super::{
    arm::{Hosts, JobMeasurement, Side, Values},
    launch::{self, Running, Scratch},
    programs::Programs,
};
use anyhow::{Context, Result};
use std::{
    fs, thread,
    time::{Duration, Instant},
};

/// Time limit until the server's memory is stable.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval of the checks of its memory.
const LOOK: Duration = Duration::from_millis(200);

/// Resident and proportional memory of a process in KiB.
#[derive(Clone, Copy, PartialEq)]
struct Memory {
    rss: f64,
    pss: f64,
}

/// Measures the growth of the server from few idle clients to many, per client. One-time costs
/// cancel out.
pub fn growth(programs: &Programs, side: Side, few: u32, many: u32) -> Result<Values> {
    let less = with_clients(programs, side, few)?;
    let more = with_clients(programs, side, many)?;
    let each = |less: f64, more: f64| (more - less) / f64::from(many - few);
    Ok(vec![
        ("rss_kib_per_client".to_owned(), each(less.rss, more.rss)),
        ("pss_kib_per_client".to_owned(), each(less.pss, more.pss)),
        ("rss_kib_few".to_owned(), less.rss),
        ("rss_kib_many".to_owned(), more.rss),
    ])
}

fn with_clients(programs: &Programs, side: Side, clients: u32) -> Result<Memory> {
    let scratch = Scratch::new()?;
    let job = JobMeasurement {
        side,
        procs: clients,
        mode: "idle",
        count: 0,
        warm: 0,
        extra: 0,
        hosts: Hosts::Nothing,
    };
    let mut server = Running::start(job.command(programs, &scratch)?, &scratch)?;
    let here = || fs::metadata(scratch.path().join("tally")).map_or(0, |tally| tally.len());
    let what = format!("{clients} clients have connected");
    server.until(&what, || Ok((here() >= u64::from(clients)).then_some(())))?;
    let memory = at_rest(server.pid())?;
    let leave = scratch.pipe("leave")?;
    launch::release(&leave, clients)?;
    server.finish(&scratch)?;
    Ok(memory)
}

/// Returns the proportional memory of a process in KiB, when it no longer changes.
pub fn proportional_at_rest(pid: u32) -> Result<f64> {
    Ok(at_rest(pid)?.pss)
}

fn at_rest(pid: u32) -> Result<Memory> {
    let start = Instant::now();
    let mut before = memory(pid)?;
    loop {
        thread::sleep(LOOK);
        let now = memory(pid)?;
        if now == before || start.elapsed() > PATIENCE {
            return Ok(now);
        }
        before = now;
    }
}

fn memory(pid: u32) -> Result<Memory> {
    let text =
        fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("the server has gone")?;
    let kib = |name: &str| -> Result<f64> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .context("no such line")?;
        let number = line
            .trim_start_matches(':')
            .split_whitespace()
            .next()
            .context("no number")?;
        Ok(number.parse()?)
    };
    Ok(Memory {
        rss: kib("Rss")?,
        pss: kib("Pss")?,
    })
}
