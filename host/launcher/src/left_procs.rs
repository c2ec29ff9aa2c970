//! Procs that the process which started them has left behind.
use crate::process_tree::MARK;
use peal_system::process::RunningProcess;
use rustix::process::Signal;
use std::{
    collections::HashSet,
    thread,
    time::{Duration, Instant},
};

/// Time for which processes are looked for. One in a system call may need time to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between scans of all processes.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);

/// Number of scans in a row that must find nothing. A process that was about to execute its program has no
/// mark in the first one.
const EMPTY_SCANS: u32 = 3;

/// Kills the procs of all jobs whose names begin with that of this server and `@`, with their descendants,
/// until none is left. Blocks for some seconds at most.
pub fn kill_procs_of(server: &str) {
    let prefix = format!("{server}@");
    let deadline = Instant::now() + TIMEOUT;
    let mut empty = 0;
    while empty < EMPTY_SCANS && Instant::now() < deadline {
        let found = left(&prefix);
        empty = if found.is_empty() { empty + 1 } else { 0 };
        for process in found {
            // A process that may not be killed is another user's by now.
            let _ = process.signal(Signal::KILL);
        }
        thread::sleep(SCAN_INTERVAL);
    }
}

/// Returns the processes with a mark that begins so, and all descendants of them.
fn left(prefix: &str) -> Vec<RunningProcess> {
    let all = RunningProcess::all().into_iter();
    let mut others: Vec<RunningProcess> = all.filter(RunningProcess::lives).collect();
    let is_marked = |process: &RunningProcess| {
        let marks = process.variable(MARK).unwrap_or_default();
        marks.split(' ').any(|mark| mark.starts_with(prefix))
    };
    let mut found: Vec<RunningProcess> = others
        .extract_if(.., |process| is_marked(process))
        .collect();
    let mut pids: HashSet<u32> = found.iter().map(|process| process.id.pid).collect();
    loop {
        let is_child = |process: &mut RunningProcess| pids.contains(&process.parent);
        let children: Vec<RunningProcess> = others.extract_if(.., is_child).collect();
        if children.is_empty() {
            return found;
        }
        pids.extend(children.iter().map(|process| process.id.pid));
        found.extend(children);
    }
}
