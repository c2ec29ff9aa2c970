//! The running jobs of the host environment, and their spawn trees. A spawn tree consists of one
//! started job and all jobs that its procs have spawned.
use super::{JobCommand, exit::JobExit, input::Inputs, job_request::JobRequest};
use peal_model::{Nspace, Status};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, watch};

/// Identifier of a spawn tree. When one job of a tree is ended because of a failure, so are the
/// others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpawnTreeId(u64);

/// Running job.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredJob {
    pub(crate) tree: SpawnTreeId,
    /// Request by which it was started, as the template for jobs that it spawns.
    pub(crate) request: Arc<JobRequest>,
    pub(crate) commands: mpsc::Sender<JobCommand>,
    pub(crate) inputs: Arc<Inputs>,
}

/// Spawn tree of a new job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpawnTree {
    /// A new tree.
    New,
    /// An existing tree.
    Existing(SpawnTreeId),
}

#[derive(Default, Debug)]
struct Inner {
    running: BTreeMap<Nspace, RegisteredJob>,
    trees: u64,
    /// Number of names given to spawned jobs.
    named: u64,
    /// Number of procs of all jobs registered so far.
    procs: u32,
}

impl Inner {
    /// Returns the other running jobs of the spawn tree of a job.
    fn related_jobs(&self, nspace: &Nspace) -> impl Iterator<Item = &RegisteredJob> {
        let tree = self.running.get(nspace).map(|job| job.tree);
        let is_related = move |other: &Nspace, job: &RegisteredJob| {
            Some(job.tree) == tree && other != nspace && !job.commands.is_closed()
        };
        self.running
            .iter()
            .filter(move |(other, job)| is_related(other, job))
            .map(|(_, job)| job)
    }
}

/// Progress of the spawned jobs.
#[derive(Default, Debug)]
pub(crate) struct SpawnedJobs {
    running: usize,
    failed: Option<JobExit>,
}

/// Registry of the jobs of one host environment.
#[derive(Debug, Default)]
pub(crate) struct JobRegistry {
    inner: Mutex<Inner>,
    spawned: watch::Sender<SpawnedJobs>,
}

/// Slot that counts as one spawned job until it is dropped.
pub(crate) struct SpawnSlot(Arc<JobRegistry>);

impl Drop for SpawnSlot {
    fn drop(&mut self) {
        self.0.spawned.send_modify(|spawned_jobs| {
            spawned_jobs.running = spawned_jobs.running.saturating_sub(1)
        });
    }
}

impl SpawnSlot {
    /// Records the exit of the job and frees the slot.
    pub(crate) fn ended(self, end: JobExit) {
        self.0.spawned.send_modify(|spawned_jobs| {
            if end.exit_status != 0 && spawned_jobs.failed.is_none() {
                spawned_jobs.failed = Some(end);
            }
        });
    }
}

impl JobRegistry {
    /// Registers a job. Returns none if one of that name runs.
    pub(crate) fn register(
        &self,
        request: &JobRequest,
        spawn_tree: SpawnTree,
        (commands, inputs): (mpsc::Sender<JobCommand>, Arc<Inputs>),
    ) -> Option<()> {
        let mut inner = self.lock();
        // Jobs that have ended stay until now, so that `knows` still finds them.
        inner.running.retain(|_, job| !job.commands.is_closed());
        if inner.running.contains_key(&request.nspace) {
            return None;
        }
        let tree = match spawn_tree {
            SpawnTree::Existing(tree) => tree,
            SpawnTree::New => {
                inner.trees += 1;
                SpawnTreeId(inner.trees)
            }
        };
        inner.procs = inner.procs.saturating_add(request.size());
        let job = RegisteredJob {
            tree,
            request: Arc::new(request.clone()),
            commands,
            inputs,
        };
        inner.running.insert(request.nspace.clone(), job);
        Some(())
    }

    /// Returns a running job by name.
    pub(crate) fn find(&self, nspace: &Nspace) -> Option<RegisteredJob> {
        self.lock()
            .running
            .get(nspace)
            .filter(|job| !job.commands.is_closed())
            .cloned()
    }

    /// Returns true if a job of this name is registered. It may have ended.
    pub(crate) fn knows(&self, nspace: &Nspace) -> bool {
        self.lock().running.contains_key(nspace)
    }

    /// Returns the running job that was started first.
    pub(crate) fn oldest(&self) -> Option<RegisteredJob> {
        let inner = self.lock();
        let running = inner
            .running
            .values()
            .filter(|job| !job.commands.is_closed());
        running.min_by_key(|job| job.tree.0).cloned()
    }

    /// Returns a name for one more job, derived from that of an existing job, and the number of
    /// procs of all jobs registered before.
    pub(crate) fn next(&self, beside: &Nspace) -> (Nspace, u32) {
        let mut inner = self.lock();
        inner.named += 1;
        let base = beside
            .as_str()
            .rsplit_once('@')
            .map_or(beside.as_str(), |(base, _)| base);
        // The fallback is for a name that has become too long. `register` refuses it as taken.
        let nspace =
            Nspace::new(&format!("{base}@{}", inner.named + 1)).unwrap_or_else(|_| beside.clone());
        (nspace, inner.procs)
    }

    /// Reserves a slot for a job to be spawned. Returns none if `max` spawned jobs exist.
    pub(crate) fn reserve_spawn(self: &Arc<JobRegistry>, max: usize) -> Option<SpawnSlot> {
        let begun = self.spawned.send_if_modified(|spawned_jobs| {
            let is_room = spawned_jobs.running < max;
            spawned_jobs.running += usize::from(is_room);
            is_room
        });
        begun.then(|| SpawnSlot(self.clone()))
    }

    /// Returns true if other jobs of the spawn tree of a job run.
    pub(crate) fn has_related_jobs(&self, nspace: &Nspace) -> bool {
        self.lock().related_jobs(nspace).next().is_some()
    }

    /// Ends the other jobs of the spawn tree of a job with this status.
    pub(crate) fn end_related_jobs(&self, nspace: &Nspace, because: Status) {
        for job in self.lock().related_jobs(nspace) {
            // A full queue drops the command: this must not block under the lock. Such a job ends
            // by a later command, for example the interruption of all jobs.
            let _ = job
                .commands
                .try_send(JobCommand::EndWithRelatedJob { because });
        }
    }

    /// Sends a command to all jobs.
    pub(crate) fn send_to_all(&self, command: impl Fn() -> JobCommand) {
        for job in self.lock().running.values() {
            // A closed queue belongs to a job that has ended; a full one to a job that is ending.
            let _ = job.commands.try_send(command());
        }
    }

    /// Waits until no spawned job is left. Returns the exit of the first that failed, if any did.
    pub(crate) async fn spawned_jobs_ended(&self) -> Option<JobExit> {
        let mut spawned = self.spawned.subscribe();
        let spawned_jobs = spawned
            .wait_for(|spawned_jobs| spawned_jobs.running == 0)
            .await;
        spawned_jobs
            .ok()
            .and_then(|spawned_jobs| spawned_jobs.failed.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
