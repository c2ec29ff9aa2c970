//! Execution of admin requests, with a record of each.
use super::{
    access::{self, AdminGroup, Caller},
    chain::{Chain, ChainHandler},
    modules::ModuleCall,
    protocol::{
        AdminReply, AdminRequest, JobRegistration, JobStatus, MAX_JOB_SIZE, NewJob, ReloadReport,
        ServerPhase, ServerStatus, Trouble,
    },
    watch::{Watcher, Watchers},
};
use crate::{
    chains::{ChainView, RegisteredHandler},
    client_environment,
    handle::ServerHandle,
    identity::{ObservedProcess, user},
    metrics::Metrics,
    notice::Notices,
    process_watch::open_process,
};
use peal_core::{job::JobSpec, owner::Owner};
use peal_model::{Nspace, Proc, Rank, UserIdentity, counted};
use peal_store::{AdminCall, JobStart, Store, StoreError};
use peal_wire::{ServerUri, variable};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::{mpsc, oneshot, watch};

/// Command that concerns the process as a whole. The owner of the process executes it.
#[derive(Debug)]
pub enum ProcessCommand {
    /// Accepts no more connections, and ends the server after the last one has ended.
    Drain,
    /// Ends the server at once.
    Stop,
    /// Reads the configuration again. The reply is what changed, or the reason why the
    /// configuration is invalid.
    Reload(oneshot::Sender<Result<ReloadReport, String>>),
    /// A job was registered or removed. The reply is sent once the modules of the job are started
    /// or stopped.
    Jobs(oneshot::Sender<()>),
    /// Executes a request about modules. The reply is its result or the reason of the refusal.
    Module {
        /// Request.
        call: ModuleCall,
        /// Sender of the reply.
        tell: oneshot::Sender<Result<AdminReply, String>>,
    },
}

/// Part of a host environment that handles jobs which an admin registers and another launcher runs.
pub trait JobRegistrar: Send + Sync {
    /// Adds a job that another launcher runs to the answers to queries, and opens an output for
    /// what its procs log.
    fn adopt(&self, job: &JobSpec);
    /// Removes such a job with all registrations of its procs.
    fn release(&self, job: &Nspace);
}

/// Parts of the server that an admin channel uses.
pub struct AdminParts {
    /// Unix group whose members may administer, besides root and the server's own user.
    pub group: Option<AdminGroup>,
    /// Upper bound of jobs that are registered at once.
    pub max_jobs: usize,
    /// Handle of the server.
    pub handle: ServerHandle,
    /// Host environment, which answers queries about registered jobs.
    pub host: Arc<dyn JobRegistrar>,
    /// URI at which clients reach the server.
    pub uri: ServerUri,
    /// Name of the node.
    pub hostname: String,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// View of the hosted chains.
    pub chains: ChainView,
    /// Notices about jobs, procs and events.
    pub notices: Notices,
    /// Store in which calls are recorded, in addition to the trace.
    pub store: Option<Arc<Store>>,
    /// Function that returns the current problems of the server. Each `status` calls it, so it must
    /// not block.
    pub troubles: Box<dyn Fn() -> Vec<Trouble> + Send + Sync>,
}

/// Dispatcher of admin requests.
pub(super) struct AdminDispatcher {
    pub(super) parts: AdminParts,
    pub(super) phase: watch::Sender<ServerPhase>,
    commands: mpsc::Sender<ProcessCommand>,
    /// Jobs that were registered by admin requests. Other jobs cannot be removed by one.
    registered: Mutex<BTreeMap<Nspace, AdminJob>>,
    watchers: Watchers,
}

/// Job that was registered by an admin request.
#[derive(Clone, Copy, Debug)]
struct AdminJob {
    /// Number of procs.
    size: u32,
    /// User that the procs run as.
    uid: u32,
}

/// Result of an admin request.
pub(super) struct AdminResult {
    pub(super) reply: AdminReply,
    pub(super) then: AfterReply,
}

/// Messages that follow the reply to a request.
#[derive(Debug)]
pub(super) enum AfterReply {
    /// None.
    Nothing,
    /// One message at the end of the server.
    End,
    /// One message for each event.
    Events(Box<Watcher>),
}

