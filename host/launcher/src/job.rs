//! The task of a running job. It waits for the procs, ends the job when required, and returns the
//! exit of the job.
use super::{
    JobCommand,
    binding::Binding,
    blocking_turns::BlockingTurns,
    cleanup::{Cleanups, Registered, charged_user},
    control::RankControl,
    exit::{JobExit, intention},
    input::Inputs,
    job_control::PauseResult,
    job_registry::JobRegistry,
    job_request::{JobRequest, LaunchError},
    output::Writers,
    output_sink::Outputs,
    proc_start::{self, StartedProcess},
    process_tree::{Tree, Trees},
    pulls::Pulls,
    query::JobTable,
    reaper::{self, ChildReaper},
    reporting::Reported,
    running::Children,
    termination::{ScanResult, Terminations},
};
use peal_core::{job::JobSpec, termination::TerminationRequest};
use peal_model::{Info, Proc, ProcState, Rank, Status, UserIdentity, code, counted, rank};
use peal_server::{Notice, Notices, ProcExit, RequestedTermination, ServerHandle};
use peal_system::cgroup::JobCgroup;
use rustix::process::{Signal, getegid, geteuid};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tracing::Instrument;

/// Time for which ended orphans may wait to be reaped. To find them all children are listed: for each proc that
/// ends, that would cost the square of their number.
const REAP_PAUSE: Duration = Duration::from_millis(100);

/// Progress of a job towards its end.
pub(super) enum Ending {
    /// The job runs.
    Not,
    /// The procs have received a request to end. They are killed at this time.
    Requested(Instant),
    /// The procs have been killed.
    Killed,
    /// Job control has requested the end of all procs, each with its own time of the kill.
    Controlled,
}

/// Termination of the job at a later time, unless the job ends before.
struct DelayedTermination {
    at: Instant,
    because: Status,
}

/// Result of the question to the handlers of an abnormal end.
struct HandlersReply {
    /// Status of the abnormal end.
    status: Status,
    /// Request of the handlers, if they made one.
    termination: Option<RequestedTermination>,
}

/// State of the task that runs a job from its start to its end.
pub(crate) struct RunningJobTask {
    pub(super) server: ServerHandle,
    pub(super) request: JobRequest,
    /// Description of the job for the server.
    pub(super) spec: JobSpec,
    /// Processors of the procs by rank; none if they are not bound.
    pub(super) bindings: Option<Vec<Binding>>,
    pub(super) reaper: Arc<ChildReaper>,
    pub(super) cleanups: Arc<Cleanups>,
    turns: BlockingTurns,
    pub(super) notices: Notices,
    /// Rendezvous URI by which the procs find the server.
    pub(super) uri: String,
    /// Process ids of the running procs. They are also the ids of their process groups.
    pub(super) running: BTreeMap<Rank, u32>,
    /// Process trees of all procs that have been started, ended ones too.
    pub(super) trees: Trees,
    pub(super) cgroup: Option<Arc<JobCgroup>>,
    /// Processes that have to be moved into their control groups.
    pub(super) started: Vec<StartedProcess>,
    pub(super) waits: JoinSet<(Rank, ProcExit)>,
    pub(super) output: JoinSet<()>,
    /// Tasks that write to the standard inputs. They are aborted with the job.
    pub(super) feeding: JoinSet<()>,
    jobs: Arc<JobRegistry>,
    table: Arc<JobTable>,
    pub(super) pulls: Arc<Pulls>,
    pub(super) outputs: Outputs,
    pub(super) inputs: Arc<Inputs>,
    pub(super) writers: Arc<Writers>,
    pub(super) ending: Ending,
    delayed: Option<DelayedTermination>,
    pub(super) terminations: Terminations,
    /// The scan of processes that are about to end, if one is in progress. There is at most one.
    scans: JoinSet<ScanResult>,
    /// The pause or resumption in progress, if there is one. There is at most one.
    pub(super) pauses: JoinSet<PauseResult>,
    /// Job-control requests that wait for it, in order of arrival.
    pub(super) queue: VecDeque<RankControl>,
    /// Removals of registered files of procs that have ended, while other procs run.
    pub(super) removals: JoinSet<()>,
    /// Questions to handlers about abnormal ends, at most one for each proc.
    handler_replies: JoinSet<HandlersReply>,
    pub(super) end: JobExit,
}

