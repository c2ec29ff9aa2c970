//! Execution of admin requests, with a record of each.
use super::{
    access::{self, AdminGroup, Caller},
    activity_sample::ActivitySampler,
    activity_watcher::ActivityWatcher,
    chain::{Chain, ChainHandler},
    modules::ModuleCall,
    protocol::{
        AdminReply, AdminRequest, ClusterPlace, ContinuedFrom, JobRegistration, JobStatus,
        MAX_JOB_SIZE, NewJob, ReloadReport, ServerPhase, ServerStatus, Trouble,
    },
    quotas::UserQuotas,
    watch::Watcher,
    watcher_shares::{WatcherKind, WatcherLimits, WatcherPermit, WatcherShares},
};
use crate::{
    activity::ActivityViewer,
    chains::{ChainView, RegisteredHandler},
    client_environment,
    handle::ServerHandle,
    metrics::Metrics,
    notice::Notices,
    process_watch::open_process,
    request_pacer::RequestPacer,
};
use peal_core::{
    job::{JobProgress, JobSpec},
    owner::Owner,
    quota::Quota,
};
use peal_model::{Nspace, Proc, Rank, UserIdentity, counted};
use peal_store::{AdminCall, JobStart, RecordUsage, Store, StoreError};
use peal_system::{credentials, process::RunningProcess};
use peal_wire::{ServerUri, variable};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    net::UnixStream,
    sync::{Mutex, MutexGuard, mpsc, oneshot, watch},
};

/// Starter of the process that goes on with a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuccessorOrigin {
    /// The supervisor, which has started it.
    Supervisor,
    /// The requester, for a server without a supervisor.
    Caller,
}

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
    /// Hands the server over to the process at the other end of this connection.
    HandOver(UnixStream),
    /// Has a process started that goes on with the server. The reply is sent when it has the server or the caller
    /// should start it, or is the reason why it has not.
    Upgrade(oneshot::Sender<Result<SuccessorOrigin, String>>),
    /// Checks what `Reload` would do.
    CheckReload(oneshot::Sender<Result<ReloadReport, String>>),
    /// A job was registered or removed. The reply is sent once the modules of the job are started
    /// or stopped.
    Jobs(oneshot::Sender<()>),
    /// Executes a request about modules. The reply is its result or the reason of the refusal.
    Module {
        /// Request.
        call: ModuleCall,
        /// Sender of the reply.
        reply: oneshot::Sender<Result<AdminReply, String>>,
    },
    /// Checks what a request about modules would do.
    CheckModule {
        /// Request.
        call: ModuleCall,
        /// Sender of the reply that the request would have, or of the reason of its refusal.
        reply: oneshot::Sender<Result<AdminReply, String>>,
    },
}

/// Part of a host environment that handles jobs which an admin registers and another launcher runs.
pub trait JobRegistrar: Send + Sync {
    /// Adds a job that another launcher runs to the answers to queries, and opens an output for
    /// what its procs log.
    fn adopt(&self, job: &JobSpec);
    /// Removes such a job with all registrations of its procs.
    fn release(&self, job: &Nspace);
    /// Returns the time since the start or the registration of a job.
    fn elapsed(&self, job: &Nspace) -> Option<Duration>;
}

/// Parts of the server that an admin channel uses.
pub struct AdminParts {
    /// Unix group whose members may administer, besides root and the server's own user.
    pub group: Option<AdminGroup>,
    /// Upper bound of jobs that are registered at once.
    pub max_jobs: usize,
    /// Limits of watchers.
    pub watchers: WatcherLimits,
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
    /// Pace of the requests of clients, which are delayed for the sake of administrators, too.
    pub pacer: Arc<RequestPacer>,
    /// View of the hosted chains.
    pub chains: ChainView,
    /// Notices about jobs, procs and events.
    pub notices: Notices,
    /// Store in which calls are recorded, in addition to the trace.
    pub store: Option<Arc<Store>>,
    /// Function that returns the current problems of the server. Each `status` calls it, so it must
    /// not block.
    pub troubles: Box<dyn Fn() -> Vec<Trouble> + Send + Sync>,
    /// Process whose server this one goes on with, if there was one.
    pub continued: Option<ContinuedFrom>,
    /// Function that returns the place of the server in its cluster. Each `status` calls it, too.
    pub cluster: Box<dyn Fn() -> Option<ClusterPlace> + Send + Sync>,
}

