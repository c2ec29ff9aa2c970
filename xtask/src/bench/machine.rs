//! Description of the machine and the versions, without which the numbers mean nothing; and measurements on one of
//! its processors.
use super::programs::Programs;
use crate::command::run_quietly;
use anyhow::{Context, Result};
use rustix::{
    system::uname,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

/// Returns the load average of the last minute.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or_default()
}

/// Processors of this process, of which each measurement takes one.
pub struct OwnProcessors {
    all: CpuSet,
    free: Mutex<Vec<usize>>,
}

impl OwnProcessors {
    /// Finds the processors that this thread may use.
    pub fn find() -> Result<OwnProcessors> {
        let all = sched_getaffinity(None)?;
        let numbers = (0..CpuSet::MAX_CPU).filter(|number| all.is_set(*number));
        let free = Mutex::new(numbers.collect());
        Ok(OwnProcessors { all, free })
    }

    /// Measures something whose processes all have one processor, which they inherit from the thread that starts them.
    /// The number of waits for another processor differs from run to run.
    ///
    /// # Errors
    ///
    /// If more measure at a time than there are processors.
    pub fn on_one<T>(&self, measure: impl FnOnce() -> Result<T>) -> Result<T> {
        let number = self.free().pop().context("no processor is free")?;
        let mut one = CpuSet::new();
        one.set(number);
        sched_setaffinity(None, &one)?;
        let measured = measure();
        sched_setaffinity(None, &self.all)?;
        self.free().push(number);
        measured
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the machine and the versions for the results.
pub fn describe(root: &Path, programs: &Programs, load: [f64; 2]) -> Value {
    let cpus = thread::available_parallelism().map_or(0, usize::from);
    let system = uname();
    let kernel = format!(
        "{} {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy()
    );
    json!({
        "cpu": cpu(),
        "cpus": cpus,
        "kernel": kernel,
        "load_before": load[0],
        "load_after": load[1],
        "peal": output_of(Command::new("git").current_dir(root).args(["describe", "--always", "--dirty"])),
        "rustc": output_of(Command::new("rustc").arg("--version")),
        "wasmtime": locked(root, "wasmtime"),
        "libpmix": programs.c.as_ref().and_then(|_| output_of(Command::new("pkg-config").args(["--modversion", "pmix"]))),
    })
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn output_of(command: &mut Command) -> Option<String> {
    run_quietly(command)
        .ok()
        .map(|output_of| output_of.trim().to_owned())
}

/// Returns the version of a crate in the lock file.
fn locked(root: &Path, name: &str) -> Option<String> {
    let lock: toml::Table = fs::read_to_string(root.join("Cargo.lock"))
        .ok()?
        .parse()
        .ok()?;
    let packages = lock.get("package")?.as_array()?;
    let package = packages
        .iter()
        .find(|package| package.get("name").and_then(toml::Value::as_str) == Some(name))?;
    Some(package.get("version")?.as_str()?.to_owned())
}
