//! Processes listed in `/proc`, and signals that cannot reach a later process of the same id.
use rustix::{
    param::clock_ticks_per_second,
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Display,
    fs,
    io::{self, Read},
    time::Duration,
};

/// Bytes of a process's environment that are read to find the variable by which Peal marks procs.
/// It precedes or follows the inherited variables.
const MAX_ENVIRONMENT_BYTES: u64 = 4 << 20;

/// Identity of a process. A pid alone may have been reused for another process by the time of an
/// operation on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// Start time, in clock ticks since the machine was booted.
    pub(crate) began: u64,
}

impl ProcessId {
    /// Returns true if the process has not ended, or its parent has not waited for it yet.
    pub fn is_there(self) -> bool {
        RunningProcess::of(self.pid).is_some_and(|now| now.id == self)
    }

    /// Returns the CPU time of the process in user and kernel mode, if it has not ended, or its parent
    /// has not waited for it yet.
    pub fn cpu_time(self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        if RunningProcess::read(&stat)?.id != self {
            return None;
        }
        let fields = fields(&stat)?;
        // Counted from the state: 11 is the time in user mode, 12 that in kernel mode.
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let ticks = ticks(11)?.saturating_add(ticks(12)?);
        let milliseconds = ticks.saturating_mul(1000) / clock_ticks_per_second().max(1);
        Some(Duration::from_millis(milliseconds))
    }
}

/// State of a process, as read from `/proc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunningProcess {
    /// Identity of the process, which no later process has.
    pub id: ProcessId,
    /// Process id of the parent.
    pub parent: u32,
    /// Process group.
    pub group: u32,
    /// Session.
    pub session: u32,
    state: RunState,
}

/// Run state of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum RunState {
    /// The process runs or waits for something.
    Lives,
    /// A signal or a debugger has stopped the process.
    Stopped,
    /// The process has ended and its parent has not waited for it yet.
    Ended,
}

/// Returns the fields of `/proc/PID/stat` from the state on. The field before it is a name in
/// parentheses, which may contain any characters, also parentheses.
fn fields(stat: &str) -> Option<Vec<&str>> {
    let rest = stat.rsplit_once(") ")?.1;
    Some(rest.split_ascii_whitespace().collect())
}

impl RunningProcess {
    /// Returns all processes.
    pub fn all() -> Vec<RunningProcess> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // A process that ends between the listing and this read is left out.
        pids.filter_map(RunningProcess::of).collect()
    }

    /// Returns the process of this id, if there is one.
    pub fn of(pid: u32) -> Option<RunningProcess> {
        RunningProcess::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses `/proc/PID/stat`.
    fn read(stat: &str) -> Option<RunningProcess> {
        let (pid, _) = stat.split_once(" (")?;
        let fields = fields(stat)?;
        // Counted from the state: 17 is the number of threads, 19 the start time.
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        // A process with further threads lives on when its first thread has ended.
        let state = match (*fields.first()?, number(17)?) {
            ("Z" | "X", 0 | 1) => RunState::Ended,
            ("T" | "t", _) => RunState::Stopped,
            _ => RunState::Lives,
        };
        let id = ProcessId {
            pid: pid.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
        };
        Some(RunningProcess {
            id,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            state,
        })
    }

    /// Returns true if the process had not ended when it was read.
    pub fn lives(&self) -> bool {
        self.state != RunState::Ended
    }

    /// Returns true if the process has not ended by now.
    pub fn is_there(&self) -> bool {
        RunningProcess::of(self.id.pid).is_some_and(|now| now.id == self.id && now.lives())
    }

    /// Returns true if the process is stopped with all of its threads.
    pub fn is_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id.pid))
            .into_iter()
            .flatten()
            .flatten();
        let of_thread = |path: std::path::PathBuf| {
            RunningProcess::read(&fs::read_to_string(path.join("stat")).ok()?)
        };
        let mut threads = threads.filter_map(|thread| of_thread(thread.path()));
        // A stop signal reaches the threads one by one, so the state of the first one is not
        // enough.
        self.state == RunState::Stopped && threads.all(|thread| thread.state != RunState::Lives)
    }

    /// Sends the process a signal, if it still exists.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        let Some(pid) = i32::try_from(self.id.pid).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        let sent = pidfd_open(pid, PidfdFlags::empty()).and_then(|process| {
            match RunningProcess::of(self.id.pid) {
                // Compare after the pidfd was opened: a process that has this identity now is the
                // one that the pidfd refers to.
                Some(found) if found.id == self.id => pidfd_send_signal(process, signal),
                _ => Ok(()),
            }
        });
        match sent {
            // The process ended before the pidfd was opened or the signal sent.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            sent => sent,
        }
    }

    /// Returns the name of the control group (cgroup v2) of the process.
    pub fn control_group(&self) -> Option<String> {
        control_group(self.id.pid).ok()?
    }

    /// Returns the value that a variable of the environment had when the program began. Returns
    /// `None` if this process may not read it.
    pub fn variable(&self, name: &str) -> Option<String> {
        let mut environment = Vec::new();
        let file = fs::File::open(format!("/proc/{}/environ", self.id.pid)).ok()?;
        file.take(MAX_ENVIRONMENT_BYTES)
            .read_to_end(&mut environment)
            .ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables
            .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        String::from_utf8(value.to_vec()).ok()
    }
}

