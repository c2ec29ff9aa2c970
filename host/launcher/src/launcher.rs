//! Starts jobs on request of the user, and jobs that procs and tools spawn.
use super::{
    COMMANDS, EmbeddedHostEnvironment, Inputs, JobCommand, JobOutput, JobRequest, LaunchError,
    Launching, RunningJob,
    job::{JobContext, RunningJobTask},
    job_registry::SpawnTree,
    spawn::{self, ParentDependence, SpawnPlan},
};
use peal_model::{App, Info, Proc, Status, UserIdentity, code};
use peal_server::{AddJobError, Spawned};
use rustix::process::geteuid;
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::Instrument;

impl EmbeddedHostEnvironment {
    /// Starts a job.
    ///
    /// # Errors
    /// The reason of the failure. No part of the job remains then.
    pub async fn launch(&self, request: JobRequest) -> Result<RunningJob, LaunchError> {
        self.start(request, SpawnTree::New).await
    }

    async fn start(
        &self,
        request: JobRequest,
        spawn_tree: SpawnTree,
    ) -> Result<RunningJob, LaunchError> {
        let Launching { server, uri } = self.launching().ok_or(AddJobError::Stopped)?;
        let nspace = request.nspace.clone();
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let inputs = Arc::<Inputs>::default();
        // Registered before any proc runs, since a proc may abort its job at once.
        if self
            .jobs
            .register(&request, spawn_tree, (commands.clone(), inputs.clone()))
            .is_none()
        {
            return Err(AddJobError::Exists(request.nspace).into());
        }
        // Only now, since the report of the end of a job may be logged after its task has ended.
        self.outputs.retain(|job| self.jobs.knows(job));
        let JobOutput { tagging, files } = &request.output;
        self.outputs
            .open(request.nspace.clone(), *tagging, files.display());
        self.table.insert(&request, commands);
        self.cleanups.open(request.nspace.clone());
        let reaper = self.reaper.clone();
        let cleanups = self.cleanups.clone();
        let turns = self.turns.clone();
        let notices = self.notices.clone();
        let jobs = self.jobs.clone();
        let table = self.table.clone();
        let pulls = self.pulls.clone();
        let outputs = self.outputs.clone();
        let shared = JobContext {
            reaper,
            cleanups,
            turns,
            notices,
            jobs,
            table,
            pulls,
            outputs,
            inputs: inputs.clone(),
        };
        let work = RunningJobTask::new(server.clone(), uri, request, shared);
        // A span of level error is always enabled, so that every warning about the job carries its
        // name.
        let span = tracing::error_span!("launch", nspace = %nspace);
        let task = work.start(inbox).instrument(span).await?;
        Ok(RunningJob::new(task, inputs))
    }

    /// Starts a job that a proc or tool spawns.
    ///
    /// # Errors
    /// The status for the requester.
    pub(super) async fn spawn_job(
        &self,
        source: Proc,
        identity: UserIdentity,
        infos: &[Info],
        apps: &[App],
    ) -> Result<Spawned, Status> {
        // Procs run as the user of `peal`, so a job for another user would have this user's rights.
        if identity.uid != geteuid().as_raw() {
            tracing::warn!(requester = %source, uid = identity.uid, "spawn refused: requester is another user");
            return Err(code::PMIX_ERR_NO_PERMISSIONS);
        }
        // A server of other launchers' jobs starts none.
        let Launching { server, .. } = self.launching().ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
        let own = self.jobs.find(&source.nspace);
        let like = own
            .clone()
            .or_else(|| self.jobs.oldest())
            .ok_or(code::PMIX_ERR_NOT_SUPPORTED)?;
        let spawning = self.jobs.reserve_spawn(like.request.options.max_spawned).ok_or_else(|| {
            let max = like.request.options.max_spawned;
            tracing::warn!(requester = %source, max, "spawn refused: run.max_spawned_jobs reached");
            code::PMIX_ERR_JOB_INSUFFICIENT_RESOURCES
        })?;
        let (nspace, offset) = self.jobs.next(&like.request.nspace);
        let SpawnPlan {
            request,
            dependence,
            notify_completion,
            forwarded,
        } = spawn::read(
            (nspace.clone(), offset),
            source.clone(),
            &like.request,
            infos,
            apps,
        )?;
        // Jobs spawned by procs write where their parents do. Only tools pull the output.
        let is_pulled = own.is_none() && forwarded.0 != 0;
        let (spawn_tree, needed) = match (dependence, own) {
            (ParentDependence::OnFailure, Some(own)) => (SpawnTree::Existing(own.tree), None),
            (ParentDependence::OnEnd, Some(own)) => {
                (SpawnTree::Existing(own.tree), Some(own.commands))
            }
            (ParentDependence::OnFailure | ParentDependence::OnEnd, None)
            | (ParentDependence::Independent, _) => (SpawnTree::New, None),
        };
        let hold = || {
            self.pulls
                .hold(source.clone(), vec![Proc::all(nspace.clone())], forwarded)
        };
        // The pull begins before the job, so that no output is missed.
        let pulled = is_pulled.then(hold).transpose()?;
        let mut job = self.start(request, spawn_tree).await.map_err(|error| {
            tracing::warn!(requester = %source, %error, "spawn failed");
            spawn::status(&error)
        })?;
        let server = server.clone();
        let spawned = nspace.clone();
        // None if the job has ended already; then there is nothing to end.
        let commands = self.jobs.find(&nspace).map(|job| job.commands);
        tokio::spawn(async move {
            let end = tokio::select! {
                end = job.ended() => end,
                () = outlived(needed) => {
                    end_with_parent(commands).await;
                    job.ended().await
                }
            };
            drop(pulled);
            if notify_completion {
                server.notify(spawn::end_of(spawned, &end, source));
            }
            spawning.ended(end);
        });
        Ok(Spawned {
            nspace,
            kvals: Vec::new(),
        })
    }
}

/// Waits until a job has ended; for ever if there is none.
async fn outlived(parent: Option<mpsc::Sender<JobCommand>>) {
    match parent {
        Some(parent) => parent.closed().await,
        None => std::future::pending().await,
    }
}

/// Ends a job because its parent job has ended.
async fn end_with_parent(child: Option<mpsc::Sender<JobCommand>>) {
    if let Some(child) = child {
        // An error means that the job has ended in the meantime.
        let _ = child
            .send(JobCommand::EndWithRelatedJob {
                because: code::PMIX_ERR_JOB_CANCELED,
            })
            .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Rank};
    use peal_server::{HostEnvironment, Notices};

    #[tokio::test]
    async fn spawn_for_other_user_or_without_launcher_is_refused() {
        let host = EmbeddedHostEnvironment::new(Notices::default());
        let tool = Proc::new(Nspace::new("tool").unwrap(), Rank(0));
        let uid = geteuid().as_raw();
        let spawn = |uid| {
            host.spawn(
                tool.clone(),
                UserIdentity { uid, gid: 0 },
                Vec::new(),
                Vec::new(),
            )
        };
        assert_eq!(spawn(uid + 1).await, Err(code::PMIX_ERR_NO_PERMISSIONS));
        assert_eq!(spawn(uid).await, Err(code::PMIX_ERR_NOT_SUPPORTED));
    }
}
