//! Memory that a server takes for each idle client.
use peal_needs::needs;
use peal_tests::{program, shell_job::ShellJob};
use std::{
    fs, iter, thread,
    time::{Duration, Instant},
};

/// Bound on the growth for one client in KiB, in a debug build. The bench compares a release build
/// with the C library's server.
const MAX_GROWTH: f64 = 11.0;

/// Number of servers of which one must be within the bound, and time to wait for each.
const ATTEMPTS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of clients of the smaller and of the larger job.
const FEW: usize = 64;
const MANY: usize = 256;

/// Starts a job of this number of procs that have registered a handler and wait.
fn idle_job(procs: usize) -> ShellJob {
    ShellJob::start(
        procs,
        &[],
        &format!("exec {} -2001", program("peal-listen").display()),
    )
}

/// Returns the anonymous memory of a process in KiB: its heap and stacks, without mapped files.
fn anonymous_memory(pid: u32) -> f64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Anonymous:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[needs(prepared)]
#[test]
fn memory_for_an_idle_client_is_bounded() {
    let few = idle_job(FEW);
    let base = anonymous_memory(few.pid());
    few.interrupt();
    // Memory of a peak, such as that of many clients that read their job data at once, may stay in the
    // heap of a server on a busy machine. Another server has no such peak.
    let grown: Vec<f64> = iter::repeat_with(|| lowest_growth(base))
        .take(ATTEMPTS)
        .take_while(|growth| *growth > MAX_GROWTH)
        .collect();
    assert!(
        grown.len() < ATTEMPTS,
        "each idle client takes at most {MAX_GROWTH} KiB, not {grown:?}"
    );
}

/// Starts the larger job, and returns the growth for one client in KiB as soon as it is within the
/// bound, or the lowest one within a time.
fn lowest_growth(base: f64) -> f64 {
    let many = idle_job(MANY);
    let began = Instant::now();
    let mut lowest = f64::MAX;
    while lowest > MAX_GROWTH && began.elapsed() < PATIENCE {
        lowest = lowest.min((anonymous_memory(many.pid()) - base) / (MANY - FEW) as f64);
        thread::yield_now();
    }
    many.interrupt();
    lowest
}
