//! Processes of procs that other launchers start, as under `peal serve`. These are the processes
//! that connected, identified by the kernel, those that the launcher named, and all descendants.
//! Actions run as the user of the job, so that the kernel protects processes of other users.
use super::control::{RankNotDone, ended_already, signal_of};
use peal_core::job_control::JobAction;
use peal_model::{Rank, UserIdentity, code};
use peal_system::{
    as_user,
    process::{ProcessId, RunningProcess},
};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Maximum number of recorded processes of one proc: its own and those of its clones.
const MAX_PROCESSES: usize = 16;

/// Time that processes have to stop, or to end after the kill. A process in a system call may need
/// it.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between scans of processes that are about to stop or to end.
const SCAN_INTERVAL: Duration = Duration::from_millis(5);

/// Processes of the procs of a registered job.
#[derive(Debug, Default)]
pub(super) struct RegisteredProcs(Mutex<BTreeMap<Rank, Vec<RunningProcess>>>);

/// State of the process of a registered proc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ProcProcess {
    /// The proc has not connected and its process was not named, or the process is not accessible.
    Unknown,
    /// The proc runs as the process of this id.
    Running(u32),
    /// All processes of the proc have ended.
    Ended,
}

impl RegisteredProcs {
    /// Adds a process of a proc. The process of this server is ignored, so that no request can make
    /// the server signal itself.
    pub(super) fn add(&self, rank: Rank, pid: u32) {
        let Some(process) =
            RunningProcess::of(pid).filter(|process| process.id.pid != std::process::id())
        else {
            return;
        };
        let mut all = self.all();
        let known = all.entry(rank).or_default();
        // Processes that have ended must not use up the limit.
        known.retain(RunningProcess::is_there);
        if known.len() < MAX_PROCESSES && known.iter().all(|other| other.id != process.id) {
            known.push(process);
        }
    }

    /// Returns the process of a proc; of several, the one that connected first.
    pub(super) fn process_of(&self, rank: Rank) -> ProcProcess {
        match self.all().get(&rank) {
            None => ProcProcess::Unknown,
            Some(known) => known
                .iter()
                .find(|process| process.is_there())
                .map_or(ProcProcess::Ended, |process| {
                    ProcProcess::Running(process.id.pid)
                }),
        }
    }

    /// Returns the running processes of these ranks. Ranks without any known process are left out.
    fn running(&self, ranks: &BTreeSet<Rank>) -> BTreeMap<Rank, Vec<RunningProcess>> {
        let all = self.all();
        let of = |rank: &Rank| {
            Some((
                *rank,
                all.get(rank)?
                    .iter()
                    .filter(|p| p.is_there())
                    .copied()
                    .collect(),
            ))
        };
        ranks.iter().filter_map(of).collect()
    }