impl From<AdminReply> for AdminResult {
    fn from(reply: AdminReply) -> AdminResult {
        let then = if matches!(reply, AdminReply::Draining | AdminReply::Stopping) {
            AfterReply::End
        } else {
            AfterReply::Nothing
        };
        AdminResult { reply, then }
    }
}

impl AdminDispatcher {
    pub(super) fn new(
        parts: AdminParts,
        commands: mpsc::Sender<ProcessCommand>,
    ) -> AdminDispatcher {
        let phase = watch::Sender::new(ServerPhase::Serving);
        let watchers = Watchers::new(parts.notices.clone());
        AdminDispatcher {
            parts,
            phase,
            commands,
            registered: Mutex::default(),
            watchers,
        }
    }

    /// Executes a request. A refusal contains the reason.
    pub(super) async fn answer(&self, caller: Caller, call: AdminRequest) -> AdminResult {
        let done = match call {
            AdminRequest::Watch { codes } => {
                // A watcher keeps its connection after the reply, so its result differs from all
                // others.
                let admitted = self.watchers.admit(&codes);
                let watching = |watcher| AdminResult {
                    reply: AdminReply::Watching,
                    then: AfterReply::Events(Box::new(watcher)),
                };
                return admitted
                    .map_or_else(|reason| AdminReply::Refused { reason }.into(), watching);
            }
            AdminRequest::Stats => Ok(AdminReply::Stats(self.parts.metrics.snapshot())),
            AdminRequest::Status => Ok(AdminReply::Status(self.status())),
            AdminRequest::Chains => Ok(AdminReply::Chains {
                chains: self.chains(),
            }),
            AdminRequest::Jobs => self.jobs().await.map(|jobs| AdminReply::Jobs { jobs }),
            AdminRequest::Register(job) => {
                self.register(caller, job).await.map(AdminReply::Registered)
            }
            AdminRequest::Environment { nspace } => self
                .find(&nspace)
                .map(|(nspace, job)| AdminReply::Registered(self.registered_as(&nspace, job.size))),
            AdminRequest::Started { nspace, rank, pid } => self
                .started(&nspace, rank, pid)
                .await
                .map(|()| AdminReply::Started),
            AdminRequest::Deregister { nspace } => self
                .deregister(&nspace)
                .await
                .map(|()| AdminReply::Deregistered),
            AdminRequest::Drain => self
                .send_command(ProcessCommand::Drain, ServerPhase::Draining)
                .await
                .map(|()| AdminReply::Draining),
            AdminRequest::Stop => self
                .send_command(ProcessCommand::Stop, ServerPhase::Stopping)
                .await
                .map(|()| AdminReply::Stopping),
            AdminRequest::Reload => self
                .request_result(ProcessCommand::Reload)
                .await
                .flatten()
                .map(AdminReply::Reloaded),
            AdminRequest::Module(call) => self
                .request_result(|tell| ProcessCommand::Module { call, tell })
                .await
                .flatten(),
        };
        done.unwrap_or_else(|reason| AdminReply::Refused { reason })
            .into()
    }

    /// Records a call in the trace, and in the store if there is one.
    pub(super) async fn record(&self, caller: Caller, verb: String, reply: &AdminReply) {
        let outcome = match reply {
            AdminReply::Refused { reason } => format!("refused: {reason}"),
            _ => "done".to_owned(),
        };
        self.parts.metrics.counters().admin_calls.count();
        tracing::info!(
            uid = caller.uid,
            pid = caller.pid,
            verb,
            outcome,
            "admin request answered"
        );
        let call = AdminCall {
            uid: caller.uid,
            pid: caller.pid,
            verb,
            outcome,
        };
        self.store(move |store, at| store.admin_called(&call, at))
            .await;
    }

    /// Writes to the store, if there is one. The store counts and traces its own errors.
    async fn store(
        &self,
        write: impl FnOnce(&Store, u64) -> Result<(), StoreError> + Send + 'static,
    ) {
        let Some(store) = self.parts.store.clone() else {
            return;
        };
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        // The database blocks.
        let _ = tokio::task::spawn_blocking(move || write(&store, at)).await;
    }

