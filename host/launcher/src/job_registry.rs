//! The jobs of a host while they run, and which belong together: one that was started and those that its procs have spawned.
use super::{JobCommand, exit::JobExit, input::Inputs, job_request::JobRequest};
use peal_model::{Nspace, Status};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, watch};

/// Jobs that belong together. When one of them is ended because something went wrong, the others are, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpawnTreeId(u64);

/// A job that runs.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredJob {
    pub(crate) family: SpawnTreeId,
    /// How it was started, for those that it spawns.
    pub(crate) request: Arc<JobRequest>,
    pub(crate) commands: mpsc::Sender<JobCommand>,
    pub(crate) inputs: Arc<Inputs>,
}

/// Whose relative a new job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpawnTree {
    /// Nobody's.
    Alone,
    /// One of these.
    Of(SpawnTreeId),
}

#[derive(Default, Debug)]
struct Inner {
    running: BTreeMap<Nspace, RegisteredJob>,
    families: u64,
    /// How many names have been given to jobs that were spawned.
    named: u64,
    /// How many procs have been started so far.
    procs: u32,
}

impl Inner {
    /// The others that belong together with a job and run.
    fn relatives(&self, nspace: &Nspace) -> impl Iterator<Item = &RegisteredJob> {
        let family = self.running.get(nspace).map(|job| job.family);
        let is_related = move |other: &Nspace, job: &RegisteredJob| {
            Some(job.family) == family && other != nspace && !job.commands.is_closed()
        };
        self.running
            .iter()
            .filter(move |(other, job)| is_related(other, job))
            .map(|(_, job)| job)
    }
}

/// What has become of the jobs that were spawned.
#[derive(Default, Debug)]
pub(crate) struct SpawnedJobs {
    running: usize,
    failed: Option<JobExit>,
}

/// The jobs of one host.
#[derive(Debug, Default)]
pub(crate) struct JobRegistry {
    inner: Mutex<Inner>,
    spawned: watch::Sender<SpawnedJobs>,
}

/// Counts as one of the jobs that were spawned until it is dropped.
pub(crate) struct SpawnSlot(Arc<JobRegistry>);

impl Drop for SpawnSlot {
    fn drop(&mut self) {
        self.0
            .spawned
            .send_modify(|offspring| offspring.running = offspring.running.saturating_sub(1));
    }
}

impl SpawnSlot {
    /// It has ended.
    pub(crate) fn ended(self, end: JobExit) {
        self.0.spawned.send_modify(|offspring| {
            if end.exit_status != 0 && offspring.failed.is_none() {
                offspring.failed = Some(end);
            }
        });
    }
}

impl JobRegistry {
    /// Enters a job; nothing if one of that name runs.
    pub(crate) fn register(
        &self,
        request: &JobRequest,
        kinship: SpawnTree,
        (commands, inputs): (mpsc::Sender<JobCommand>, Arc<Inputs>),
    ) -> Option<()> {
        let mut inner = self.lock();
        // Those that have ended hear nothing any more.
        inner.running.retain(|_, job| !job.commands.is_closed());
        if inner.running.contains_key(&request.nspace) {
            return None;
        }
        let family = match kinship {
            SpawnTree::Of(family) => family,
            SpawnTree::Alone => {
                inner.families += 1;
                SpawnTreeId(inner.families)
            }
        };
        inner.procs = inner.procs.saturating_add(request.size());
        let job = RegisteredJob {
            family,
            request: Arc::new(request.clone()),
            commands,
            inputs,
        };
        inner.running.insert(request.nspace.clone(), job);
        Some(())
    }

    /// A job that runs.
    pub(crate) fn find(&self, nspace: &Nspace) -> Option<RegisteredJob> {
        self.lock()
            .running
            .get(nspace)
            .filter(|job| !job.commands.is_closed())
            .cloned()
    }

    /// Whether a job was entered and none has taken its place; it may have ended.
    pub(crate) fn knows(&self, nspace: &Nspace) -> bool {
        self.lock().running.contains_key(nspace)
    }

    /// The job that was started first of those that run.
    pub(crate) fn oldest(&self) -> Option<RegisteredJob> {
        let inner = self.lock();
        let running = inner
            .running
            .values()
            .filter(|job| !job.commands.is_closed());
        running.min_by_key(|job| job.family.0).cloned()
    }

    /// The name of one more job beside this one, and how many procs those have that were started before.
    pub(crate) fn next(&self, beside: &Nspace) -> (Nspace, u32) {
        let mut inner = self.lock();
        inner.named += 1;
        let base = beside
            .as_str()
            .rsplit_once('@')
            .map_or(beside.as_str(), |(base, _)| base);
        // What it is made of was a name.
        let nspace =
            Nspace::new(&format!("{base}@{}", inner.named + 1)).unwrap_or_else(|_| beside.clone());
        (nspace, inner.procs)
    }

    /// A job is about to be spawned; nothing if there are so many already.
    pub(crate) fn spawns(self: &Arc<JobRegistry>, max: usize) -> Option<SpawnSlot> {
        let begun = self.spawned.send_if_modified(|offspring| {
            let is_room = offspring.running < max;
            offspring.running += usize::from(is_room);
            is_room
        });
        begun.then(|| SpawnSlot(self.clone()))
    }

    /// Whether others run that belong together with a job.
    pub(crate) fn has_relatives(&self, nspace: &Nspace) -> bool {
        self.lock().relatives(nspace).next().is_some()
    }

    /// A job is ended because of this: so are its relatives.
    pub(crate) fn end_relatives(&self, nspace: &Nspace, because: Status) {
        for job in self.lock().relatives(nspace) {
            // One that is busy with so much else is ended by whoever waits for all of them.
            let _ = job
                .commands
                .try_send(JobCommand::EndWithRelative { because });
        }
    }

    /// Tells all jobs of a signal: they shall end, or their procs shall get it.
    pub(crate) fn tell_all(&self, command: impl Fn() -> JobCommand) {
        for job in self.lock().running.values() {
            // A job that has ended already, or is busy ending, needs no more.
            let _ = job.commands.try_send(command());
        }
    }

    /// Waits until no job is left that was spawned. The end of the first that failed, if one did.
    pub(crate) async fn childless(&self) -> Option<JobExit> {
        let mut spawned = self.spawned.subscribe();
        let offspring = spawned.wait_for(|offspring| offspring.running == 0).await;
        offspring
            .ok()
            .and_then(|offspring| offspring.failed.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
