//! The embedded host environment. It starts the procs of a job on this node, forwards their output
//! and reaps them. It reports abnormal ends as events and ends the job as configured.

mod backlog;
mod binding;
mod blocking_turns;
mod cleanup;
mod control;
mod environment;
mod exit;
mod handover;
mod input;
mod job;
mod job_control;
mod job_listing;
mod job_registry;
mod job_request;
mod job_teardown;
mod launcher;
mod left_procs;
mod lines;
mod log_text;
mod memory;
mod output;
mod output_sink;
mod over_nodes;
mod proc_start;
mod process_tree;
mod processors;
mod pulls;
mod query;
mod reaper;
mod registered;
mod reporting;
mod running;
mod spawn;
mod spawn_binding;
mod supported;
mod termination;
mod topology;
mod usage_query;

pub use binding::{Binding, BindingError, BindingRule, usable_processors};
pub use blocking_turns::BlockingLimits;
pub use cleanup::CleanupSettings;
pub use environment::EnvironmentSetting;
pub use exit::JobExit;
pub use handover::HandedHost;
pub use input::Inputs;
pub use job_request::{AppRequest, JobOptions, JobRequest, LaunchError, StdinTarget};
pub use left_procs::kill_left_procs;
pub use lines::Tagging;
pub use output::{JobOutput, OutputFiles};
pub use output_sink::Stream;
pub use processors::{NodeProcessors, ProcessorsError};
pub use reaper::StartObserver;
pub use reporting::{Reported, Reporting};
pub use running::RunningJob;
pub use topology::{TopologyError, node_topology};

use self::{
    blocking_turns::BlockingTurns,
    cleanup::{Cleanups, Registered},
    control::RankControl,
    job_registry::JobRegistry,
    output_sink::{JobSink, Outputs},
    pulls::Pulls,
    query::JobTable,
    reaper::ChildReaper,
};
use peal_core::{
    job::JobSpec,
    job_control::{Cleanup, JobAction, JobControl, NotDone},
    owner::Owner,
    supported::Supported,
};
use peal_helper::PrivilegedHelper;
use peal_model::{
    App, Bytes, Event, Info, Infos, IofChannel, Key, KeyName, Nspace, Proc, Query, Status, Text,
    UserIdentity, code, key,
};
use peal_sandbox::Sink;
use peal_server::{
    EventHandling, FairSemaphore, HostEnvironment, HostFindings, LocalServices, Notices,
    OtherServers, ProcessLookup, Puller, QueriedKey, ServerHandle, Spawned, StreamPull,
    UpcallFuture, admin::JobRegistrar,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Log directives that ask for more than the plain line.
const FORMAT_DIRECTIVES: [KeyName; 4] = [
    key::PMIX_LOG_GENERATE_TIMESTAMP,
    key::PMIX_LOG_TAG_OUTPUT,
    key::PMIX_LOG_TIMESTAMP_OUTPUT,
    key::PMIX_LOG_XML_OUTPUT,
];

/// Number of bytes that are kept of each stream that another launcher delivers.
const DELIVERED_BACKLOG: usize = 16_384;

/// Maximum number of commands that wait for the task of a job. Procs that abort all at once need
/// no more: the first abort ends the job.
const COMMANDS: usize = 64;

/// Command to the task of a running job.
#[derive(Debug)]
pub(crate) enum JobCommand {
    /// Ends the job with this status, at the request of one of its procs.
    Abort {
        source: Proc,
        status: Status,
        message: Option<Text>,
    },
    /// Ends the job because the user sent a signal of this number to `peal`.
    Interrupt { signal: i32 },
    /// Forwards a signal of this number from the user to the procs.
    Forward { signal: i32 },
    /// Ends the job because another job of its spawn tree is being ended with this status.
    EndWithRelatedJob { because: Status },
    /// Carries out a permitted job-control request on some of the procs.
    Control(RankControl),
}

/// Server of launched jobs, and the rendezvous URI by which their procs find it.
struct Launching<'a> {
    server: &'a ServerHandle,
    uri: &'a str,
}

/// The embedded host environment. One instance runs the jobs of one `peal` process.
pub struct EmbeddedHostEnvironment {
    /// Server of the jobs, once it is known.
    server: OnceLock<ServerHandle>,
    /// Rendezvous URI by which the procs of launched jobs find the server. Without one, no jobs are
    /// launched.
    uri: OnceLock<String>,
    jobs: Arc<JobRegistry>,
    pulls: Arc<Pulls>,
    /// Jobs as queries report them.
    table: Arc<JobTable>,
    reaper: Arc<ChildReaper>,
    cleanups: Arc<Cleanups>,
    helper: PrivilegedHelper,
    outputs: Outputs,
    notices: Notices,
    /// Time between the termination request to procs of registered jobs and their kill.
    grace: Duration,
    /// Permits for requests about procs of registered jobs, one for each request in progress. The
    /// owner of the job is charged.
    controls: FairSemaphore,
    /// Turns of users at work that blocks a thread.
    turns: BlockingTurns,
}

