//! Addition and removal of jobs, their processes and process sets, as the host environment reports
//! them.
use crate::{
    actor::Actor, handle::AddJobError, host_environment::HostEnvironment,
    process_watch::TooManyProcesses,
};
use peal_core::{
    job::{JobProgress, JobSpec, ProcPhase},
    psets::PsetError,
    server::{Action, ServerState},
};
use peal_model::{Info, Nspace, Proc, Rank, Text, UserIdentity, Value, code, key};
use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::oneshot;

/// Jobs with their procs of this node, and the host environment, which knows the processes.
pub(crate) struct LocalJobs {
    pub(crate) jobs: Vec<JobProcs>,
    pub(crate) host: Arc<dyn HostEnvironment>,
}

/// Job with procs of this node.
#[derive(Debug)]
pub(crate) struct JobProcs {
    /// Job and the numbers of its procs.
    pub(crate) progress: JobProgress,
    /// Procs in the order of their ranks.
    pub(crate) procs: Vec<(Rank, ProcPhase)>,
    /// Number of further procs.
    pub(crate) further: usize,
}

/// Returns the jobs of a state with their users, sorted by name.
pub(crate) fn users_of_jobs(state: &ServerState) -> Vec<(Nspace, UserIdentity)> {
    let jobs = state.jobs();
    jobs.map(|job| (job.spec.nspace.clone(), job.spec.identity))
        .collect()
}

impl Actor {
    /// Returns the jobs with this number of procs of each user at most. Looking up their processes is left
    /// to the caller, which does not hold the lock of the actor.
    pub(crate) fn jobs_with_procs(&self, max_procs_of_user: usize) -> LocalJobs {
        let mut rooms: BTreeMap<u32, usize> = BTreeMap::new();
        let jobs = self.state.jobs().map(|progress| {
            let room = rooms.entry(progress.spec.identity.uid);
            let room = room.or_insert(max_procs_of_user);
            let mut phases = self.state.phases_of(&progress.spec.nspace);
            let procs: Vec<(Rank, ProcPhase)> = phases.by_ref().take(*room).collect();
            *room = room.saturating_sub(procs.len());
            let further = phases.count();
            JobProcs {
                progress,
                procs,
                further,
            }
        });
        LocalJobs {
            jobs: jobs.collect(),
            host: self.host.clone(),
        }
    }

    /// Registers a job with the state, which tells other servers.
    pub(crate) fn add_job(&mut self, spec: JobSpec) -> Result<(), AddJobError> {
        // Sorted, so that a job is found quickly.
        let Err(at) = self
            .jobs
            .binary_search_by(|(known, _)| known.cmp(&spec.nspace))
        else {
            return Err(AddJobError::Exists(spec.nspace));
        };
        // Events in the chains keep the list of the time when they were raised.
        let mut jobs = (*self.jobs).clone();
        jobs.insert(at, (spec.nspace.clone(), spec.identity));
        self.jobs = Arc::new(jobs);
        let actions = self.state.add_job(spec);
        self.act_all(actions);
        Ok(())
    }

    /// Removes a job from the state, which tells other servers.
    pub(crate) fn remove_job(&mut self, nspace: &Nspace) -> Vec<Action> {
        // First, because the state does not know the user of the lost procs afterwards.
        let losses = self.state.report_losses_of(nspace);
        self.act_all(losses);
        self.processes.forget_job(nspace);
        self.jobs = Arc::new(
            self.jobs
                .iter()
                .filter(|(known, _)| known != nspace)
                .cloned()
                .collect(),
        );
        self.state.remove_job(nspace)
    }

    /// Records the process of a proc, as named by its launcher.
    pub(crate) fn process_named(
        &mut self,
        proc: &Proc,
        pid: u32,
        process: OwnedFd,
    ) -> Result<(), TooManyProcesses> {
        let is_first = !self.processes.is_alive(proc);
        self.processes.watch_named(proc, pid, process)?;
        self.host.process_found(proc, pid);
        // A second process of a proc does not start it again.
        if is_first {
            self.state
                .procs_started(&proc.nspace, &BTreeMap::from([(proc.rank, pid)]));
        }
        Ok(())
    }

    /// Processes the end of the last process of a proc that another launcher started. Only that
    /// launcher knows the exit status, so the end counts as abnormal unless the proc has finalized.
    pub(crate) fn process_ended(&mut self, proc: &Proc) -> Vec<Action> {
        // Another process may have become the proc meanwhile.
        if self.processes.is_alive(proc) {
            return Vec::new();
        }
        let abnormal = match self.state.life(proc) {
            Some(ProcPhase::Connected(_) | ProcPhase::Lost) => {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_secs();
                let infos = vec![Info::new(key::PMIX_EVENT_TIMESTAMP, Value::Time(now))];
                Some((code::PMIX_ERR_PROC_TERM_WO_SYNC, infos))
            }
            // The launcher had named the process, but it never connected. Collectives stop waiting.
            Some(ProcPhase::Expected) => None,
            // Fences need not wait until the proc initializes again.
            Some(ProcPhase::Finalized) => None,
            Some(ProcPhase::Terminated) | None => return Vec::new(),
        };
        self.state.proc_ended(proc, abnormal, self.now())
    }

    /// Defines a process set and sends the result to the host environment.
    pub(crate) fn define_process_set(
        &mut self,
        name: Text,
        members: Vec<Proc>,
        done: oneshot::Sender<Result<(), PsetError>>,
    ) -> Vec<Action> {
        let defined = self.state.define_process_set(name, members);
        let (answer, actions) = defined.map_or_else(
            |error| (Err(error), Vec::new()),
            |actions| (Ok(()), actions),
        );
        // Ignore a caller that no longer waits: the set is defined all the same.
        let _ = done.send(answer);
        actions
    }
}
