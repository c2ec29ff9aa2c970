//! Instructions of the server per event there and back, counted by valgrind.
use super::{
    arm::{Hosts, JobMeasurement, Side, Values},
    launch::{self, Scratch},
    programs::Programs,
};
use anyhow::{Context, Result};
use std::{fs, path::Path, process::Command};

/// Counts the instructions of the server for few round trips and for many. Returns the difference
/// for each of them, so that the start of the server and its job cancel out.
pub fn per_round_trip(programs: &Programs, side: Side, few: u32, many: u32) -> Result<Values> {
    let less = of_job(programs, side, few)?;
    let more = of_job(programs, side, many)?;
    let each = (more - less) / f64::from(many - few);
    Ok(vec![("instructions".to_owned(), each)])
}

fn of_job(programs: &Programs, side: Side, count: u32) -> Result<f64> {
    let scratch = Scratch::new()?;
    let job = JobMeasurement {
        side,
        procs: 2,
        mode: "pingpong",
        count,
        warm: 10,
        extra: 0,
        hosts: Hosts::Nothing,
    };
    let log = scratch.path().join("valgrind");
    let counted = under_valgrind(&job.command(programs, &scratch)?, &log);
    launch::finish(counted, &scratch).context("valgrind counts (Debian: valgrind)")?;
    let log = fs::read_to_string(&log)?;
    let count = log
        .lines()
        .find_map(|line| line.split_once("I   refs:"))
        .context("valgrind has counted no instructions")?;
    Ok(count.1.trim().replace(',', "").parse()?)
}

/// Returns the command under valgrind. The procs of the job, which are children, are not counted.
fn under_valgrind(command: &Command, log: &Path) -> Command {
    let mut counted = Command::new("valgrind");
    counted.args(["--tool=cachegrind", "--cache-sim=no"]);
    // Only the sum is of use, which is in the log.
    counted.arg("--cachegrind-out-file=/dev/null");
    counted.arg(format!("--log-file={}", log.display()));
    counted.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => counted.env(name, value),
            None => counted.env_remove(name),
        };
    }
    counted
}