/// State shared by all jobs of the host environment, and the inputs of the job.
pub(crate) struct JobContext {
    pub(crate) reaper: Arc<ChildReaper>,
    pub(crate) cleanups: Arc<Cleanups>,
    pub(crate) turns: BlockingTurns,
    pub(crate) notices: Notices,
    pub(crate) jobs: Arc<JobRegistry>,
    pub(super) table: Arc<JobTable>,
    pub(crate) pulls: Arc<Pulls>,
    pub(crate) outputs: Outputs,
    pub(crate) inputs: Arc<Inputs>,
}

impl RunningJobTask {
    pub(crate) fn new(
        server: ServerHandle,
        uri: &str,
        request: JobRequest,
        shared: JobContext,
    ) -> RunningJobTask {
        let JobContext {
            reaper,
            cleanups,
            turns,
            notices,
            jobs,
            table,
            pulls,
            outputs,
            inputs,
        } = shared;
        let identity = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        // `peal run` has said it of its own job. A spawned job runs all the same.
        let bindings = request.bindings().unwrap_or_else(|error| {
            tracing::info!(job = %request.nspace, %error, "procs not bound");
            None
        });
        RunningJobTask {
            server,
            cgroup: proc_start::create_job_cgroup(&request),
            spec: request.spec(identity, bindings.as_deref()),
            bindings,
            request,
            reaper,
            cleanups,
            turns,
            notices,
            uri: uri.to_owned(),
            running: BTreeMap::new(),
            trees: Trees::new(),
            started: Vec::new(),
            waits: JoinSet::new(),
            output: JoinSet::new(),
            feeding: JoinSet::new(),
            jobs,
            table,
            pulls,
            outputs,
            inputs,
            writers: Arc::default(),
            ending: Ending::Not,
            delayed: None,
            terminations: Terminations::default(),
            scans: JoinSet::new(),
            pauses: JoinSet::new(),
            queue: VecDeque::new(),
            removals: JoinSet::new(),
            handler_replies: JoinSet::new(),
            end: JobExit {
                exit_status: 0,
                first_abnormal: None,
                abort: None,
            },
        }
    }

