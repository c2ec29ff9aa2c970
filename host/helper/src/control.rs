//! Actions on processes of procs that another launcher started, and on all their descendants.
//! They run as the user of the job, so that the kernel protects processes of other users.
use crate::{files::refused_switch, message::HelperRefusal};
use peal_model::{Rank, Status, UserIdentity, code};
use peal_system::{
    as_user,
    process::{ProcessId, RunningProcess},
};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::{Duration, Instant},
};

/// Time that processes have to stop, or to end after the kill. A process in a system call may need
/// it.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between scans of processes that are about to stop or to end.
const SCAN_INTERVAL: Duration = Duration::from_millis(5);

/// Action on processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ProcessAction {
    /// Sends a signal of this number to the processes, not to their descendants.
    Signal(i32),
    /// Stops processes until they are resumed.
    Pause,
    /// Resumes stopped processes.
    Resume,
    /// Asks processes to end, and kills the remaining ones after this time.
    Terminate(Duration),
    /// Kills processes at once.
    Kill,
}

/// Processes of one proc.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessTarget {
    /// Rank of the proc.
    pub rank: Rank,
    /// Processes: its own and those of its clones.
    pub processes: Vec<RunningProcess>,
}

/// Order to act on the processes of procs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControlOrder {
    /// User that the processes run as.
    pub owner: UserIdentity,
    /// The action.
    pub action: ProcessAction,
    /// Processes of the procs.
    pub targets: Vec<ProcessTarget>,
    /// Processes of all registered procs, and of the server. The descendants of another proc are not
    /// affected.
    pub others: BTreeSet<ProcessId>,
}

/// Failure of an action on a proc.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ControlFailure {
    /// Rank of the proc.
    pub rank: Rank,
    /// Status for the requester.
    pub status: Status,
    /// Process and reason.
    pub reason: String,
}

impl ControlOrder {
    /// Carries out the action as the user of the job. Returns the procs on which it failed. Blocks; a
    /// termination blocks up to the time that processes have to end.
    pub(crate) fn run(self) -> Result<Vec<ControlFailure>, HelperRefusal> {
        let owner = self.owner;
        let roots = self.targets.iter().flat_map(|target| {
            let root = |process: &RunningProcess| (process.id, target.rank);
            target.processes.iter().map(root)
        });
        let own = self.targets.iter().flat_map(|target| {
            let of_proc = |process: &RunningProcess| (target.rank, *process);
            target.processes.iter().map(of_proc)
        });
        let members = ControlledProcesses {
            roots: roots.collect(),
            own: own.collect(),
            others: self.others,
        };
        let refused = as_user::run(owner, || members.act(self.action))
            .map_err(|error| refused_switch(owner, &error))?;
        let failure = |(rank, why): (Rank, Refused)| ControlFailure {
            rank,
            status: why.status,
            reason: why.reason,
        };
        Ok(refused.into_iter().map(failure).collect())
    }
}

/// Failure of an action on a proc.
#[derive(Debug)]
struct Refused {
    status: Status,
    reason: String,
}

impl Refused {
    fn by(process: &RunningProcess, error: rustix::io::Errno) -> Refused {
        let status = if error == rustix::io::Errno::PERM {
            code::PMIX_ERR_NO_PERMISSIONS
        } else {
            code::PMIX_ERROR
        };
        Refused {
            status,
            reason: format!("process {}: {error}", process.id.pid),
        }
    }

    fn still_there(process: &RunningProcess, what: &str) -> Refused {
        Refused {
            status: code::PMIX_ERROR,
            reason: format!("process {}: {what}", process.id.pid),
        }
    }
}

/// Processes of an order.
struct ControlledProcesses {
    roots: HashMap<ProcessId, Rank>,
    own: Vec<(Rank, RunningProcess)>,
    others: BTreeSet<ProcessId>,
}

impl ControlledProcesses {
    /// Carries out an action with the rights of the calling thread.
    fn act(&self, action: ProcessAction) -> BTreeMap<Rank, Refused> {
        match action {
            ProcessAction::Signal(number) => Signal::from_named_raw(number)
                .map(|signal| send(self.own.clone(), signal))
                .unwrap_or_default(),
            ProcessAction::Pause => self.pause(),
            ProcessAction::Resume => send(self.members(), Signal::CONT),
            ProcessAction::Terminate(grace) => self.terminate(grace),
            ProcessAction::Kill => self.kill(),
        }
    }

    /// Returns the known processes and all their current descendants, each with the nearest proc
    /// among its ancestors.
    fn members(&self) -> Vec<(Rank, RunningProcess)> {
        let all: HashMap<u32, RunningProcess> = RunningProcess::all()
            .into_iter()
            .map(|process| (process.id.pid, process))
            .collect();
        let owner = |process: &RunningProcess| {
            let mut at = *process;
            // Entries of `/proc` are read one after the other, so the parents may form a cycle. The
            // number of steps is bounded by the number of processes.
            for _ in 0..=all.len() {
                match self.roots.get(&at.id) {
                    Some(rank) => return Some(*rank),
                    None if self.others.contains(&at.id) || at.id.pid == std::process::id() => {
                        return None;
                    }
                    None => at = *all.get(&at.parent)?,
                }
            }
            None
        };
        all.values()
            .filter(|process| process.lives())
            .filter_map(|process| Some((owner(process)?, *process)))
            .collect()
    }

