//! Time and memory of a process, as the kernel says.
use anyhow::{Context, Result};
use std::{fs, time::Duration};

/// Ticks of the kernel in a second, which is part of its interface.
const TICKS: u64 = 100;

/// Use of the machine by a process so far.
pub struct ProcessUsage {
    /// Processor time.
    pub cpu: Duration,
    /// Resident memory in KiB.
    pub resident_kib: usize,
}

impl ProcessUsage {
    /// Returns the use by this process.
    pub fn of_this_process() -> Result<ProcessUsage> {
        ProcessUsage::of(std::process::id())
    }

    /// Returns the use by a process.
    pub fn of(pid: u32) -> Result<ProcessUsage> {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{pid}/{name}"))
                .with_context(|| format!("process {pid} has ended"))
        };
        let stat = read("stat")?;
        // The name in parentheses may have spaces.
        let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
        let ticks = rest.split_whitespace().skip(11).take(2);
        let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
        let status = read("status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|text| text.split_whitespace().next());
        Ok(ProcessUsage {
            cpu: Duration::from_millis(ticks.iter().sum::<u64>() * 1000 / TICKS),
            resident_kib: resident.context("no memory in status")?.parse()?,
        })
    }
}