    /// Starts the procs. If one cannot be started, the ones before it are killed.
    pub(crate) async fn start(
        mut self,
        inbox: mpsc::Receiver<JobCommand>,
    ) -> Result<JoinHandle<JobExit>, LaunchError> {
        // First, since procs connect as soon as they run.
        self.server.add_job(self.spec.clone()).await?;
        let nspace = self.request.nspace.clone();
        let size = self.request.size();
        // What procs and reports log goes to the record of this job, not to that of an earlier job
        // of its name.
        let started = Notice::JobStarted {
            nspace: nspace.clone(),
            uid: self.spec.identity.uid,
            size,
        };
        self.notices.notify_recorded(started).await;
        let nspace = nspace.as_str().escape_debug();
        self.report(
            rank::PMIX_RANK_WILDCARD,
            &[Reported::JobEvents],
            &format!("job {nspace} of {} starts", counted(size, "proc")),
        );
        // Before the start: procs may query their sets at once.
        self.define_process_sets().await;
        let spawned = self.spawn_all();
        self.move_started_to_cgroups();
        match spawned {
            Ok(()) => Ok(tokio::spawn(self.run(inbox).in_current_span())),
            Err(error) => {
                // The task runs nevertheless, to wait for the procs that did start.
                self.end.exit_status = 1;
                self.kill();
                self.run(inbox).await;
                Err(error)
            }
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<JobCommand>) -> JobExit {
        let mut children = Children::watch();
        // No signal arrives for children that ended before the watch began.
        self.reaper.reap_orphans();
        let mut reap_at = None;
        while !self.running.is_empty()
            || self.terminations.are_busy()
            || !self.pauses.is_empty()
            || self.awaits_decision()
        {
            let kill_at = match self.ending {
                Ending::Requested(at) => Some(at),
                Ending::Not | Ending::Killed | Ending::Controlled => None,
            };
            let end_at = self.delayed.as_ref().map(|delayed| delayed.at);
            // Scans take turns: each needs the result of the one before.
            let scan_at = self
                .terminations
                .next_scan_time()
                .filter(|_| self.scans.is_empty());
            tokio::select! {
                Some(Ok((rank, end))) = self.waits.join_next() => self.proc_ended(rank, end).await,
                Some(command) = inbox.recv() => self.command(command).await,
                Some(Ok(result)) = self.scans.join_next() => self.scan_done(result).await,
                Some(Ok(result)) = self.pauses.join_next() => self.pause_done(result).await,
                Some(Ok(reply)) = self.handler_replies.join_next() => self.handle_reply(reply),
                Some(_) = self.removals.join_next() => {}
                () = children.changed(), if reap_at.is_none() => reap_at = Some(Instant::now() + REAP_PAUSE),
                // A disabled branch still evaluates its expression, so each sleep needs some time.
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => self.kill(),
                () = tokio::time::sleep_until(end_at.unwrap_or_else(Instant::now)), if end_at.is_some() => self.end_delayed(),
                () = tokio::time::sleep_until(reap_at.unwrap_or_else(Instant::now)), if reap_at.is_some() => {
                    reap_at = None;
                    self.reaper.reap_orphans();
                }
                () = tokio::time::sleep_until(scan_at.unwrap_or_else(Instant::now)), if scan_at.is_some() => self.start_scan(),
            }
        }
        self.clear_up(&mut inbox).await;
        self.outputs.job_ended(&self.request.nspace);
        self.pulls.job_ended(&self.request.nspace);
        let exit_status = self.end.exit_status;
        let line = format!(
            "job {} ended with exit status {exit_status}",
            self.request.nspace.as_str().escape_debug()
        );
        self.report(
            rank::PMIX_RANK_WILDCARD,
            &[Reported::JobEvents, Reported::Completion],
            &line,
        );
        self.server.remove_job(self.request.nspace.clone());
        self.notices.notify(Notice::JobEnded {
            nspace: self.request.nspace.clone(),
            exit_status,
        });
        self.end
    }

    fn start_scan(&mut self) {
        let scan = self.terminations.next_scan(&self.trees);
        let reaper = self.reaper.clone();
        self.scans.spawn_blocking(move || scan.run(&reaper));
    }

    fn report(&self, rank: Rank, wanted: &[Reported], line: &str) {
        self.request
            .reporting
            .report(&self.server, self.proc(rank), wanted, line);
    }

    async fn proc_ended(&mut self, rank: Rank, end: ProcExit) {
        let proc = self.proc(rank);
        // The process was waited for, so its id may be reused: no signal must go to it any more.
        self.running.remove(&rank);
        self.inputs.ended(rank);
        self.reaper.ended(&proc);
        self.notices.notify(Notice::ProcEnded {
            proc: proc.clone(),
            end,
        });
        if self.terminations.restarts(rank) {
            // The end of a proc that is restarted is not visible outside of the launcher.
            return self.terminations.ended(rank);
        }
        let abnormal = end.abnormal(self.server.life(proc.clone()).await);
        let wanted: &[Reported] = match abnormal {
            Some(_) => &[Reported::Terminations, Reported::AbnormalTerminations],
            None => &[Reported::Terminations],
        };
        self.table.proc_ended(
            &proc,
            self.state_of(&proc, end, abnormal.as_ref().map(|(status, _)| *status)),
        );
        self.report(
            rank,
            wanted,
            &format!(
                "rank {rank} of job {} {end}",
                proc.nspace.as_str().escape_debug()
            ),
        );
        let is_unrequested =
            !self.terminations.is_terminating(rank) && matches!(self.ending, Ending::Not);
        if is_unrequested && abnormal.is_some() && self.end.first_abnormal.is_none() {
            self.end.first_abnormal = Some((proc.clone(), end));
            // A proc that left without finalizing counts as a failure even with exit status zero.
            self.end.exit_status = if end.exit_status() == 0 {
                1
            } else {
                end.exit_status()
            };
        }
        match abnormal {
            // Without other procs or jobs nothing is left to decide: the job ends with this proc.
            Some((status, infos)) if is_unrequested && self.has_others() => {
                self.consult_handlers(proc, status, infos);
            }
            abnormal => self.server.proc_ended(proc, abnormal),
        }
        self.terminations.ended(rank);
        self.clean_up_after(rank);
    }

    /// Returns true if other procs or related jobs depend on the decision about the end of a proc.
    fn has_others(&self) -> bool {
        !self.running.is_empty() || self.jobs.has_related_jobs(&self.request.nspace)
    }

    /// Returns true if related jobs depend on a decision that is still open after the last proc.
    fn awaits_decision(&self) -> bool {
        (!self.handler_replies.is_empty() || self.delayed.is_some())
            && self.jobs.has_related_jobs(&self.request.nspace)
    }

    /// Returns true if an abort is a consequence of the abnormal end of another proc, because of
    /// which the job is to end or handlers decide: MPI programs abort when they learn of it.
    fn is_abort_secondary(&self, source: &Proc) -> bool {
        let first = self.end.first_abnormal.as_ref();
        (self.delayed.is_some() || !self.handler_replies.is_empty())
            && first.is_some_and(|(first, _)| first != source)
    }

    /// Processes the ends of procs that are known by now, except that of one rank, which is
    /// returned.
    async fn process_ends_except(&mut self, rank: Rank) -> Option<(Rank, ProcExit)> {
        let mut excepted = None;
        while let Some(Ok((ended, end))) = self.waits.try_join_next() {
            if ended == rank {
                excepted = Some((ended, end));
            } else {
                self.proc_ended(ended, end).await;
            }
        }
        excepted
    }

    /// Returns the state of an ended proc in the table of procs.
    fn state_of(&self, proc: &Proc, end: ProcExit, abnormal: Option<Status>) -> ProcState {
        let is_requested =
            self.terminations.is_terminating(proc.rank) || !matches!(self.ending, Ending::Not);
        match &self.end.abort {
            Some((source, _)) if source == proc => ProcState::CALLED_ABORT,
            _ if is_requested && abnormal.is_some() => ProcState::KILLED_BY_CMD,
            _ => end.state(abnormal),
        }
    }

    /// Begins the removal of files registered for the end of this proc. A proc that was requested
    /// to end may still have processes; then the removal waits for them. After the last proc, the
    /// teardown of the job removes the files, once the orphans of its procs have ended.
    pub(super) fn clean_up_after(&mut self, rank: Rank) {
        if self.terminations.is_terminating(rank)
            || (self.running.is_empty() && !self.terminations.are_busy())
        {
            return;
        }
        let due = self.cleanups.ended(&self.proc(rank));
        self.remove(due);
    }

    /// Begins the removal of registered files when it is the user's turn.
    pub(super) fn remove(&mut self, due: Vec<Registered>) {
        if let Some(uid) = charged_user(&due) {
            let turns = self.turns.clone();
            let cleanups = self.cleanups.clone();
            self.removals.spawn(async move {
                // Without a result the work has panicked, which is reported already.
                let _ = turns.run(uid, move || cleanups.remove(due)).await;
            });
        }
    }

    /// Raises the event of an abnormal end and lets its handlers decide how the job continues.
    /// Other procs may end in the meantime; each abnormal end is a question of its own.
    fn consult_handlers(&mut self, proc: Proc, status: Status, mut infos: Vec<Info>) {
        infos.extend(intention(&self.request));
        let limit = self.request.options.action_timeout;
        let asking = self
            .server
            // Called outside of the task: the end is reported now, not when the task first runs.
            .proc_ended_abnormally(proc.clone(), status, infos);
        self.handler_replies.spawn(async move {
            let termination = tokio::time::timeout(limit, asking).await.unwrap_or_else(|_| {
                tracing::warn!(%proc, after = ?limit, "handlers exceeded the action timeout; run.on_abort applies");
                None
            });
            HandlersReply { status, termination }
        });
    }

    /// Carries out the request of the handlers, or the configured action if there is none. The
    /// first request for termination ends the job. A request against it covers the end of one proc
    /// only.
    fn handle_reply(
        &mut self,
        HandlersReply {
            status,
            termination,
        }: HandlersReply,
    ) {
        if !matches!(self.ending, Ending::Not) {
            return;
        }
        let request = termination.as_ref().map_or(
            self.request.options.on_abort.termination_request(),
            |termination| termination.request,
        );
        if let Some(termination) = termination {
            self.notices.notify(Notice::TerminationRequested {
                nspace: self.request.nspace.clone(),
                termination,
            });
        }
        match request {
            TerminationRequest::Termination => {
                // Procs that end by themselves meanwhile can still write their last output.
                let at = Instant::now() + self.request.options.termination_delay;
                // A later abnormal end does not put the termination off.
                self.delayed.get_or_insert(DelayedTermination {
                    at,
                    because: status,
                });
            }
            TerminationRequest::NoTermination => {}
        }
    }

    fn end_delayed(&mut self) {
        if let Some(DelayedTermination { because, .. }) = self.delayed.take()
            && matches!(self.ending, Ending::Not)
        {
            self.request_end(because);
        }
    }

    async fn command(&mut self, command: JobCommand) {
        match command {
            JobCommand::Abort {
                source,
                status,
                message,
            } if matches!(self.ending, Ending::Not) => {
                let text = message.map(|text| text.to_string()).unwrap_or_default();
                tracing::info!(%source, %status, message = text, "proc aborts its job");
                // Other procs whose ends are known ended before the abort, whatever was received
                // first. The source ended after it.
                let source_end = self.process_ends_except(source.rank).await;
                if !self.is_abort_secondary(&source) {
                    // An aborted job has not succeeded, even if the abort names status zero.
                    self.end.exit_status = if status.0 == 0 { 1 } else { status.0 };
                    self.end.abort = Some((source, text));
                }
                self.request_end(code::PMIX_ERR_PROC_REQUESTED_ABORT);
                if let Some((rank, end)) = source_end {
                    self.proc_ended(rank, end).await;
                }
            }
            JobCommand::Abort { .. } => {}
            JobCommand::EndWithRelatedJob { because } => {
                if matches!(self.ending, Ending::Not) {
                    self.request_end(because);
                }
            }
            JobCommand::Forward { signal } => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.signal_all(signal);
                }
            }
            JobCommand::Control(control) => self.control(control).await,
            JobCommand::Interrupt { signal } => {
                if matches!(self.ending, Ending::Not) {
                    self.end.exit_status = ProcExit::Signalled(signal).exit_status();
                    self.request_end(code::PMIX_ERR_JOB_CANCELED);
                } else {
                    self.kill();
                }
            }
        }
    }

    /// Records the reason for which the job is about to end, and reports it to the listeners.
    pub(super) fn ends_because(&self, because: Status) {
        self.table.ending(&self.request.nspace, because);
        self.notices.notify(Notice::JobEnding {
            nspace: self.request.nspace.clone(),
            because,
        });
    }

    fn request_end(&mut self, because: Status) {
        self.ends_because(because);
        self.ending = Ending::Requested(Instant::now() + self.request.options.grace);
        self.jobs.end_related_jobs(&self.request.nspace, because);
        // A frozen process would not receive the request.
        self.trees.values().for_each(Tree::thaw);
        self.signal_all(Signal::TERM);
        // `SIGCONT` follows `SIGTERM`, so that a stopped process acts on the request at once.
        self.signal_all(Signal::CONT);
        self.cancel_restarts(|_| true, "the job is ending");
    }

    fn kill(&mut self) {
        self.ending = Ending::Killed;
        self.cancel_restarts(|_| true, "the job is ending");
        self.signal_all(Signal::KILL);
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        self.running
            .values()
            .for_each(|leader| reaper::signal_group(*leader, signal));
    }

    pub(super) fn proc(&self, rank: Rank) -> Proc {
        Proc::new(self.request.nspace.clone(), rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AppRequest, EmbeddedHostEnvironment, JobOptions};
    use peal_core::choice::ControlGroups;
    use peal_helper::PrivilegedHelper;
    use peal_model::Nspace;
    use peal_sandbox::{GuestPool, PoolSettings};
    use peal_server::{GuestPools, Hosted, InProcessNetwork, Server, ServerParts, ServerSettings};

    /// Status by which Open MPI aborts when it learns of the end of another proc: the code of the
    /// event. As an exit status of `peal` it is 110.
    const ABORTED: Status = code::PMIX_ERR_PROC_ABORTED_BY_SIG;

    async fn server() -> Server {
        let pool = Arc::new(GuestPool::new(PoolSettings::default()));
        let parts = ServerParts {
            continued: None,
            me: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
            host: Arc::new(EmbeddedHostEnvironment::new(Notices::default())),
            network: InProcessNetwork::new(),
            hosted: Hosted::default(),
            pools: GuestPools {
                site: pool.clone(),
                tenants: pool.clone(),
                policies: pool.clone(),
                channels: pool.clone(),
                shadows: pool,
            },
            notices: Notices::default(),
            helper: PrivilegedHelper::default(),
            audit: None,
        };
        Server::start(ServerSettings::default(), parts)
            .await
            .unwrap()
    }

    /// Returns the task of a job of three procs, with process ids that no process has.
    async fn job_task(server: &Server) -> RunningJobTask {
        let nspace = Nspace::new("job").unwrap();
        let mut request = JobRequest::new(nspace, AppRequest::new("app", vec![], 3), "node");
        request.options = JobOptions {
            control_groups: ControlGroups::Off,
            ..JobOptions::default()
        };
        let shared = JobContext {
            reaper: Arc::new(ChildReaper::adopting()),
            cleanups: Arc::default(),
            turns: BlockingTurns::new(crate::BlockingLimits::default()),
            notices: Notices::default(),
            jobs: Arc::default(),
            table: Arc::default(),
            pulls: Arc::default(),
            outputs: Outputs::default(),
            inputs: Arc::default(),
        };
        let mut task = RunningJobTask::new(server.handle(), "", request, shared);
        task.server.add_job(task.spec.clone()).await.unwrap();
        task.running = (0..3).map(|rank| (Rank(rank), 1_000_000_000)).collect();
        task
    }

    fn abort(task: &RunningJobTask, rank: u32) -> JobCommand {
        JobCommand::Abort {
            source: task.proc(Rank(rank)),
            status: ABORTED,
            message: None,
        }
    }

    /// Has the end of a proc wait for the task, as if it was noticed while the task was busy.
    async fn end(task: &mut RunningJobTask, rank: u32, end: ProcExit) {
        let wait = task.waits.spawn(async move { (Rank(rank), end) });
        while !wait.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the exit status, and whether the job counts as aborted.
    fn outcome(task: &RunningJobTask) -> (i32, bool) {
        assert!(matches!(task.ending, Ending::Requested(_)));
        (task.end.exit_status, task.end.abort.is_some())
    }

    #[tokio::test]
    async fn abort_while_handlers_decide_keeps_first_exit_status() {
        let server = server().await;
        let mut task = job_task(&server).await;
        task.proc_ended(Rank(2), ProcExit::Signalled(9)).await;
        task.command(abort(&task, 0)).await;
        assert_eq!(outcome(&task), (137, false));
    }

    #[tokio::test]
    async fn abort_after_end_not_yet_processed_keeps_its_status() {
        let server = server().await;
        let mut task = job_task(&server).await;
        end(&mut task, 2, ProcExit::Signalled(9)).await;
        task.command(abort(&task, 0)).await;
        assert_eq!(outcome(&task), (137, false));
    }

    #[tokio::test]
    async fn abort_by_proc_that_has_ended_since_decides_status() {
        let server = server().await;
        let mut processed = job_task(&server).await;
        processed.proc_ended(Rank(2), ProcExit::Exited(5)).await;
        processed.command(abort(&processed, 2)).await;
        assert_eq!(outcome(&processed), (ABORTED.0, true));
        server.handle().remove_job(processed.request.nspace.clone());
        let mut waiting = job_task(&server).await;
        end(&mut waiting, 2, ProcExit::Exited(5)).await;
        waiting.command(abort(&waiting, 2)).await;
        assert_eq!(outcome(&waiting), (ABORTED.0, true));
        assert_eq!(waiting.end.first_abnormal, None);
    }
}
