//! The embedded host environment: starts the procs of a job on this node, forwards their output, reaps them, reports
//! abnormal ends as events, and ends the job as configured.

mod control;
mod end;
mod job;
mod launch;
mod output;
mod query;
mod sink;
mod stray;

pub use end::{JobEnd, ProcEnd};
pub use job::RunningJob;
pub use launch::{JobRequest, LaunchError, OnAbort};
pub use output::Tagging;
pub use sink::Stream;

pub(crate) use launch::environment;

use self::{
    control::{Control, NotDone},
    job::Job,
    query::JobTable,
    sink::{JobSink, Outputs},
    stray::Family,
};
use crate::{
    handle::{AddJobError, ServerHandle},
    host::{Answer, Host, JobControlled, ProcessOf},
    notice::Notices,
};
use peal_core::{
    job::JobSpec,
    job_control::{JobAction, JobControl},
};
use peal_model::{Identity, Info, Nspace, Proc, Query, Rank, Status, Text, code};
use peal_sandbox::Sink;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, oneshot};

/// How many commands may wait for a job; procs that abort all at once need no more than one to be heard.
const COMMANDS: usize = 64;

/// What a running job can be told.
#[derive(Debug)]
pub(crate) enum JobCommand {
    /// A proc asked for the job to be ended with this status.
    Abort { source: Proc, status: Status, message: Option<Text> },
    /// The user asked for the job to be ended, by a signal of this number.
    Interrupt { signal: i32 },
    /// The user sends the procs a signal of this number.
    Forward { signal: i32 },
    /// Somebody who may controls some of its procs.
    Control(Control),
}

/// The embedded host environment. One of them runs the jobs of one `peal` process.
pub struct EmbeddedHost {
    jobs: Mutex<BTreeMap<Nspace, mpsc::Sender<JobCommand>>>,
    /// What queries are answered from.
    table: JobTable,
    family: Arc<Family>,
    outputs: Outputs,
    notices: Notices,
}

impl EmbeddedHost {
    /// A host without jobs; what happens to them is told to `notices`.
    pub fn new(notices: Notices) -> EmbeddedHost {
        EmbeddedHost {
            jobs: Mutex::default(),
            table: JobTable::default(),
            family: Arc::new(Family::adopting()),
            outputs: Outputs::default(),
            notices,
        }
    }

    /// A sink for log channels: what is written there appears where the output of the requester's job goes.
    pub fn sink(&self, stream: Stream) -> Arc<dyn Sink> {
        Arc::new(JobSink { outputs: self.outputs.clone(), stream })
    }

    /// Waits until what procs logged has been written, however long whoever reads it takes.
    pub async fn flush(&self) {
        self.outputs.flush().await;
    }

    /// Takes charge of a job that somebody else starts: answers queries about it, and has an output for what its procs log.
    pub fn adopt(&self, job: &JobSpec) {
        self.outputs.lend(job.nspace.clone());
        self.table.adopt(job);
    }

    /// Forgets a job that was adopted.
    pub fn release(&self, job: &Nspace) {
        self.outputs.take_back(job);
        self.table.release(job);
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
            if jobs.contains_key(&request.nspace) {
                return Err(AddJobError::Exists(request.nspace).into());
            }
            self.outputs.retain(|job| jobs.contains_key(job));
            self.outputs.open(request.nspace.clone(), request.tagging);
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

    fn log(&self, source: Proc, _timestamp: u64, data: Vec<Info>, _directives: Vec<Info>) -> Answer<'_, ()> {
        Box::pin(std::future::ready(self.outputs.log(&source, &data)))
    }

    fn job_control(&self, _source: Proc, control: JobControl) -> Answer<'_, JobControlled> {
        let action = control.action;
        if control::signal_of(action).is_none() {
            return Box::pin(std::future::ready(Err(code::PMIX_ERR_NOT_SUPPORTED)));
        }
        let targets = control.targets.len();
        let mut by_job: BTreeMap<Nspace, BTreeSet<Rank>> = BTreeMap::new();
        for Proc { nspace, rank } in control.targets {
            by_job.entry(nspace).or_default().insert(rank);
        }
        let jobs: Vec<_> =
            by_job.into_iter().map(|(job, ranks)| (self.jobs().get(&job).cloned(), job, ranks)).collect();
        Box::pin(async move {
            // All of them begin before any is waited for.
            let mut begun = Vec::new();
            for (commands, job, ranks) in jobs {
                begun.push((begin(commands, action, &ranks).await, job, ranks));
            }
            let mut not_done = Vec::new();
            for (answer, job, ranks) in begun {
                let of_job = match answer {
                    Some(answer) => answer.await.unwrap_or_else(|_| control::after_the_end(action, ranks)),
                    None => ranks.into_iter().map(not_started).collect(),
                };
                let named = |NotDone { rank, status, reason }| (Proc::new(job.clone(), rank), status, reason);
                not_done.extend(of_job.into_iter().map(named));
            }
            Ok(control::report(targets, not_done))
        })
    }
}

async fn begin(
    commands: Option<mpsc::Sender<JobCommand>>,
    action: JobAction,
    ranks: &BTreeSet<Rank>,
) -> Option<oneshot::Receiver<Vec<NotDone>>> {
    let (done, answer) = oneshot::channel();
    let control = Control { action, ranks: ranks.clone(), done };
    commands?.send(JobCommand::Control(control)).await.ok()?;
    Some(answer)
}

fn not_started(rank: Rank) -> NotDone {
    NotDone { rank, status: code::PMIX_ERR_NOT_FOUND, reason: "no process was started for it here".to_owned() }
}
