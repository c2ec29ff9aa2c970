//! The embedded host environment: starts the procs of a job on this node, forwards their output, reaps them, reports
//! abnormal ends as events, and ends the job as configured.

mod end;
mod job;
mod launch;
mod output;
mod stray;

pub use end::{JobEnd, ProcEnd};
pub use job::RunningJob;
pub use launch::{JobRequest, LaunchError, OnAbort};
pub use output::Tagging;

use crate::{
    actor::ServerHandle,
    host::{Answer, Host},
    notice::Notices,
};
use peal_model::{Nspace, Proc, Status, Text, code};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// What a running job can be told.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum JobCommand {
    /// A proc asked for the job to be ended with this status.
    Abort { source: Proc, status: Status, message: Option<Text> },
    /// The user asked for the job to be ended, by a signal of this number.
    Interrupt { signal: i32 },
}

/// The embedded host environment. One of them runs the jobs of one `peal` process.
#[derive(Default)]
pub struct EmbeddedHost {
    jobs: Mutex<BTreeMap<Nspace, mpsc::Sender<JobCommand>>>,
    notices: Notices,
}

impl EmbeddedHost {
    /// A host without jobs; what happens to them is told to `notices`.
    pub fn new(notices: Notices) -> EmbeddedHost {
        EmbeddedHost { jobs: Mutex::default(), notices }
    }

    /// Starts a job under a server, by the rendezvous `uri` that its procs are given.
    pub async fn launch(
        &self,
        server: &ServerHandle,
        uri: &str,
        request: JobRequest,
    ) -> Result<RunningJob, LaunchError> {
        let nspace = request.nspace.clone();
        let job = job::start(server, uri, request, self.notices.clone()).await?;
        self.jobs().insert(nspace, job.commands());
        Ok(job)
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<Nspace, mpsc::Sender<JobCommand>>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for EmbeddedHost {
    fn abort(&self, source: Proc, status: Status, message: Option<Text>, targets: Vec<Proc>) -> Answer<'_, ()> {
        let own = targets.is_empty() || targets.iter().all(|target| *target == Proc::all(source.nspace.clone()));
        let job = self.jobs().get(&source.nspace).cloned();
        Box::pin(async move {
            if !own {
                // Ending some procs, or those of another job, is job control.
                return Err(code::PMIX_ERR_NOT_SUPPORTED);
            }
            let job = job.ok_or(code::PMIX_ERR_NOT_FOUND)?;
            let command = JobCommand::Abort { source, status, message };
            job.send(command).await.map_err(|_| code::PMIX_ERR_NOT_FOUND)
        })
    }
}
