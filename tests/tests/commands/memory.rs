//! Memory that a server takes for each idle client.
use peal_needs::needs;
use peal_tests::{program, shell_job::ShellJob, until};
use std::fs;

/// Bound on the growth for one client in KiB, in a debug build. The bench compares a release build
/// with the C library's server.
const MAX_GROWTH: f64 = 11.0;

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
    let many = idle_job(MANY);
    // Wait for a transient peak to pass, such as that of the last client reading its job data.
    until(
        &format!("each idle client takes at most {MAX_GROWTH} KiB"),
        || (anonymous_memory(many.pid()) - base) / (MANY - FEW) as f64 <= MAX_GROWTH,
    );
    many.interrupt();
}