impl EmbeddedHostEnvironment {
    /// Creates a host environment without jobs. It reports what happens to its jobs to `notices`.
    pub fn new(notices: Notices) -> EmbeddedHostEnvironment {
        EmbeddedHostEnvironment {
            server: OnceLock::new(),
            uri: OnceLock::new(),
            jobs: Arc::default(),
            pulls: Arc::default(),
            table: Arc::default(),
            reaper: Arc::new(ChildReaper::adopting()),
            cleanups: Arc::default(),
            helper: PrivilegedHelper::default(),
            outputs: Outputs::default(),
            notices,
            grace: JobOptions::default().grace,
            controls: FairSemaphore::new(
                control::MAX_REGISTERED_REQUESTS,
                control::MAX_REGISTERED_REQUESTS_OF_USER,
            ),
            turns: BlockingTurns::new(BlockingLimits::default()),
        }
    }

    /// Sets the time between the termination request to procs of registered jobs and their kill.
    pub fn with_grace(self, grace: Duration) -> EmbeddedHostEnvironment {
        EmbeddedHostEnvironment { grace, ..self }
    }

    /// Sets the bounds of registrations for cleanup and of the removal itself, and the helper that
    /// removes files and acts on processes of registered jobs.
    pub fn cleaning(
        self,
        settings: CleanupSettings,
        helper: PrivilegedHelper,
    ) -> EmbeddedHostEnvironment {
        EmbeddedHostEnvironment {
            cleanups: Arc::new(Cleanups::new(settings, helper.clone())),
            helper,
            ..self
        }
    }

    /// Sets the limits of threads that work for users.
    pub fn blocking(self, limits: BlockingLimits) -> EmbeddedHostEnvironment {
        EmbeddedHostEnvironment {
            turns: BlockingTurns::new(limits),
            ..self
        }
    }

    /// Returns a sink for log channels that writes to the output of the requester's job.
    pub fn sink(&self, stream: Stream) -> Arc<dyn Sink> {
        Arc::new(JobSink {
            outputs: self.outputs.clone(),
            stream,
        })
    }

    /// Returns the current resource usage of procs, for the modules of an owner. Blocks for a short
    /// time.
    ///
    /// # Errors
    /// `PMIX_ERR_NO_PERMISSIONS` for a job that is not the owner's, and `PMIX_ERR_NOT_FOUND` for a
    /// job that is not here.
    pub fn used(&self, owner: &Owner, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        self.table.used(owner, procs, &self.reaper)
    }

    /// Waits until all that procs logged has been written. A slow reader of the output delays it
    /// without limit.
    pub async fn flush(&self) {
        self.outputs.flush().await;
    }

    /// Sets the server of the jobs. Only the first call has an effect.
    pub fn serve(&self, server: ServerHandle) {
        let _ = self.server.set(server);
    }

    /// Allows to launch and spawn jobs, whose procs find the server by the rendezvous `uri`. Only
    /// the first call has an effect.
    pub fn launch_at(&self, uri: &str) {
        let _ = self.uri.set(uri.to_owned());
    }

    /// Sets the observer of the starts of procs. It is called before the proc can be waited for. Only the
    /// first call has an effect.
    pub fn observe_starts(&self, observer: StartObserver) {
        self.reaper.observe_starts(observer);
    }

    /// Returns what launched jobs need, unless this host environment launches none.
    fn launching(&self) -> Option<Launching<'_>> {
        Some(Launching {
            server: self.server.get()?,
            uri: self.uri.get()?,
        })
    }

    /// Waits until all jobs that procs have spawned have ended. Returns the exit of the first that
    /// failed, if any did.
    pub async fn spawned_ended(&self) -> Option<JobExit> {
        self.jobs.spawned_jobs_ended().await
    }

    /// Ends all jobs, as the user requested by a signal of that number. A second call kills them at
    /// once.
    pub fn interrupt(&self, signal: i32) {
        self.jobs.send_to_all(|| JobCommand::Interrupt { signal });
    }

    /// Forwards a signal of that number to the procs of all jobs.
    pub fn forward(&self, signal: i32) {
        self.jobs.send_to_all(|| JobCommand::Forward { signal });
    }

    /// Ends what belongs to a client that has finalized or was lost.
    fn client_departed(&self, proc: &Proc) {
        self.pulls.forget(proc);
        // The ends of procs that this host environment started are reported by their job's task.
        // For others, the departure of the client is the only sign.
        if !self.jobs.knows(&proc.nspace) {
            self.remove(self.cleanups.ended(proc));
        }
    }

    /// Removes what is due, on another thread, since removal blocks.
    fn remove(&self, due: Vec<Registered>) {
        if let Some(uid) = cleanup::charged_user(&due) {
            let turns = self.turns.clone();
            let cleanups = self.cleanups.clone();
            let removal = cleanups.begin_removal();
            let remove = move || {
                cleanups.remove(due);
                drop(removal);
            };
            tokio::spawn(async move { turns.run(uid, remove).await });
        }
    }
}

