//! The embedded host environment: starts the procs of a job on this node, forwards their output, reaps them, reports
//! abnormal ends as events, and ends the job as configured.

mod end;
mod job;
mod launch;
mod output;
mod query;
mod stray;

pub use end::{JobEnd, ProcEnd};
pub use job::RunningJob;
pub use launch::{JobRequest, LaunchError, OnAbort};
pub use output::Tagging;

pub(crate) use launch::environment;

use self::{job::Job, query::JobTable, stray::Family};
use crate::{
    actor::ServerHandle,
    host::{Answer, Host, ProcessOf},
    notice::Notices,
};
use peal_model::{Identity, Info, Nspace, Proc, Query, Status, Text, code};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// How many commands may wait for a job; procs that abort all at once need no more than one to be heard.
const COMMANDS: usize = 64;

/// What a running job can be told.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum JobCommand {
    /// A proc asked for the job to be ended with this status.
    Abort { source: Proc, status: Status, message: Option<Text> },
    /// The user asked for the job to be ended, by a signal of this number.
    Interrupt { signal: i32 },
    /// The user sends the procs a signal of this number.
    Forward { signal: i32 },
}

/// The embedded host environment. One of them runs the jobs of one `peal` process.
pub struct EmbeddedHost {
    jobs: Mutex<BTreeMap<Nspace, mpsc::Sender<JobCommand>>>,
    /// What queries are answered from.
    table: JobTable,
    family: Arc<Family>,
    notices: Notices,
}

impl EmbeddedHost {
    /// A host without jobs; what happens to them is told to `notices`.
    pub fn new(notices: Notices) -> EmbeddedHost {
        EmbeddedHost {
            jobs: Mutex::default(),
            table: JobTable::default(),
            family: Arc::new(Family::adopting()),
            notices,
        }
    }

    /// Starts a job under a server, by the rendezvous `uri` that its procs are given.
    pub async fn launch(
        &self,
        server: &ServerHandle,
        uri: &str,
        request: JobRequest,
    ) -> Result<RunningJob, LaunchError> {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        {
            let mut jobs = self.jobs();
            // Those that have ended hear nothing any more.
            jobs.retain(|_, commands| !commands.is_closed());
            // Before any proc runs: it may abort its job at once.
            jobs.insert(request.nspace.clone(), commands.clone());
        }
        self.table.insert(&request, commands.clone());
        let work = Job::new(server.clone(), request, self.family.clone(), self.notices.clone());
        let task = work.start(uri, inbox).await?;
        Ok(RunningJob::new(commands, task))
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<Nspace, mpsc::Sender<JobCommand>>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Host for EmbeddedHost {
    fn process_of(&self, proc: &Proc) -> ProcessOf {
        if !self.jobs().contains_key(&proc.nspace) {
            return ProcessOf::Unknown;
        }
        self.family.process_of(proc).map_or(ProcessOf::Ended, ProcessOf::Running)
    }

    fn query(&self, _source: Proc, identity: Identity, queries: Vec<Query>) -> Answer<'_, Vec<Info>> {
        Box::pin(std::future::ready(self.table.answer(identity, &queries, &self.family)))
    }

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
