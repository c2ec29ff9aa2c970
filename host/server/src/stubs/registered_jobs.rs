//! Jobs that one host environment has registered, from their registration to their removal.
use super::{fork_messages::RegisteredUsers, host_router::HostRouter, remote_host::RemoteHost};
use crate::{
    admin::JobJournal,
    handle::{AddJobError, ServerHandle},
};
use peal_core::{
    job::{JobSpec, LauncherMonitoring},
    job_registration::LauncherJob,
};
use peal_model::{Info, Nspace, Proc, Status, UserIdentity, code};
use peal_stub::UpcallKind;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Jobs of one connection.
pub(super) struct RegisteredJobs {
    handle: ServerHandle,
    router: Arc<HostRouter>,
    host: Arc<RemoteHost>,
    hostname: String,
    max_jobs: usize,
    journal: JobJournal,
    registrations: BTreeMap<Nspace, LauncherJob>,
    /// Jobs that the server has.
    added: BTreeSet<Nspace>,
    users: RegisteredUsers,
    /// Data of no job, which the jobs get that are registered after them.
    resources: Vec<Info>,
}

/// Jobs of one connection, for another process of the server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct HandedJobs {
    registrations: BTreeMap<Nspace, LauncherJob>,
    pub(super) added: BTreeSet<Nspace>,
    users: BTreeMap<Proc, UserIdentity>,
    resources: Vec<Info>,
}

/// Largest number of resources of one host environment.
const MAX_RESOURCES: usize = 1024;

impl RegisteredJobs {
    pub(super) fn new(
        handle: ServerHandle,
        router: Arc<HostRouter>,
        host: Arc<RemoteHost>,
        hostname: String,
        max_jobs: usize,
        journal: JobJournal,
    ) -> RegisteredJobs {
        RegisteredJobs {
            handle,
            router,
            host,
            hostname,
            max_jobs,
            journal,
            registrations: BTreeMap::new(),
            added: BTreeSet::new(),
            users: RegisteredUsers::default(),
            resources: Vec::new(),
        }
    }

    /// Returns the jobs for another process of the server.
    pub(super) fn handed(&self) -> HandedJobs {
        HandedJobs {
            registrations: self.registrations.clone(),
            added: self.added.clone(),
            users: self.users.all(),
            resources: self.resources.clone(),
        }
    }

    /// Goes on with the jobs of another process of the server, which the server and the router have.
    pub(super) fn go_on_with(&mut self, handed: HandedJobs) {
        let HandedJobs {
            registrations,
            added,
            users,
            resources,
        } = handed;
        for (proc, identity) in users {
            self.users.add(proc, identity);
        }
        self.registrations = registrations;
        self.added = added;
        self.resources = resources;
    }

    /// Forgets the jobs, with which another process of the server goes on.
    pub(super) fn leave(&mut self) {
        self.registrations.clear();
        self.added.clear();
    }

    /// Returns the users of the registered procs.
    pub(super) fn users(&self) -> RegisteredUsers {
        self.users.clone()
    }

    /// Returns the registered jobs.
    pub(super) fn names(&self) -> Vec<Nspace> {
        self.registrations.keys().cloned().collect()
    }

    /// Returns true if the host environment has registered this job.
    pub(super) fn has(&self, nspace: &Nspace) -> bool {
        self.registrations.contains_key(nspace)
    }