impl JobRegistrar for EmbeddedHostEnvironment {
    fn adopt(&self, job: &JobSpec) {
        self.outputs.add_external(job.nspace.clone());
        self.cleanups.open(job.nspace.clone());
        self.table.adopt(job);
    }

    fn release(&self, job: &Nspace) {
        self.remove(self.cleanups.close(job));
        self.outputs.remove_external(job);
        self.table.release(job);
        self.pulls.job_ended(job);
    }

    fn elapsed(&self, job: &Nspace) -> Option<Duration> {
        self.table.elapsed(job)
    }
}

impl LocalServices for EmbeddedHostEnvironment {
    fn query_node(
        &self,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<QueriedKey>> {
        let table = self.table.clone();
        let reaper = self.reaper.clone();
        let answer = move || table.answer(identity, &queries, &reaper);
        // Usage is read from `/proc`, which blocks.
        Box::pin(async move {
            let answered = self.turns.run(identity.uid, answer).await;
            answered.unwrap_or(Err(code::PMIX_ERR_NOT_AVAILABLE))
        })
    }

    fn query_of_node(&self, keys: &[Text], qualifiers: &[Info]) -> Query {
        over_nodes::query_of_node(keys, qualifiers)
    }

    fn combine(
        &self,
        queried: &Text,
        qualifiers: &[Info],
        known: Option<&Info>,
        nodes: &[Vec<Info>],
    ) -> Option<Info> {
        over_nodes::combine(queried, qualifiers, known, nodes)
    }

    fn pull_delivered(&self, pull: StreamPull, directives: &[Info]) -> Result<u64, Status> {
        self.begin_pull(pull, directives)
    }

    fn end_pull(&self, puller: &Proc, id: u64) -> Result<Vec<Proc>, Status> {
        self.pulls.remove(puller, id)
    }

    fn deliver(&self, source: &Proc, channel: IofChannel, output: &[u8]) -> Vec<Puller> {
        self.pulls
            .written((source, channel), output, DELIVERED_BACKLOG)
    }
}

impl HostEnvironment for EmbeddedHostEnvironment {
    fn process_of(&self, proc: &Proc) -> ProcessLookup {
        if !self.jobs.knows(&proc.nspace) {
            return ProcessLookup::Unknown;
        }
        self.reaper
            .process_of(proc)
            .map_or(ProcessLookup::Ended, ProcessLookup::Running)
    }

    fn running_process(&self, proc: &Proc) -> Option<u32> {
        self.table.running_process(proc, &self.reaper)
    }

    fn client_connected(&self, proc: &Proc) {
        self.cleanups.runs(proc);
    }

    fn unfinished(&self) -> Option<&'static str> {
        self.cleanups.unfinished()
    }

    fn process_found(&self, proc: &Proc, pid: u32) {
        self.table.found(proc, pid);
    }

    fn supported(&self) -> &[Supported] {
        match self.launching() {
            Some(_) => supported::LAUNCHER,
            // Jobs are only served here, not started.
            None => supported::SERVER,
        }
    }

    fn leaves_ends_to_server(&self, nspace: &Nspace) -> bool {
        self.table.is_adopted(nspace)
    }

    fn registered_events(&self) -> Option<Vec<Status>> {
        // Registered for all codes: otherwise an event for the resource manager has no recipient
        // and is refused.
        Some(Vec::new())
    }

    fn notify(&self, _event: Arc<Event>) -> EventHandling {
        EventHandling::BySite
    }

    fn tool_departed(&self, tool: &Proc) {
        self.pulls.forget(tool);
    }