    fn status(&self) -> ServerStatus {
        let counters = self.parts.metrics.counters();
        ServerStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime: self.parts.metrics.uptime().as_secs(),
            uri: self.parts.uri.to_string(),
            phase: *self.phase.borrow(),
            jobs: counters.jobs.get(),
            connections: counters.connections_open.get(),
            compiling: counters.user_modules_compiling.get(),
            troubles: (self.parts.troubles)(),
        }
    }

    fn chains(&self) -> Vec<Chain> {
        let chain = |(owner, standing): &(Owner, Vec<RegisteredHandler>)| Chain {
            owner: owner.into(),
            handlers: standing.iter().map(ChainHandler::from).collect(),
        };
        self.parts.chains.chains().iter().map(chain).collect()
    }

    async fn jobs(&self) -> Result<Vec<JobStatus>, String> {
        let jobs = self.parts.handle.jobs().await.ok_or(STOPPED)?;
        let status = |job: peal_core::job::JobProgress| JobStatus {
            nspace: job.spec.nspace.to_string(),
            size: job.spec.size(),
            uid: job.spec.identity.uid,
            gid: job.spec.identity.gid,
            expected: job.expected,
            connected: job.connected,
            finalized: job.finalized,
            lost: job.lost,
        };
        Ok(jobs.into_iter().map(status).collect())
    }

    async fn register(&self, caller: Caller, job: NewJob) -> Result<JobRegistration, String> {
        let phase = *self.phase.borrow();
        if phase != ServerPhase::Serving {
            return Err(format!("the server is {phase}: it takes no more jobs"));
        }
        let nspace = Nspace::of_job(&job.nspace).map_err(|error| error.to_string())?;
        if !(1..=MAX_JOB_SIZE).contains(&job.size) {
            return Err(format!(
                "cannot register a job of {}: the size must be 1 to {MAX_JOB_SIZE}",
                counted(job.size, "proc")
            ));
        }
        let (uid, gid) = runs_as(caller, &job).await?;
        if self.registered().len() >= self.parts.max_jobs {
            return Err(format!(
                "{} jobs are registered, which is the limit (admin.max_jobs)",
                self.parts.max_jobs
            ));
        }
        let hostname = self.parts.hostname.clone();
        let spec = JobSpec::new(
            nspace.clone(),
            job.size,
            hostname,
            UserIdentity { uid, gid },
        );
        self.parts
            .handle
            .add_job(spec.clone())
            .await
            .map_err(|error| error.to_string())?;
        // Only a job that the server has accepted can be removed by an admin request later.
        self.registered().insert(
            nspace.clone(),
            AdminJob {
                size: job.size,
                uid,
            },
        );
        self.parts.host.adopt(&spec);
        // The modules of the job run before the caller gets the reply and starts the procs.
        self.jobs_changed().await;
        // The command is unknown here: only the external launcher knows it.
        let recorded = nspace.clone();
        let size = job.size;
        let command = format!("(registered for user {uid})");
        self.store(move |store, at| {
            store.job_started(JobStart {
                nspace: &recorded,
                uid,
                size,
                command: &command,
                at,
            })
        })
        .await;
        Ok(self.registered_as(&nspace, job.size))
    }

    /// Returns the environment by which the procs of a job find the server.
    fn registered_as(&self, nspace: &Nspace, size: u32) -> JobRegistration {
        let all = client_environment(
            nspace,
            &self.parts.hostname,
            Rank(0),
            &self.parts.uri.to_string(),
        );
        // The rank differs for each proc, so the external launcher sets it.
        let common = all.into_iter().filter(|(name, _)| *name != variable::RANK);
        JobRegistration {
            nspace: nspace.to_string(),
            size,
            environment: common
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            rank_variable: variable::RANK.to_owned(),
        }
    }

    /// Finds a job that was registered by an admin request.
    fn find(&self, nspace: &str) -> Result<(Nspace, AdminJob), String> {
        let known = self
            .registered()
            .iter()
            .find(|known| known.0.as_str() == nspace)
            .map(|(nspace, job)| (nspace.clone(), *job));
        known.ok_or_else(|| format!("no job {nspace:?} was registered here"))
    }

    /// Watches a process as one of a proc. It must run as the user of the job: the end of a process
    /// of another user must not count as the end of the proc.
    async fn started(&self, nspace: &str, rank: u32, pid: u32) -> Result<(), String> {
        let (nspace, job) = self.find(nspace)?;
        if rank >= job.size {
            let size = counted(job.size, "proc");
            return Err(format!(
                "job {:?} has {size}: there is no rank {rank}",
                nspace.as_str()
            ));
        }
        if pid == std::process::id() {
            return Err(format!("process {pid} is this server"));
        }
        let absent = || format!("there is no process {pid}");
        let found = ObservedProcess::of(pid).ok_or_else(absent)?;
        let process = open_process(pid)
            .map_err(|error| format!("process {pid} cannot be watched: {error}"))?;
        let process = process.ok_or_else(absent)?;
        let uid = user(pid).ok_or_else(absent)?;
        // The process still exists, so its id was not reused, and the checks above were about the
        // same process.
        if !found.is_there() {
            return Err(absent());
        }
        if uid != job.uid {
            return Err(format!(
                "process {pid} runs as user {uid}, job {:?} as user {}",
                nspace.as_str(),
                job.uid
            ));
        }
        let proc = Proc::new(nspace, Rank(rank));
        let watched = self
            .parts
            .handle
            .name_process(proc, pid, process)
            .await
            .ok_or(STOPPED)?;
        watched.map_err(|error| error.to_string())
    }

    async fn deregister(&self, nspace: &str) -> Result<(), String> {
        let (nspace, _) = self.find(nspace)?;
        let job = self
            .parts
            .handle
            .remove_idle_job(nspace.clone())
            .await
            .ok_or(STOPPED)?;
        if let Some(job) = job.as_ref().filter(|job| job.connected > 0) {
            return Err(format!(
                "job {:?} has {} connected",
                nspace.as_str(),
                counted(job.connected, "proc")
            ));
        }
        // The exit status is unknown here. Zero is recorded if all connected procs finalized,
        // otherwise one.
        let exit_status = i32::from(job.is_some_and(|job| job.lost > 0));
        self.registered().remove(&nspace);
        self.parts.host.release(&nspace);
        self.jobs_changed().await;
        self.store(move |store, at| store.job_ended(&nspace, exit_status, at))
            .await;
        Ok(())
    }

    /// Sends a command and waits until the server has reached the phase.
    async fn send_command(
        &self,
        command: ProcessCommand,
        phase: ServerPhase,
    ) -> Result<(), String> {
        let mut reached = self.phase.subscribe();
        self.commands
            .send(command)
            .await
            .map_err(|_| STOPPED.to_owned())?;
        reached
            .wait_for(|now| *now >= phase)
            .await
            .map(drop)
            .map_err(|_| STOPPED.to_owned())
    }

    /// Sends a command and waits for its result.
    async fn request_result<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> ProcessCommand,
    ) -> Result<T, String> {
        let (sender, reply) = oneshot::channel();
        self.commands
            .send(command(sender))
            .await
            .map_err(|_| STOPPED.to_owned())?;
        reply.await.map_err(|_| STOPPED.to_owned())
    }

    async fn jobs_changed(&self) {
        // Ignore errors: a server that is ending has no modules to wait for.
        let _ = self.request_result(ProcessCommand::Jobs).await;
    }

    fn registered(&self) -> MutexGuard<'_, BTreeMap<Nspace, AdminJob>> {
        self.registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

const STOPPED: &str = "the server has stopped";

/// Returns the user and group of the procs of a job. Only root may name ones that are not its own.
async fn runs_as(caller: Caller, job: &NewJob) -> Result<(u32, u32), String> {
    let uid = job.uid.unwrap_or(caller.uid);
    if caller.uid != 0 && (uid != caller.uid || job.gid.is_some_and(|gid| gid != caller.gid)) {
        return Err(format!(
            "user {} may register jobs of their own only",
            caller.uid
        ));
    }
    let gid = match job.gid {
        Some(gid) => Some(gid),
        None if uid == caller.uid => Some(caller.gid),
        // A directory service may respond slowly, so the lookup must not block the async runtime.
        None => tokio::task::spawn_blocking(move || access::primary_group(uid))
            .await
            .ok()
            .flatten(),
    };
    gid.map(|gid| (uid, gid))
        .ok_or_else(|| format!("user {uid} is unknown on this node: name the group as well"))
}
