//! Processes of procs that other launchers start, as under `peal serve`. These are the processes
//! that connected, identified by the kernel, those that the launcher named, and all descendants.
//! Actions run as the user of the job, so that the kernel protects processes of other users.
use super::control::{RankNotDone, ended_already};
use peal_core::job_control::JobAction;
use peal_helper::{
    ControlFailure, ControlOrder, HelperError, PrivilegedHelper, ProcessAction, ProcessTarget,
};
use peal_model::{Rank, UserIdentity, code};
use peal_system::process::{ProcessId, RunningProcess};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Maximum number of recorded processes of one proc: its own and those of its clones.
const MAX_PROCESSES: usize = 16;

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
    pub(super) fn run(
        self,
        procs: &RegisteredProcs,
        helper: &PrivilegedHelper,
    ) -> Vec<RankNotDone> {
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
        let Some(action) = process_action(&self.action, self.grace) else {
            let why = "not started by this launcher, so it cannot be restarted";
            let refused = running
                .into_keys()
                .map(|rank| RankNotDone::new(rank, code::PMIX_ERR_NOT_SUPPORTED, why));
            return not_done.into_iter().chain(refused).collect();
        };
        let ranks: Vec<Rank> = running.keys().copied().collect();
        if ranks.is_empty() {
            return not_done;
        }
        // A descendant of a proc that is this server, such as a nested one, is not affected either.
        let mut others = self.others;
        others.extend(RunningProcess::of(std::process::id()).map(|process| process.id));
        let target = |(rank, processes)| ProcessTarget { rank, processes };
        let order = ControlOrder {
            owner: self.owner,
            action,
            targets: running.into_iter().map(target).collect(),
            others,
        };
        match helper.control(order) {
            Ok(failures) => not_done.extend(failures.into_iter().map(RankNotDone::from)),
            Err(error) => {
                let status = match &error {
                    HelperError::Refused(_) => code::PMIX_ERR_NO_PERMISSIONS,
                    HelperError::Lost(_) | HelperError::Timeout => code::PMIX_ERR_UNREACH,
                };
                let why = error.to_string();
                let refused = ranks
                    .into_iter()
                    .map(|rank| RankNotDone::new(rank, status, &why));
                not_done.extend(refused);
            }
        }
        not_done
    }
}

impl From<ControlFailure> for RankNotDone {
    fn from(failure: ControlFailure) -> RankNotDone {
        RankNotDone {
            rank: failure.rank,
            status: failure.status,
            reason: failure.reason,
        }
    }
}

/// Returns the action on processes; none for a restart, which only their launcher can do.
fn process_action(action: &JobAction, grace: Duration) -> Option<ProcessAction> {
    Some(match action {
        JobAction::Signal(number) => ProcessAction::Signal(i32::from(*number)),
        JobAction::Pause => ProcessAction::Pause,
        JobAction::Resume => ProcessAction::Resume,
        JobAction::Terminate => ProcessAction::Terminate(grace),
        JobAction::Kill => ProcessAction::Kill,
        JobAction::Restart { .. } => return None,
    })
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
        control.run(procs, &PrivilegedHelper::default())
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
