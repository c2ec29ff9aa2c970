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

/// Memory of a process and its descendants.
pub struct FamilyMemory {
    /// Proportional memory of all in KiB.
    pub pss_kib: f64,
    /// Number of processes.
    pub processes: usize,
}

/// Returns the memory of a process and its descendants, when that of each no longer changes.
pub fn of_family_at_rest(pid: u32) -> Result<FamilyMemory> {
    let mut family = vec![pid];
    let mut at = 0;
    while let Some(pid) = family.get(at) {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let children = list.split_whitespace().map(str::parse);
        family.extend(children.collect::<Result<Vec<u32>, _>>()?);
        at += 1;
    }
    let kib = family.iter().map(|pid| Ok(at_rest(*pid)?.pss));
    Ok(FamilyMemory {
        pss_kib: kib.sum::<Result<f64>>()?,
        processes: family.len(),
    })
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
