//! Execution of admin requests, with a record of each.
use super::{
    access::{AdminGroup, Caller},
    activity::{ActivitySampler, ActivityWatcher},
    chain::{Chain, ChainHandler},
    modules::ModuleCall,
    protocol::{
        AdminReply, AdminRequest, ClusterPlace, ContinuedFrom, ReloadReport, ServerPhase,
        ServerStatus, Trouble,
    },
    quotas::UserQuotas,
    registered_jobs::AdminJob,
    watch::Watcher,
    watcher_shares::{WatcherKind, WatcherLimits, WatcherPermit, WatcherShares},
};
use crate::{
    activity::ActivityViewer,
    chains::{ChainView, RegisteredHandler},
    handle::ServerHandle,
    metrics::Metrics,
    notice::Notices,
    request_pacer::RequestPacer,
};
use peal_core::{job::JobSpec, owner::Owner, quota::Quota};
use peal_model::Nspace;
use peal_store::{AdminCall, RecordUsage, Store, StoreError};
use peal_wire::ServerUri;
use std::{
    collections::BTreeMap,
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

    /// Records a call in the trace, and returns it for the store.
    pub(super) fn trace(&self, caller: Caller, verb: String, reply: &AdminReply) -> AdminCall {
        let outcome = match reply {
            AdminReply::Refused { reason } => format!("refused: {reason}"),
            // The other process tries it after the reply.
            AdminReply::HandingOver | AdminReply::StartSuccessor => "begun".to_owned(),
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
        AdminCall {
            uid: caller.uid,
            pid: caller.pid,
            verb,
            outcome,
        }
    }

    /// Writes to the store, if there is one. The store counts and traces its own errors.
    pub(super) async fn store(
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
}

pub(super) const STOPPED: &str = "the server has stopped";