    fn pause(&self) -> BTreeMap<Rank, Refused> {
        // Repeated, since a process may start another one before it stops.
        let until = Instant::now() + STOP_TIMEOUT;
        loop {
            let mut moving = BTreeMap::new();
            for (rank, process) in self
                .members()
                .into_iter()
                .filter(|(_, process)| !process.is_stopped())
            {
                let refused = match process.signal(Signal::STOP) {
                    Ok(()) => Refused::still_there(&process, "does not stop"),
                    Err(error) => Refused::by(&process, error),
                };
                moving.insert(rank, refused);
            }
            if moving.is_empty() || Instant::now() >= until {
                return moving;
            }
            std::thread::sleep(SCAN_INTERVAL);
        }
    }

    /// Asks the processes to end, and kills the remaining ones after `grace`.
    fn terminate(&self, grace: Duration) -> BTreeMap<Rank, Refused> {
        let members = self.members();
        let refused = send(members.clone(), Signal::TERM);
        // A stopped process would not act on the request.
        let _ = send(members.clone(), Signal::CONT);
        let left = await_end(&members, grace);
        if left.is_empty() {
            return refused;
        }
        // Passed on explicitly, since a process whose parent has ended is no descendant any more.
        self.kill_with(left, Instant::now() + STOP_TIMEOUT)
    }

    /// Kills the processes.
    fn kill(&self) -> BTreeMap<Rank, Refused> {
        self.kill_with(Vec::new(), Instant::now() + STOP_TIMEOUT)
    }

    /// Kills the processes, and `known` ones that were among them. Each is stopped first, so that
    /// it starts no others while the rest is searched for. The search ends at `until`.
    fn kill_with(
        &self,
        known: Vec<(Rank, RunningProcess)>,
        until: Instant,
    ) -> BTreeMap<Rank, Refused> {
        // Ignore errors: the kill below reports them.
        let _ = send(known.clone(), Signal::STOP);
        let mut seen: BTreeMap<ProcessId, (Rank, RunningProcess)> = known
            .into_iter()
            .map(|(rank, process)| (process.id, (rank, process)))
            .collect();
        loop {
            let found = self
                .members()
                .into_iter()
                .filter(|(_, process)| !seen.contains_key(&process.id));
            let found: Vec<(Rank, RunningProcess)> = found.collect();
            if found.is_empty() {
                break;
            }
            // A process that cannot be stopped cannot be killed either, which is reported below.
            let _ = send(found.clone(), Signal::STOP);
            seen.extend(
                found
                    .into_iter()
                    .map(|(rank, process)| (process.id, (rank, process))),
            );
            // Only now, so that the last ones found are killed, too.
            if Instant::now() >= until {
                break;
            }
        }
        let all: Vec<(Rank, RunningProcess)> = seen.into_values().collect();
        let mut refused = send(all.clone(), Signal::KILL);
        for (rank, process) in await_end(&all, STOP_TIMEOUT) {
            refused
                .entry(rank)
                .or_insert_with(|| Refused::still_there(&process, "does not end"));
        }
        refused
    }
}

/// Sends a signal to each process. Returns the procs with processes that cannot be signalled.
fn send(processes: Vec<(Rank, RunningProcess)>, signal: Signal) -> BTreeMap<Rank, Refused> {
    let signalled = |(rank, process): (Rank, RunningProcess)| {
        Some((rank, Refused::by(&process, process.signal(signal).err()?)))
    };
    processes.into_iter().filter_map(signalled).collect()
}

/// Waits for processes to end. Returns those that have not ended after the time limit.
fn await_end(processes: &[(Rank, RunningProcess)], limit: Duration) -> Vec<(Rank, RunningProcess)> {
    let until = Instant::now() + limit;
    loop {
        let left: Vec<_> = processes
            .iter()
            .filter(|(_, process)| process.is_there())
            .copied()
            .collect();
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        std::thread::sleep(SCAN_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    #[test]
    fn kill_at_its_deadline_includes_processes_just_found() {
        let script = "sleep 1000 & echo $!; wait";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let process = RunningProcess::of(shell.id()).unwrap();
        let processes = ControlledProcesses {
            roots: HashMap::from([(process.id, Rank(0))]),
            own: vec![(Rank(0), process)],
            others: BTreeSet::new(),
        };
        let refused = processes.kill_with(Vec::new(), Instant::now());
        let lives = |pid| RunningProcess::of(pid).is_some_and(|process| process.lives());
        let left = [shell.id(), child].map(lives);
        let _ = shell.kill();
        shell.wait().unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        assert_eq!(left, [false, false]);
    }
}