/// Returns the children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads: Vec<_> = tasks.into_iter().flatten().flatten().collect();
    // The first thread takes over the children of one that ends, so it is read last.
    threads.reverse();
    let lists = threads
        .into_iter()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the name of the control group (cgroup v2) of a process, given by its id or "self".
/// Returns `None` if there are no such groups.
pub(super) fn control_group(process: impl Display) -> io::Result<Option<String>> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup"))?;
    Ok(groups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn stat(name: &str, state: &str, threads: u32) -> String {
        format!(
            "42 ({name}) {state} 7 40 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 987 1000 200 184467 1"
        )
    }

    #[test]
    fn process_name_forges_nothing_and_threads_keep_it_alive() {
        let process = RunningProcess::read(&stat("a) Z 1 1 (b", "S", 1)).unwrap();
        assert_eq!(
            (
                process.id.pid,
                process.parent,
                process.group,
                process.session
            ),
            (42, 7, 40, 41)
        );
        assert_eq!((process.id.began, process.state), (987, RunState::Lives));
        let state = |letter, threads| {
            RunningProcess::read(&stat("x", letter, threads))
                .unwrap()
                .state
        };
        assert_eq!(
            [state("Z", 1), state("Z", 3), state("T", 1)],
            [RunState::Ended, RunState::Lives, RunState::Stopped]
        );
        assert_eq!(RunningProcess::read("42 (x"), None);
    }

    #[test]
    fn children_of_all_threads_are_found() {
        let start = || {
            let mut cat = Command::new("cat");
            cat.stdin(Stdio::piped()).spawn().unwrap()
        };
        let mut first = start();
        let (mut second, found) = std::thread::scope(|scope| {
            let other = scope.spawn(|| (start(), children(std::process::id())));
            other.join().unwrap()
        });
        let ids = [first.id(), second.id()];
        for child in [&mut first, &mut second] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(
            ids.iter().all(|id| found.contains(id)),
            "{ids:?} are not all in {found:?}"
        );
    }

    #[test]
    fn signal_reaches_only_the_process_of_same_identity() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = RunningProcess::of(child.id()).unwrap();
        let earlier = RunningProcess {
            id: ProcessId {
                began: process.id.began - 1,
                ..process.id
            },
            ..process
        };
        earlier.signal(Signal::KILL).unwrap();
        assert!(
            RunningProcess::of(child.id()).unwrap().lives(),
            "the signal for an earlier process of the same pid ended it"
        );
        process.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        process.signal(Signal::KILL).unwrap();
    }
}