/// Dispatcher of admin requests.
pub(super) struct AdminDispatcher {
    pub(super) parts: AdminParts,
    pub(super) phase: watch::Sender<ServerPhase>,
    commands: mpsc::Sender<ProcessCommand>,
    /// Jobs that were registered by admin requests. Other jobs cannot be removed by one. The lock
    /// is held until the server, the host environment and the store know of a change as well, so
    /// that they learn of changes in the same order.
    pub(super) registered: Mutex<BTreeMap<Nspace, AdminJob>>,
    watchers: Arc<WatcherShares>,
    pub(super) sampler: ActivitySampler,
}

/// Job that was registered by an admin request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdminJob {
    /// Number of procs.
    pub(super) size: u32,
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
    /// One message for each report.
    Activity(Box<ActivityWatcher>),
    /// Messages of the process, which gets the connection.
    Process,
}

impl From<AdminReply> for AdminResult {
    fn from(reply: AdminReply) -> AdminResult {
        let then = match reply {
            AdminReply::Draining | AdminReply::Stopping => AfterReply::End,
            AdminReply::HandingOver => AfterReply::Process,
            _ => AfterReply::Nothing,
        };
        AdminResult { reply, then }
    }
}

impl AdminDispatcher {
    /// Passes the connection of a call on to the process.
    pub(super) async fn pass_on(&self, stream: UnixStream) {
        // A process that ends takes no commands any more, and the caller sees the end of the connection.
        let _ = self.commands.send(ProcessCommand::HandOver(stream)).await;
    }