    /// Registers resources: data of each job that is registered later.
    pub(super) fn add_resources(&mut self, infos: Vec<Info>) -> Result<(), Status> {
        if self.resources.len().saturating_add(infos.len()) > MAX_RESOURCES {
            let max = MAX_RESOURCES;
            tracing::warn!(host = ?self.host, max, "resources not registered: limit reached");
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        self.resources.extend(infos);
        Ok(())
    }

    /// Removes resources, for each info the first of its key. Jobs that have them keep them.
    pub(super) fn remove_resources(&mut self, infos: &[Info]) {
        for info in infos {
            let at = self.resources.iter().position(|own| own.key == info.key);
            if let Some(at) = at {
                self.resources.remove(at);
            }
        }
    }

    /// Registers a job, or adds to its description.
    pub(super) async fn describe(
        &mut self,
        nspace: Nspace,
        local: i32,
        infos: Vec<Info>,
    ) -> Result<(), Status> {
        let mut changed = self.registration(&nspace)?;
        changed.describe(local, infos);
        self.replace(nspace, changed).await
    }

    /// Registers a proc of this node.
    pub(super) async fn add_client(
        &mut self,
        proc: Proc,
        identity: UserIdentity,
    ) -> Result<(), Status> {
        let own = self.host.identity.uid;
        if own != 0 && identity.uid != own {
            tracing::warn!(%proc, uid = identity.uid, own, "proc of another user not registered");
            return Err(code::PMIX_ERR_NO_PERMISSIONS);
        }
        let mut changed = self.registration(&proc.nspace)?;
        changed.add_client(proc.rank, identity);
        self.users.add(proc.clone(), identity);
        self.replace(proc.nspace, changed).await
    }

    /// Removes a job.
    pub(super) async fn remove(&mut self, nspace: &Nspace) {
        let progress = self.handle.jobs().await.unwrap_or_default();
        let lost = progress
            .iter()
            .any(|job| job.spec.nspace == *nspace && job.lost > 0);
        if self.forget(nspace) {
            self.journal.ended(nspace.clone(), i32::from(lost)).await;
        }
    }

    /// Removes all jobs.
    pub(super) async fn remove_all(&mut self) {
        let all: Vec<Nspace> = self.registrations.keys().cloned().collect();
        for nspace in all {
            self.remove(&nspace).await;
        }
    }

    /// Removes a job from the server. Returns false if the server did not have it.
    fn forget(&mut self, nspace: &Nspace) -> bool {
        self.registrations.remove(nspace);
        self.users.remove_job(nspace);
        let was_added = self.added.remove(nspace);
        if was_added {
            self.handle.remove_job(nspace.clone());
            self.router.remove(nspace);
        }
        was_added
    }

    /// Returns the registration of a job as it is so far.
    fn registration(&self, nspace: &Nspace) -> Result<LauncherJob, Status> {
        if let Some(known) = self.registrations.get(nspace) {
            return Ok(known.clone());
        }
        if self.registrations.len() >= self.max_jobs {
            let max = self.max_jobs;
            tracing::warn!(%nspace, max, "job not registered: limit of jobs reached (hosts.max_jobs)");
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        // The name of a job also names files.
        let name = Nspace::of_job(nspace.as_str()).map_err(|error| {
            tracing::warn!(%nspace, %error, "job not registered");
            code::PMIX_ERR_BAD_PARAM
        })?;
        let mut job = LauncherJob::new(name, &self.hostname, self.host.identity);
        job.add_data(self.resources.clone());
        if self.host.offers(UpcallKind::Monitor) {
            job.set_monitoring(LauncherMonitoring::Offered);
        }
        Ok(job)
    }

    /// Takes a changed registration, and passes the job on to the server when it is complete. One that
    /// is refused changes nothing.
    async fn replace(&mut self, nspace: Nspace, changed: LauncherJob) -> Result<(), Status> {
        if changed.is_complete() {
            let spec = changed.spec().map_err(|error| {
                tracing::warn!(%nspace, %error, "job not registered");
                error.status()
            })?;
            self.pass_on(spec).await?;
        }
        self.registrations.insert(nspace, changed);
        Ok(())
    }

    async fn pass_on(&mut self, spec: JobSpec) -> Result<(), Status> {
        let nspace = spec.nspace.clone();
        if self.added.contains(&nspace) {
            self.handle.respecify_job(spec).await;
            return Ok(());
        }
        let (uid, size) = (spec.identity.uid, spec.size());
        // Before the procs can connect, so that no upcall about them misses its host environment.
        self.router.add(&spec, self.host.clone())?;
        if let Err(error) = self.handle.add_job(spec).await {
            self.router.remove(&nspace);
            tracing::warn!(%nspace, %error, "job not registered");
            return Err(match error {
                AddJobError::Exists(_) => code::PMIX_ERR_EXISTS,
                AddJobError::Stopped => code::PMIX_ERR_NOT_AVAILABLE,
            });
        }
        self.added.insert(nspace.clone());
        self.journal.started(nspace, uid, size).await;
        Ok(())
    }
}

/// A connection whose task is cancelled leaves no jobs.
impl Drop for RegisteredJobs {
    fn drop(&mut self) {
        let all: Vec<Nspace> = self.registrations.keys().cloned().collect();
        for nspace in all {
            self.forget(&nspace);
        }
    }
}