    fn client_finalized(&self, proc: Proc) -> UpcallFuture<'_, ()> {
        self.client_departed(&proc);
        Box::pin(std::future::ready(Ok(())))
    }

    fn client_lost(&self, proc: &Proc) {
        self.client_departed(proc);
    }

    fn register_cleanup(
        &self,
        source: Proc,
        identity: UserIdentity,
        cleanup: Cleanup,
    ) -> UpcallFuture<'_, ()> {
        let due = self.cleanups.register(&source, identity, cleanup);
        Box::pin(std::future::ready(due.map(|due| self.remove(due))))
    }

    fn query(
        &self,
        _source: Proc,
        identity: UserIdentity,
        queries: Vec<Query>,
        _servers: OtherServers,
    ) -> UpcallFuture<'_, HostFindings> {
        let answers = self.query_for_server(identity, queries);
        Box::pin(async move {
            let infos = answers.await?;
            Ok(HostFindings::whole(infos))
        })
    }

    fn query_for_server(
        &self,
        identity: UserIdentity,
        queries: Vec<Query>,
    ) -> UpcallFuture<'_, Vec<Info>> {
        let answers = self.query_node(identity, queries);
        Box::pin(async move {
            let infos = answers.await?.into_iter().map(|key| key.answer.info());
            Ok(infos.flatten().collect())
        })
    }

    fn abort(
        &self,
        source: Proc,
        status: Status,
        message: Option<Text>,
        targets: Vec<Proc>,
    ) -> UpcallFuture<'_, ()> {
        let own = targets.is_empty()
            || targets
                .iter()
                .all(|target| *target == Proc::all(source.nspace.clone()));
        let job = self.jobs.find(&source.nspace);
        Box::pin(async move {
            if !own {
                // Only whole-job aborts are served. To end some procs, or those of another job, is
                // job control.
                return Err(code::PMIX_ERR_NOT_SUPPORTED);
            }
            let job = job.ok_or(code::PMIX_ERR_NOT_FOUND)?;
            let command = JobCommand::Abort {
                source,
                status,
                message,
            };
            job.commands
                .send(command)
                .await
                .map_err(|_| code::PMIX_ERR_NOT_FOUND)
        })
    }

    fn spawn(
        &self,
        source: Proc,
        identity: UserIdentity,
        infos: Vec<Info>,
        apps: Vec<App>,
    ) -> UpcallFuture<'_, Spawned> {
        Box::pin(async move { self.spawn_job(source, identity, &infos, &apps).await })
    }

    fn iof_pull(
        &self,
        source: Proc,
        sources: Vec<Proc>,
        directives: Vec<Info>,
        channels: IofChannel,
        local_id: u64,
    ) -> UpcallFuture<'_, u64> {
        let pull = StreamPull {
            puller: Puller {
                proc: source,
                local_id,
            },
            sources,
            channels,
        };
        Box::pin(std::future::ready(self.pull(pull, &directives)))
    }

    fn iof_deregister(
        &self,
        source: Proc,
        _directives: Vec<Info>,
        remote_id: u64,
    ) -> UpcallFuture<'_, ()> {
        let ended = self.pulls.remove(&source, remote_id);
        Box::pin(std::future::ready(ended.map(drop)))
    }

    fn push_stdin(
        &self,
        _source: Proc,
        targets: Vec<Proc>,
        _directives: Vec<Info>,
        data: Option<Bytes>,
    ) -> UpcallFuture<'_, ()> {
        Box::pin(async move {
            let mut reached = 0;
            for target in targets {
                let job = self
                    .jobs
                    .find(&target.nspace)
                    .ok_or(code::PMIX_ERR_NOT_FOUND)?;
                // A wildcard rank means all procs of the job.
                let ranks = target
                    .rank
                    .is_valid()
                    .then(|| BTreeSet::from([target.rank]));
                reached += job.inputs.push(ranks.as_ref(), data.clone()).await;
            }
            // No target has a standard input: they were started without one.
            if reached == 0 {
                Err(code::PMIX_ERR_NOT_AVAILABLE)
            } else {
                Ok(())
            }
        })
    }

    fn log_channels(&self, source: &Proc) -> Vec<Key> {
        self.outputs.channels(&source.nspace)
    }

    fn log(
        &self,
        source: Proc,
        channel: Key,
        _timestamp: u64,
        data: Vec<Info>,
        directives: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        // Lines are written unchanged. Timestamps, tags and XML need a module for these channels.
        let is_plain = !FORMAT_DIRECTIVES
            .iter()
            .any(|key| directives.is_true(*key) || data.is_true(*key));
        let logged = if is_plain {
            self.outputs.log(&source, &channel, &data)
        } else {
            Err(code::PMIX_ERR_NOT_SUPPORTED)
        };
        Box::pin(std::future::ready(logged))
    }

    fn job_control(
        &self,
        _requester: Option<Proc>,
        control: JobControl,
    ) -> UpcallFuture<'_, Vec<NotDone>> {
        let action = control.action.clone();
        if let JobAction::Signal(number) = action
            && control::signal_of(&action).is_none()
        {
            // Rejected here, since the task of a job drops such a request without an answer.
            tracing::warn!(
                number,
                "job-control signal rejected: no signal of this number"
            );
            return Box::pin(std::future::ready(Err(code::PMIX_ERR_NOT_SUPPORTED)));
        }
        Box::pin(async move { Ok(self.control_procs(control).await) })
    }
}
