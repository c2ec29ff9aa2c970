//! Processes as the system lists them in `/proc`, and signals that reach the one that was meant.
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::{
    fmt::Display,
    fs,
    io::{self, Read},
};

/// How much of a process's environment is read to find our mark in it, in bytes; it stands in front or behind of what there was.
const ENVIRONMENT: u64 = 4 << 20;

/// A process. Its id alone may be another's by the time that something is done to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId {
    /// Its number.
    pub pid: u32,
    /// When it began, in ticks since the machine did.
    began: u64,
}

/// What the system says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// Whether it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunState {
    /// It does, or waits for something.
    Lives,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// It has ended, and its parent has not looked.
    Ended,
}

impl RunningProcess {
    /// All that there are.
    pub fn all() -> Vec<RunningProcess> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(RunningProcess::of).collect()
    }

    /// The one of that number, if there is one.
    pub fn of(pid: u32) -> Option<RunningProcess> {
        RunningProcess::read(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads `/proc/PID/stat`. Its second field is a name in parentheses, which may hold anything, parentheses too.
    fn read(stat: &str) -> Option<RunningProcess> {
        let (pid, rest) = stat.split_once(" (")?;
        let fields: Vec<&str> = rest.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u32>().ok();
        // A process whose first thread has ended is none that has.
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

    /// Whether it had not ended when it was looked at.
    pub fn lives(&self) -> bool {
        self.state != RunState::Ended
    }

    /// Whether it has not ended by now.
    pub fn is_there(&self) -> bool {
        RunningProcess::of(self.id.pid).is_some_and(|now| now.id == self.id && now.lives())
    }

    /// Whether it is stopped, with all of its threads.
    pub fn is_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id.pid))
            .into_iter()
            .flatten()
            .flatten();
        let of_thread = |path: std::path::PathBuf| {
            RunningProcess::read(&fs::read_to_string(path.join("stat")).ok()?)
        };
        let mut threads = threads.filter_map(|thread| of_thread(thread.path()));
        self.state == RunState::Stopped && threads.all(|thread| thread.state != RunState::Lives)
    }

    /// Sends it a signal, if it is still there.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        let Some(pid) = i32::try_from(self.id.pid).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        let sent = pidfd_open(pid, PidfdFlags::empty()).and_then(|process| {
            match RunningProcess::of(self.id.pid) {
                // From here on the number cannot become another's unseen.
                Some(found) if found.id == self.id => pidfd_send_signal(process, signal),
                _ => Ok(()),
            }
        });
        match sent {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            sent => sent,
        }
    }

    /// The control group of version 2 that it is in.
    pub fn control_group(&self) -> Option<String> {
        control_group(self.id.pid).ok()?
    }

    /// What a variable of its environment was when its program began, if we may look.
    pub fn variable(&self, name: &str) -> Option<String> {
        let mut environment = Vec::new();
        let file = fs::File::open(format!("/proc/{}/environ", self.id.pid)).ok()?;
        file.take(ENVIRONMENT).read_to_end(&mut environment).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables
            .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        String::from_utf8(value.to_vec()).ok()
    }
}

/// The control group of version 2 that a process is in, by its number or "self", if there are such groups.
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
    fn a_signal_reaches_only_the_process_that_was_meant() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
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
            "it has the number of one that was there before"
        );
        process.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        process.signal(Signal::KILL).unwrap();
    }
}