    /// Returns the ids of all processes.
    pub(super) fn ids(&self) -> Vec<ProcessId> {
        self.all()
            .values()
            .flatten()
            .map(|process| process.id)
            .collect()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Rank, Vec<RunningProcess>>> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Action on procs of a registered job.
#[derive(Debug)]
pub(super) struct RegisteredControl {
    /// User that the processes run as.
    pub(super) owner: UserIdentity,
    pub(super) action: JobAction,
    pub(super) ranks: BTreeSet<Rank>,
    /// Time between the request to end and the kill.
    pub(super) grace: Duration,
    /// Processes of all registered procs. The descendants of another proc are not affected.
    pub(super) others: BTreeSet<ProcessId>,
}

impl RegisteredControl {
    /// Carries out the action. Returns the procs on which it failed. Blocks; a termination blocks
    /// up to the time that procs have to end.
    pub(super) fn run(self, procs: &RegisteredProcs) -> Vec<RankNotDone> {
        let mut not_done = Vec::new();
        let mut running = procs.running(&self.ranks);
        for rank in &self.ranks {
            match running.get(rank) {
                None => {
                    let why = "no accessible process of this proc has connected";
                    not_done.push(RankNotDone::new(*rank, code::PMIX_ERR_NOT_FOUND, why));
                }
                Some(processes) if processes.is_empty() => {
                    not_done.extend(ended_already(&self.action, *rank))
                }
                Some(_) => {}
            }
        }
        running.retain(|_, processes| !processes.is_empty());
        if let JobAction::Restart { .. } = self.action {
            let why = "not started by this launcher, so it cannot be restarted";
            let refused = running
                .into_keys()
                .map(|rank| RankNotDone::new(rank, code::PMIX_ERR_NOT_SUPPORTED, why));
            return not_done.into_iter().chain(refused).collect();
        }
        let ranks: Vec<Rank> = running.keys().copied().collect();
        match as_user::run(self.owner, || {
            self.act(&RegisteredTargets {
                running,
                others: &self.others,
            })
        }) {
            Ok(refused) => {
                let of = |(rank, why): (Rank, Refused)| RankNotDone {
                    rank,
                    status: why.status,
                    reason: why.reason,
                };
                not_done.extend(refused.into_iter().map(of));
            }
            Err(error) => {
                let why = format!("cannot act as the user of the job: {error}");
                let refused = ranks
                    .into_iter()
                    .map(|rank| RankNotDone::new(rank, code::PMIX_ERR_NO_PERMISSIONS, &why));
                not_done.extend(refused);
            }
        }
        not_done
    }

    /// Carries out the action with the rights of the calling thread.
    fn act(&self, targets: &RegisteredTargets<'_>) -> BTreeMap<Rank, Refused> {
        match &self.action {
            JobAction::Signal(_) => match signal_of(&self.action) {
                Some(signal) => targets.signal(signal),
                None => BTreeMap::new(),
            },
            JobAction::Pause => targets.pause(),
            JobAction::Resume => send(targets.members(), Signal::CONT),
            JobAction::Terminate => targets.terminate(self.grace),
            JobAction::Kill => targets.kill(),
            // Answered by `run`.
            JobAction::Restart { .. } => BTreeMap::new(),
        }
    }
}

/// Failure of an action on a proc.
#[derive(Debug)]
struct Refused {
    status: peal_model::Status,
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

/// Processes of the procs of a request.
struct RegisteredTargets<'a> {
    running: BTreeMap<Rank, Vec<RunningProcess>>,
    others: &'a BTreeSet<ProcessId>,
}

impl RegisteredTargets<'_> {
    /// Returns the known processes and all their current descendants, each with the nearest proc
    /// among its ancestors.
    fn members(&self) -> Vec<(Rank, RunningProcess)> {
        let all: HashMap<u32, RunningProcess> = RunningProcess::all()
            .into_iter()
            .map(|process| (process.id.pid, process))
            .collect();
        let roots: HashMap<ProcessId, Rank> = self
            .running
            .iter()
            .flat_map(|(rank, own)| own.iter().map(|process| (process.id, *rank)))
            .collect();
        let owner = |process: &RunningProcess| {
            let mut at = *process;
            // Entries of `/proc` are read one after the other, so the parents may form a cycle. The
            // number of steps is bounded by the number of processes.
            for _ in 0..=all.len() {
                match roots.get(&at.id) {
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

    /// Sends a signal to the known processes, not to their descendants.
    fn signal(&self, signal: Signal) -> BTreeMap<Rank, Refused> {
        let own = self
            .running
            .iter()
            .flat_map(|(rank, own)| own.iter().map(|process| (*rank, *process)));
        send(own.collect(), signal)
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
        process::{Child, Command, Stdio},
    };

    /// Starts a shell with a child. Returns both, the child by its process id.
    fn family() -> (Child, u32) {
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
        (shell, line.trim().parse().unwrap())
    }

    fn owner() -> UserIdentity {
        UserIdentity {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    fn control(
        procs: &RegisteredProcs,
        action: JobAction,
        rank: u32,
        others: &[ProcessId],
    ) -> Vec<RankNotDone> {
        let ranks = [Rank(rank)].into();
        let others = others.iter().copied().collect();
        let control = RegisteredControl {
            owner: owner(),
            action,
            ranks,
            grace: Duration::ZERO,
            others,
        };
        control.run(procs)
    }

    fn lives(pid: u32) -> bool {
        RunningProcess::of(pid).is_some_and(|process| process.lives())
    }

    fn is_stopped(pid: u32) -> bool {
        RunningProcess::of(pid).is_some_and(|process| process.is_stopped())
    }

    #[test]
    fn registered_proc_is_paused_resumed_killed_with_descendants() {
        let procs = RegisteredProcs::default();
        let ((mut shell, child), (mut other, others_child)) = (family(), family());
        procs.add(Rank(0), shell.id());
        procs.add(Rank(1), other.id());
        assert_eq!(procs.process_of(Rank(0)), ProcProcess::Running(shell.id()));
        assert_eq!(control(&procs, JobAction::Pause, 0, &procs.ids()), []);
        assert!(
            is_stopped(shell.id())
                && is_stopped(child)
                && !is_stopped(other.id())
                && !is_stopped(others_child)
        );
        assert_eq!(control(&procs, JobAction::Resume, 0, &procs.ids()), []);
        assert!(!is_stopped(shell.id()) && !is_stopped(child));
        assert_eq!(control(&procs, JobAction::Kill, 0, &procs.ids()), []);
        assert!(!lives(shell.id()) && !lives(child) && lives(other.id()) && lives(others_child));
        assert_eq!(procs.process_of(Rank(0)), ProcProcess::Ended);
        let [late] = &control(&procs, JobAction::Pause, 0, &procs.ids())[..] else {
            panic!("the pause should fail")
        };
        assert_eq!(
            (late.status, late.reason.as_str()),
            (code::PMIX_ERR_NOT_FOUND, "it has ended")
        );
        // The child of the other proc ends with it.
        assert_eq!(control(&procs, JobAction::Terminate, 1, &procs.ids()), []);
        assert!(!lives(other.id()) && !lives(others_child));
        shell.wait().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn descendant_that_is_another_proc_is_spared() {
        let procs = RegisteredProcs::default();
        let (mut shell, child) = family();
        procs.add(Rank(0), shell.id());
        procs.add(Rank(1), child);
        assert_eq!(control(&procs, JobAction::Kill, 0, &procs.ids()), []);
        assert!(!lives(shell.id()) && lives(child));
        assert_eq!(control(&procs, JobAction::Kill, 1, &procs.ids()), []);
        assert!(!lives(child));
        shell.wait().unwrap();
    }

    #[test]
    fn kill_at_its_deadline_includes_processes_just_found() {
        let procs = RegisteredProcs::default();
        let (mut shell, child) = family();
        procs.add(Rank(0), shell.id());
        let targets = RegisteredTargets {
            running: procs.running(&[Rank(0)].into()),
            others: &BTreeSet::new(),
        };
        let refused = targets.kill_with(Vec::new(), Instant::now());
        let left = [shell.id(), child].map(lives);
        let _ = shell.kill();
        shell.wait().unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        assert_eq!(left, [false, false]);
    }

    #[test]
    fn proc_without_a_process_is_named() {
        let procs = RegisteredProcs::default();
        // The process of this test, and an id without a process.
        procs.add(Rank(0), std::process::id());
        procs.add(Rank(1), u32::MAX);
        for rank in [0, 1] {
            assert_eq!(procs.process_of(Rank(rank)), ProcProcess::Unknown);
            let [refused] = &control(&procs, JobAction::Kill, rank, &[])[..] else {
                panic!("the request should fail")
            };
            assert_eq!(refused.status, code::PMIX_ERR_NOT_FOUND);
        }
        let (mut shell, _) = family();
        procs.add(Rank(2), shell.id());
        let [refused] = &control(&procs, JobAction::Restart { checkpoint: None }, 2, &[])[..]
        else {
            panic!("the restart should fail")
        };
        assert_eq!(refused.status, code::PMIX_ERR_NOT_SUPPORTED);
        assert_eq!(control(&procs, JobAction::Kill, 2, &[]), []);
        shell.wait().unwrap();
    }
}