    /// Returns the jobs that were registered by admin requests. None is registered or deregistered until the
    /// result is dropped.
    pub(super) async fn hold_registrations(&self) -> MutexGuard<'_, BTreeMap<Nspace, AdminJob>> {
        self.registered.lock().await
    }

    /// Adds jobs that were registered at another process of this server.
    pub(super) async fn restore(&self, jobs: BTreeMap<Nspace, AdminJob>) {
        self.registered.lock().await.extend(jobs);
    }

    pub(super) fn new(
        parts: AdminParts,
        commands: mpsc::Sender<ProcessCommand>,
    ) -> AdminDispatcher {
        let phase = watch::Sender::new(ServerPhase::Serving);
        let watchers = Arc::new(WatcherShares::new(parts.watchers));
        let shares = watchers.clone();
        parts
            .metrics
            .show_quotas(move |report| shares.report_quotas(report));
        parts
            .metrics
            .activity()
            .set_capacity(parts.watchers.recent_entries);
        AdminDispatcher {
            parts,
            phase,
            commands,
            registered: Mutex::default(),
            watchers,
            sampler: ActivitySampler::default(),
        }
    }

    /// Adds a watcher of the activity.
    pub(super) fn watch_activity(
        &self,
        (uid, kind): (u32, WatcherKind),
        viewer: ActivityViewer,
        interval_ms: u32,
    ) -> AdminResult {
        let recorder = self.parts.metrics.activity();
        let watching = |permit| AdminResult {
            reply: AdminReply::Reporting,
            then: AfterReply::Activity(Box::new(ActivityWatcher::new(
                recorder,
                viewer,
                interval_ms,
                permit,
            ))),
        };
        self.admit_watcher(uid, kind, watching)
    }

    /// Adds a watcher, which keeps its connection after the reply.
    fn admit_watcher(
        &self,
        uid: u32,
        kind: WatcherKind,
        watching: impl FnOnce(WatcherPermit) -> AdminResult,
    ) -> AdminResult {
        match self.watchers.admit(uid, kind) {
            Ok(permit) => watching(permit),
            Err(refusal) => {
                self.parts.metrics.refuse(uid, Quota::Watchers);
                let reason = refusal.to_string();
                AdminReply::Refused { reason }.into()
            }
        }
    }

    /// Executes a request of an administrator. A refusal contains the reason.
    pub(super) async fn answer(
        &self,
        caller: Caller,
        kind: WatcherKind,
        call: AdminRequest,
    ) -> AdminResult {
        let done = match call {
            AdminRequest::Watch { codes } => {
                let notices = &self.parts.notices;
                return self.admit_watcher(caller.uid, kind, |permit| AdminResult {
                    reply: AdminReply::Watching,
                    then: AfterReply::Events(Box::new(Watcher::new(notices, &codes, permit))),
                });
            }
            AdminRequest::Activity { interval_ms } => {
                let watcher = (caller.uid, kind);
                return self.watch_activity(watcher, ActivityViewer::Admin, interval_ms);
            }
            AdminRequest::Stats => Ok(AdminReply::Stats(self.parts.metrics.snapshot())),
            AdminRequest::Users => Ok(AdminReply::Users(self.quotas().await)),
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
                .await
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
            AdminRequest::HandOver if *self.phase.borrow() == ServerPhase::Serving => {
                Ok(AdminReply::HandingOver)
            }
            AdminRequest::Upgrade if *self.phase.borrow() == ServerPhase::Serving => self
                .request_result(ProcessCommand::Upgrade)
                .await
                .flatten()
                .map(|starter| match starter {
                    SuccessorOrigin::Supervisor => AdminReply::Upgrading,
                    SuccessorOrigin::Caller => AdminReply::StartSuccessor,
                }),
            AdminRequest::HandOver | AdminRequest::Upgrade => {
                Err("the server drains or stops".to_owned())
            }
            AdminRequest::Module(call) => self
                .request_result(|reply| ProcessCommand::Module { call, reply })
                .await
                .flatten(),
            AdminRequest::Check { call } => {
                self.check(caller, *call)
                    .await
                    .map(|would| AdminReply::Checked {
                        would: Box::new(would),
                    })
            }
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

    /// Returns what users hold of limited resources.
    pub(super) async fn quotas(&self) -> UserQuotas {
        let mut report = self.parts.metrics.quotas();
        if let Some(store) = self.parts.store.clone() {
            // The database blocks. It counts and traces its own errors.
            let read = tokio::task::spawn_blocking(move || store.record_usage());
            if let Ok(Ok(usage)) = read.await {
                let RecordUsage { limits, users } = usage;
                let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
                let total = bytes(limits.bytes);
                report.limit(Quota::RecordBytes, bytes(limits.user_bytes), Some(total));
                let users = users.into_iter().map(|(uid, held)| (uid, bytes(held)));
                report.hold(Quota::RecordBytes, users);
            }
        }
        UserQuotas::new(&report, rustix::process::geteuid().as_raw())
    }

    pub(super) fn status(&self) -> ServerStatus {
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
            cluster: (self.parts.cluster)(),
            continued: self.parts.continued.clone(),
            troubles: (self.parts.troubles)(),
        }
    }

    pub(super) fn chains(&self) -> Vec<Chain> {
        let chain = |(owner, standing): &(Owner, Vec<RegisteredHandler>)| Chain {
            owner: owner.into(),
            handlers: standing.iter().map(ChainHandler::from).collect(),
        };
        self.parts.chains.chains().iter().map(chain).collect()
    }

    async fn jobs(&self) -> Result<Vec<JobStatus>, String> {
        let jobs = self.parts.handle.jobs().await.ok_or(STOPPED)?;
        let status = |job: JobProgress| JobStatus {
            elapsed: self
                .parts
                .host
                .elapsed(&job.spec.nspace)
                .map(|of| of.as_secs()),
            ..JobStatus::from(job)
        };
        Ok(jobs.into_iter().map(status).collect())
    }

    /// Returns the specification of a job to register, if it is valid.
    pub(super) async fn new_job(&self, caller: Caller, job: &NewJob) -> Result<JobSpec, String> {
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
        let (uid, gid) = runs_as(caller, job).await?;
        let hostname = self.parts.hostname.clone();
        Ok(JobSpec::new(
            nspace,
            job.size,
            hostname,
            UserIdentity { uid, gid },
        ))
    }

    /// Refuses a further job beyond the limit.
    pub(super) fn check_job_limit(&self, registered: usize) -> Result<(), String> {
        if registered < self.parts.max_jobs {
            return Ok(());
        }
        Err(format!(
            "{} jobs are registered, which is the limit (admin.max_jobs)",
            self.parts.max_jobs
        ))
    }

    async fn register(&self, caller: Caller, job: NewJob) -> Result<JobRegistration, String> {
        let spec = self.new_job(caller, &job).await?;
        let nspace = spec.nspace.clone();
        let uid = spec.identity.uid;
        let mut registered = self.registered.lock().await;
        self.check_job_limit(registered.len())?;
        self.parts
            .handle
            .add_job(spec.clone())
            .await
            .map_err(|error| error.to_string())?;
        // Only a job that the server has accepted can be removed by an admin request later.
        registered.insert(
            nspace.clone(),
            AdminJob {
                size: job.size,
                uid,
            },
        );
        self.parts.host.adopt(&spec);
        drop(registered);
        // The modules of the job run before the caller gets the reply and starts the procs.
        self.job_started(nspace.clone(), uid, job.size).await;
        Ok(self.registered_as(&nspace, job.size))
    }

    /// Returns the environment by which the procs of a job find the server.
    pub(super) fn registered_as(&self, nspace: &Nspace, size: u32) -> JobRegistration {
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
    pub(super) async fn find(&self, nspace: &str) -> Result<(Nspace, AdminJob), String> {
        find_job(&*self.registered.lock().await, nspace)
    }

    /// Watches a process as one of a proc. It must run as the user of the job: the end of a process
    /// of another user must not count as the end of the proc.
    async fn started(&self, nspace: &str, rank: u32, pid: u32) -> Result<(), String> {
        let ReportedProcess { proc, process } = self.started_process(nspace, rank, pid).await?;
        let watched = self
            .parts
            .handle
            .name_process(proc, pid, process)
            .await
            .ok_or(STOPPED)?;
        watched.map_err(|error| error.to_string())
    }

    /// Returns a process that may be one of a proc.
    pub(super) async fn started_process(
        &self,
        nspace: &str,
        rank: u32,
        pid: u32,
    ) -> Result<ReportedProcess, String> {
        let (nspace, job) = self.find(nspace).await?;
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
        let found = RunningProcess::of(pid).ok_or_else(absent)?;
        let process = open_process(pid)
            .map_err(|error| format!("process {pid} cannot be watched: {error}"))?;
        let process = process.ok_or_else(absent)?;
        let uid = credentials::user(pid).ok_or_else(absent)?;
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
        Ok(ReportedProcess { proc, process })
    }

    async fn deregister(&self, nspace: &str) -> Result<(), String> {
        let mut registered = self.registered.lock().await;
        let (nspace, _) = find_job(&registered, nspace)?;
        let job = self
            .parts
            .handle
            .remove_idle_job(nspace.clone())
            .await
            .ok_or(STOPPED)?;
        if let Some(job) = &job {
            require_idle(job)?;
        }
        // The exit status is unknown here. Zero is recorded if all connected procs finalized,
        // otherwise one.
        let exit_status = i32::from(job.is_some_and(|job| job.lost > 0));
        registered.remove(&nspace);
        self.parts.host.release(&nspace);
        drop(registered);
        self.job_ended(nspace, exit_status).await;
        Ok(())
    }

    /// Records the start of a job of another launcher, and starts the modules of its user.
    pub(super) async fn job_started(&self, nspace: Nspace, uid: u32, size: u32) {
        // The command is unknown here: only the launcher knows it.
        let command = format!("(registered for user {uid})");
        self.store(move |store, at| {
            store.job_started(JobStart {
                nspace: &nspace,
                uid,
                size,
                command: &command,
                at,
            })
        })
        .await;
        self.jobs_changed().await;
    }

    /// Records the end of a job of another launcher, and ends the modules of its user.
    pub(super) async fn job_ended(&self, nspace: Nspace, exit_status: i32) {
        self.store(move |store, at| store.job_ended(&nspace, exit_status, at))
            .await;
        self.jobs_changed().await;
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
    pub(super) async fn request_result<T>(
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

    /// Sends a command if the queue has room.
    pub(super) fn try_command(&self, command: ProcessCommand) -> bool {
        self.commands.try_send(command).is_ok()
    }

    async fn jobs_changed(&self) {
        // Ignore errors: a server that is ending has no modules to wait for.
        let _ = self.request_result(ProcessCommand::Jobs).await;
    }
}

pub(super) const STOPPED: &str = "the server has stopped";

/// Process of a proc of another launcher.
pub(super) struct ReportedProcess {
    proc: Proc,
    process: OwnedFd,
}

/// Refuses a job with connected procs.
pub(super) fn require_idle(job: &JobProgress) -> Result<(), String> {
    if job.connected == 0 {
        return Ok(());
    }
    Err(format!(
        "job {:?} has {} connected",
        job.spec.nspace.as_str(),
        counted(job.connected, "proc")
    ))
}

fn find_job(jobs: &BTreeMap<Nspace, AdminJob>, nspace: &str) -> Result<(Nspace, AdminJob), String> {
    let known = jobs.iter().find(|(known, _)| known.as_str() == nspace);
    let known = known.map(|(nspace, job)| (nspace.clone(), *job));
    known.ok_or_else(|| format!("no job {nspace:?} was registered here"))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        handle::{ActorInbox, ActorMessage, Queues, queues},
        server_inbox::InboxLimits,
    };
    use std::{
        collections::BTreeSet,
        pin::{Pin, pin},
        sync::Mutex,
        task::{Context, Poll, Waker},
    };

    const ME: Caller = Caller {
        uid: 1000,
        gid: 1000,
        pid: None,
    };

    /// Jobs that the host environment has adopted.
    #[derive(Default)]
    struct AdoptedJobs(Mutex<BTreeSet<Nspace>>);

    impl JobRegistrar for AdoptedJobs {
        fn adopt(&self, job: &JobSpec) {
            self.0.lock().unwrap().insert(job.nspace.clone());
        }

        fn release(&self, job: &Nspace) {
            self.0.lock().unwrap().remove(job);
        }

        fn elapsed(&self, _job: &Nspace) -> Option<Duration> {
            None
        }
    }

    /// Server side of the queues of a dispatcher. It replies only when a test says so.
    struct TestServer {
        inbox: ActorInbox,
        commands: mpsc::Receiver<ProcessCommand>,
        jobs: BTreeSet<Nspace>,
    }

    impl TestServer {
        /// Replies to all messages that are queued.
        fn reply(&mut self) {
            while let Ok(message) = self.inbox.internal.try_recv() {
                match message {
                    ActorMessage::AddJob { spec, done } => {
                        assert!(self.jobs.insert(spec.nspace));
                        done.send(Ok(())).unwrap();
                    }
                    ActorMessage::RemoveIdleJob { nspace, done } => {
                        assert!(self.jobs.remove(&nspace));
                        assert!(done.send(None).is_ok());
                    }
                    _ => panic!("the message should be about jobs"),
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                let ProcessCommand::Jobs(done) = command else {
                    panic!("the command should be about jobs")
                };
                done.send(()).unwrap();
            }
        }

        /// Replies until a request has ended, for a bounded number of times.
        fn complete<T>(&mut self, mut request: Pin<&mut impl Future<Output = T>>) -> Option<T> {
            (0..8).find_map(|_| match poll(request.as_mut()) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => {
                    self.reply();
                    None
                }
            })
        }
    }

    fn poll<T>(request: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        request.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn dispatcher(max_jobs: usize) -> (AdminDispatcher, Arc<AdoptedJobs>, TestServer) {
        let (Queues { handle, .. }, inbox) = queues(InboxLimits::default());
        let host = Arc::<AdoptedJobs>::default();
        let (send_command, commands) = mpsc::channel(8);
        let parts = AdminParts {
            group: None,
            max_jobs,
            watchers: WatcherLimits::default(),
            handle,
            host: host.clone(),
            uri: ServerUri {
                proc: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
                addr: ([127, 0, 0, 1], 1).into(),
            },
            hostname: "node".to_owned(),
            metrics: Arc::default(),
            pacer: Arc::new(RequestPacer::new(100, || std::time::Duration::ZERO)),
            chains: ChainView::default(),
            notices: Notices::default(),
            store: None,
            troubles: Box::new(Vec::new),
            continued: None,
            cluster: Box::new(|| None),
        };
        let server = TestServer {
            inbox,
            commands,
            jobs: BTreeSet::new(),
        };
        (AdminDispatcher::new(parts, send_command), host, server)
    }

    fn job(nspace: &str) -> NewJob {
        NewJob {
            nspace: nspace.to_owned(),
            size: 1,
            uid: None,
            gid: None,
        }
    }

    #[test]
    fn job_registered_during_its_removal_stays_adopted() {
        let (dispatcher, host, mut server) = dispatcher(8);
        let first = pin!(dispatcher.register(ME, job("job")));
        server.complete(first).unwrap().unwrap();
        let mut removal = pin!(dispatcher.deregister("job"));
        assert!(poll(removal.as_mut()).is_pending());
        // The job is removed from the server, but the request does not know that yet.
        server.reply();
        let mut second = pin!(dispatcher.register(ME, job("job")));
        let early = server.complete(second.as_mut());
        server.complete(removal).unwrap().unwrap();
        early
            .unwrap_or_else(|| server.complete(second).unwrap())
            .unwrap();
        assert_eq!(*host.0.lock().unwrap(), server.jobs);
        let last = pin!(dispatcher.deregister("job"));
        assert_eq!(server.complete(last).unwrap(), Ok(()));
    }

    #[test]
    fn concurrent_registrations_stay_within_max_jobs() {
        let (dispatcher, _, mut server) = dispatcher(1);
        let mut one = pin!(dispatcher.register(ME, job("one")));
        let mut two = pin!(dispatcher.register(ME, job("two")));
        assert!(poll(one.as_mut()).is_pending() && poll(two.as_mut()).is_pending());
        server.complete(one).unwrap().unwrap();
        let reason = server.complete(two).unwrap().unwrap_err();
        assert!(reason.ends_with("(admin.max_jobs)"), "{reason}");
    }
}
