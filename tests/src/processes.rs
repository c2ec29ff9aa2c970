//! Processes, as the kernel describes them.
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// Returns the value of a line of `/proc/PID/status`, if the process exists.
pub fn status(pid: u32, key: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns true if a process has not ended.
pub fn is_running(pid: u32) -> bool {
    status(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}

/// Sends a signal to a process, which must exist.
pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Returns the nice value of a process.
pub fn nice(pid: u32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat.rsplit_once(") ")?.1;
    // Counted from the state.
    fields.split_whitespace().nth(16)?.parse().ok()
}
