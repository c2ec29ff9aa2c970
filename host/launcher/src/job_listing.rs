//! A job as queries report it.
use super::{
    JobCommand,
    job_request::{self, AppRequest},
    reaper::ChildReaper,
    registered::{ProcProcess, RegisteredProcs},
};
use peal_core::job::{JOB_ELAPSED, JobSpec};
use peal_model::{
    DataArray, Info, Nspace, Proc, ProcInfo, ProcState, Rank, Status, Text, UserIdentity, Value,
    code, key, rank,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// Maximum length of a reported program name, in bytes. A process can set its name to any length.
const MAX_PROGRAM: usize = 4096;

/// Entry of a job that has not ended.
#[derive(Debug)]
pub(super) struct JobListing {
    pub(super) owner: UserIdentity,
    pub(super) nspace: Nspace,
    size: u32,
    origin: JobOrigin,
    /// Time of the start or the registration in this process.
    started: Instant,
    /// Time that had passed by then in other processes of the server.
    before: OnceLock<Duration>,
    /// Reason for which the job is being ended, once it is.
    because: OnceLock<Status>,
    /// States of the procs that have ended.
    ends: Mutex<BTreeMap<Rank, ProcState>>,
}

/// Launcher of a job.
#[derive(Debug)]
pub(super) enum JobOrigin {
    /// This launcher: the applications, the name of this node, and the command channel, which
    /// closes at the end of the job.
    Launched {
        apps: Vec<AppRequest>,
        hostname: String,
        commands: mpsc::Sender<JobCommand>,
    },
    /// Another launcher, which reports the end of the job: the job as it was registered, and the
    /// known processes of its procs.
    Adopted {
        spec: JobSpec,
        procs: RegisteredProcs,
    },
}

impl JobListing {
    pub(super) fn new(
        owner: UserIdentity,
        (nspace, size): (Nspace, u32),
        origin: JobOrigin,
    ) -> JobListing {
        JobListing {
            owner,
            nspace,
            size,
            origin,
            started: Instant::now(),
            before: OnceLock::new(),
            because: OnceLock::new(),
            ends: Mutex::default(),
        }
    }

    /// Sets the reason for which the job is being ended. Only the first call has an effect.
    pub(super) fn ending(&self, because: Status) {
        let _ = self.because.set(because);
    }

    /// Sets the state of a proc that has ended.
    pub(super) fn proc_ended(&self, rank: Rank, state: ProcState) {
        self.ends().insert(rank, state);
    }

    /// Returns the reason for which the job is being ended, or success while it runs.
    pub(super) fn status(&self) -> Status {
        self.because.get().copied().unwrap_or(code::PMIX_SUCCESS)
    }

    /// Returns the state of a proc that has ended. The lock is held for this only: a process may
    /// delay reads of its command line, and the task of the job must not wait for that.
    fn end_of(&self, rank: Rank) -> ProcState {
        let ended = self.ends().get(&rank).copied();
        ended.unwrap_or(ProcState::TERMINATED)
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<Rank, ProcState>> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the start or the registration of the job.
    pub(super) fn elapsed(&self) -> Duration {
        let before = self.before.get().copied().unwrap_or_default();
        before.saturating_add(self.started.elapsed())
    }

    /// Sets the time since the registration, which another process of the server knows. Only the first call has
    /// an effect.
    pub(super) fn set_elapsed(&self, elapsed: Duration) {
        let _ = self.before.set(elapsed);
    }

    /// Returns true if the job has not ended.
    pub(super) fn is_there(&self) -> bool {
        match &self.origin {
            JobOrigin::Launched { commands, .. } => !commands.is_closed(),
            JobOrigin::Adopted { .. } => true,
        }
    }

    /// Returns the processes of the procs, if another launcher started the job.
    pub(super) fn registered(&self) -> Option<&RegisteredProcs> {
        match &self.origin {
            JobOrigin::Launched { .. } => None,
            JobOrigin::Adopted { procs, .. } => Some(procs),
        }
    }

    /// Returns the process of a proc.
    pub(super) fn process_of(&self, proc: &Proc, reaper: &ChildReaper) -> ProcProcess {
        match &self.origin {
            JobOrigin::Launched { .. } => reaper
                .process_of(proc)
                .map_or(ProcProcess::Ended, ProcProcess::Running),
            JobOrigin::Adopted { procs, .. } => procs.process_of(proc.rank),
        }
    }

    /// Returns the name of the node of a proc, if it is known.
    fn hostname_of(&self, rank: Rank) -> Option<&str> {
        match &self.origin {
            JobOrigin::Launched { hostname, .. } => Some(hostname),
            JobOrigin::Adopted { spec, .. } => spec.hostname_of(rank),
        }
    }

    /// Returns an info with the name, user, size and age of the job and, if known, its command line.
    pub(super) fn info(&self) -> Info {
        let mut infos = vec![Info::new(
            key::PMIX_NSPACE,
            Value::string(self.nspace.as_str()),
        )];
        if let JobOrigin::Launched { apps, .. } = &self.origin {
            let line = Value::string(&job_request::command(apps));
            infos.push(Info::new(key::PMIX_CMD_LINE, line));
        }
        infos.push(Info::new(key::PMIX_USERID, Value::Uint32(self.owner.uid)));
        infos.push(Info::new(key::PMIX_JOB_SIZE, Value::Uint32(self.size)));
        let elapsed = Value::Uint64(self.elapsed().as_secs());
        infos.push(Info::new(JOB_ELAPSED, elapsed));
        Info::new(
            key::PMIX_JOB_INFO_ARRAY,
            Value::DataArray(DataArray::infos(infos)),
        )
    }

    /// Returns true if a rank is on another node.
    pub(super) fn is_elsewhere(&self, rank: Rank) -> bool {
        match &self.origin {
            JobOrigin::Launched { .. } => false,
            JobOrigin::Adopted { spec, .. } => spec.is_elsewhere(rank),
        }
    }

    /// Returns true if some procs are on other nodes.
    pub(super) fn has_procs_elsewhere(&self) -> bool {
        self.is_elsewhere(rank::PMIX_RANK_WILDCARD)
    }

    /// Returns all ranks.
    pub(super) fn ranks(&self) -> Vec<Rank> {
        (0..self.size).map(Rank).collect()
    }

    /// Returns the ranks of this node.
    pub(super) fn local_ranks(&self) -> Vec<Rank> {
        match &self.origin {
            JobOrigin::Launched { .. } => self.ranks(),
            JobOrigin::Adopted { spec, .. } => spec.local_ranks(),
        }
    }

    /// Returns the running procs, each with its process id.
    pub(super) fn running(&self, reaper: &ChildReaper) -> Vec<(Proc, u32)> {
        let procs = (0..self.size).map(|rank| Proc::new(self.nspace.clone(), Rank(rank)));
        procs
            .filter_map(|proc| match self.process_of(&proc, reaper) {
                ProcProcess::Running(pid) => Some((proc, pid)),
                ProcProcess::Unknown | ProcProcess::Ended => None,
            })
            .collect()
    }

    /// Returns procs as an array of `PMIX_PROC_INFO`.
    pub(super) fn procs(&self, ranks: Vec<Rank>, reaper: &ChildReaper) -> DataArray {
        let apps = match &self.origin {
            JobOrigin::Launched { apps, .. } => apps.as_slice(),
            JobOrigin::Adopted { .. } => &[],
        };
        DataArray::proc_infos(ranks.into_iter().map(|rank| {
            let proc = Proc::new(self.nspace.clone(), rank);
            let program = job_request::app_of(apps, proc.rank).map(|app| &app.program);
            let executable = program.map(|program| Text::from_bytes(program.as_encoded_bytes()));
            let (pid, state, executable) = match self.process_of(&proc, reaper) {
                ProcProcess::Running(pid) => (
                    pid,
                    ProcState::RUNNING,
                    // The other launcher did not report which program it started.
                    executable.or_else(|| program_of(pid)),
                ),
                ProcProcess::Ended => (0, self.end_of(proc.rank), executable),
                // Only the other launcher knows the state.
                ProcProcess::Unknown => (0, ProcState::UNDEF, executable),
            };
            let hostname = self.hostname_of(proc.rank).map(Text::from);
            ProcInfo {
                proc,
                hostname,
                executable,
                pid,
                state,
            }
        }))
    }
}

/// Returns the program of a process by its command line, which the process can change.
fn program_of(pid: u32) -> Option<Text> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let program = line
        .split(|byte| *byte == 0)
        .next()
        .filter(|program| !program.is_empty())?;
    Some(Text::from_bytes(
        program.get(..MAX_PROGRAM).unwrap_or(program),
    ))
}
