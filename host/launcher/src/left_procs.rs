//! Procs that the process which started them has left behind.
use peal_system::process::{ProcessId, RunningProcess};
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

/// Number of scans in a row that must find nothing.
const EMPTY_SCANS: u32 = 3;

/// Kills these procs with all processes in their process groups and sessions, and all descendants of those,
/// until none is left. Blocks for some seconds at most. A process that has left its group, session and parent
/// is not found.
pub fn kill_left_procs(procs: &[ProcessId]) {
    let deadline = Instant::now() + TIMEOUT;
    let mut empty = 0;
    // Members that are found once keep their descendants findable when they have ended.
    let mut roots = procs.to_vec();
    while empty < EMPTY_SCANS && Instant::now() < deadline {
        let found = find_members(&roots);
        empty = if found.is_empty() { empty + 1 } else { 0 };
        for process in found {
            // A process that may not be killed is another user's by now.
            let _ = process.signal(Signal::KILL);
            if !roots.contains(&process.id) {
                roots.push(process.id);
            }
        }
        thread::sleep(SCAN_INTERVAL);
    }
}

/// Returns the running processes of these procs.
fn find_members(procs: &[ProcessId]) -> Vec<RunningProcess> {
    let all = RunningProcess::all();
    let is_reused = |id: &ProcessId| {
        let mut same = all.iter().filter(|process| process.id.pid == id.pid);
        same.any(|process| process.id != *id)
    };
    let pids = procs.iter().filter(|id| !is_reused(id)).map(|id| id.pid);
    let mut pids: HashSet<u32> = pids.collect();
    let mut others: Vec<RunningProcess> = all.into_iter().filter(RunningProcess::lives).collect();
    let mut found = Vec::new();
    loop {
        let is_member = |process: &mut RunningProcess| {
            let links = [
                process.id.pid,
                process.parent,
                process.group,
                process.session,
            ];
            links.iter().any(|link| pids.contains(link))
        };
        let members: Vec<RunningProcess> = others.extract_if(.., is_member).collect();
        if members.is_empty() {
            return found;
        }
        pids.extend(members.iter().map(|process| process.id.pid));
        found.extend(members);
    }
}
