//! A running job: one task that waits for its procs, ends it when it must, and says how it ended.
use super::{
    JobCommand,
    cleanup::Cleanups,
    control::RankControl,
    exit::{JobExit, intention},
    input::Inputs,
    job_control::Deed,
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
use peal_server::{Notice, Notices, ProcExit, ServerHandle, Wished};
use peal_system::cgroup::JobCgroup;
use rustix::process::{Signal, getegid, geteuid};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tracing::Instrument;

/// How far a job is on its way to its end.
pub(super) enum Ending {
    /// It runs.
    Not,
    /// Its procs have been asked to end; at that time they are killed.
    Asked(Instant),
    /// Its procs have been killed.
    Killed,
    /// Job control has asked all of its procs to end, each in its time.
    Controlled,
}

/// The end of a job that is to come, unless it ends by itself.
struct DelayedTermination {
    at: Instant,
    because: Status,
}

/// What became of the question what a proc's abnormal end leads to.
struct Consulted {
    /// How it ended.
    status: Status,
    /// What the handlers wish, if anything.
    wished: Option<Wished>,
}

/// A job from its start to its end.
pub(crate) struct RunningJobTask {
    pub(super) server: ServerHandle,
    pub(super) request: JobRequest,
    /// What the server is told of it.
    pub(super) spec: JobSpec,
    pub(super) family: Arc<ChildReaper>,
    pub(super) cleanups: Arc<Cleanups>,
    pub(super) notices: Notices,
    /// By what its procs find the server.
    pub(super) uri: String,
    /// Process ids, which are process groups too, of the procs that run.
    pub(super) running: BTreeMap<Rank, u32>,
    /// What is known of the processes of each that has been started.
    pub(super) trees: Trees,
    pub(super) cell: Option<Arc<JobCgroup>>,
    /// Those that are to be put into their control groups.
    pub(super) started: Vec<StartedProcess>,
    pub(super) waits: JoinSet<(Rank, ProcExit)>,
    pub(super) output: JoinSet<()>,
    /// Who writes to their inputs; given up with the job.
    pub(super) feeding: JoinSet<()>,
    kin: Arc<JobRegistry>,
    table: Arc<JobTable>,
    pub(super) pulls: Arc<Pulls>,
    pub(super) outputs: Outputs,
    pub(super) inputs: Arc<Inputs>,
    pub(super) writers: watch::Sender<Writers>,
    pub(super) ending: Ending,
    delayed: Option<DelayedTermination>,
    pub(super) endings: Terminations,
    /// The one look at processes that are about to end, if it is under way.
    looks: JoinSet<ScanResult>,
    /// What is done to processes meanwhile that stop or go on, one thing at a time, and what comes then.
    pub(super) deeds: JoinSet<Deed>,
    pub(super) queue: VecDeque<RankControl>,
    /// What is removed behind procs that have ended, while others run.
    pub(super) removals: JoinSet<()>,
    /// What handlers are asked about: at most one question for each proc.
    asked: JoinSet<Consulted>,
    pub(super) end: JobExit,
}

/// What a job shares with others of its host.
pub(crate) struct JobContext {
    pub(crate) family: Arc<ChildReaper>,
    pub(crate) cleanups: Arc<Cleanups>,
    pub(crate) notices: Notices,
    pub(crate) kin: Arc<JobRegistry>,
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
            family,
            cleanups,
            notices,
            kin,
            table,
            pulls,
            outputs,
            inputs,
        } = shared;
        let identity = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        RunningJobTask {
            server,
            cell: proc_start::kept(&request),
            spec: request.spec(identity),
            request,
            family,
            cleanups,
            notices,
            uri: uri.to_owned(),
            running: BTreeMap::new(),
            trees: Trees::new(),
            started: Vec::new(),
            waits: JoinSet::new(),
            output: JoinSet::new(),
            feeding: JoinSet::new(),
            kin,
            table,
            pulls,
            outputs,
            inputs,
            writers: watch::Sender::new(Writers::Alive),
            ending: Ending::Not,
            delayed: None,
            endings: Terminations::default(),
            looks: JoinSet::new(),
            deeds: JoinSet::new(),
            queue: VecDeque::new(),
            removals: JoinSet::new(),
            asked: JoinSet::new(),
            end: JobExit {
                exit_status: 0,
                first_abnormal: None,
                abort: None,
            },
        }
    }

    /// Starts the procs. If one cannot be started, those before it are ended.
    pub(crate) async fn start(
        mut self,
        inbox: mpsc::Receiver<JobCommand>,
    ) -> Result<JoinHandle<JobExit>, LaunchError> {
        self.server.add_job(self.spec.clone()).await?;
        let (nspace, size) = (self.request.nspace.clone(), self.request.size());
        self.notices.tell(Notice::JobStarted {
            nspace: nspace.clone(),
            uid: self.spec.identity.uid,
            size,
        });
        let nspace = nspace.as_str().escape_debug();
        self.report(
            rank::PMIX_RANK_WILDCARD,
            &[Reported::JobEvents],
            &format!("job {nspace} of {} starts", counted(size, "proc")),
        );
        self.define_process_sets().await;
        let spawned = self.spawn_all();
        self.keep_started();
        match spawned {
            Ok(()) => Ok(tokio::spawn(self.run(inbox).in_current_span())),
            Err(error) => {
                self.end.exit_status = 1;
                self.kill();
                self.run(inbox).await;
                Err(error)
            }
        }
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<JobCommand>) -> JobExit {
        let mut children = Children::watch();
        // Of those that have ended by now nobody tells us.
        self.family.reap_orphans();
        while !self.running.is_empty()
            || self.endings.are_busy()
            || !self.deeds.is_empty()
            || self.owes_an_answer()
        {
            let kill_at = match self.ending {
                Ending::Asked(at) => Some(at),
                Ending::Not | Ending::Killed | Ending::Controlled => None,
            };
            let end_at = self.delayed.as_ref().map(|delayed| delayed.at);
            let look_at = self.endings.next_look().filter(|_| self.looks.is_empty());
            tokio::select! {
                Some(Ok((rank, end))) = self.waits.join_next() => self.proc_ended(rank, end).await,
                Some(command) = inbox.recv() => self.command(command).await,
                Some(Ok(looked)) = self.looks.join_next() => self.looked(looked).await,
                Some(Ok(deed)) = self.deeds.join_next() => self.deed_done(deed).await,
                Some(Ok(consulted)) = self.asked.join_next() => self.heard(consulted),
                Some(_) = self.removals.join_next() => {}
                () = children.changed() => self.family.reap_orphans(),
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => self.kill(),
                () = tokio::time::sleep_until(end_at.unwrap_or_else(Instant::now)), if end_at.is_some() => self.end_delayed(),
                () = tokio::time::sleep_until(look_at.unwrap_or_else(Instant::now)), if look_at.is_some() => self.look(),
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
        self.notices.tell(Notice::JobEnded {
            nspace: self.request.nspace.clone(),
            exit_status,
        });
        self.end
    }

    fn look(&mut self) {
        let (look, family) = (self.endings.look(&self.trees), self.family.clone());
        self.looks.spawn_blocking(move || look.take(&family));
    }

    fn report(&self, rank: Rank, wanted: &[Reported], line: &str) {
        self.request
            .reporting
            .tell(&self.server, self.proc(rank), wanted, line);
    }

    async fn proc_ended(&mut self, rank: Rank, end: ProcExit) {
        let proc = self.proc(rank);
        self.running.remove(&rank);
        self.inputs.ended(rank);
        self.family.ended(&proc);
        self.notices.tell(Notice::ProcEnded {
            proc: proc.clone(),
            end,
        });
        if self.endings.restarts(rank) {
            // Who starts again has not ended, for anybody but us.
            return self.endings.ended(rank);
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
        let is_its_own_doing = !self.endings.has_asked(rank) && matches!(self.ending, Ending::Not);
        if is_its_own_doing && abnormal.is_some() && self.end.first_abnormal.is_none() {
            self.end.first_abnormal = Some((proc.clone(), end));
            // A job whose proc went without a word has not succeeded.
            self.end.exit_status = if end.exit_status() == 0 {
                1
            } else {
                end.exit_status()
            };
        }
        match abnormal {
            Some((status, infos)) if is_its_own_doing && self.has_others() => {
                self.ask_handlers(proc, status, infos);
            }
            abnormal => self.server.proc_ended(proc, abnormal),
        }
        self.endings.ended(rank);
        self.clean_behind(rank);
    }

    /// Whether there are others, of whom it depends on the end of a proc what becomes.
    fn has_others(&self) -> bool {
        !self.running.is_empty() || self.kin.has_relatives(&self.request.nspace)
    }

    /// Whether relatives wait to be told what the end of the last proc means for them.
    fn owes_an_answer(&self) -> bool {
        (!self.asked.is_empty() || self.delayed.is_some())
            && self.kin.has_relatives(&self.request.nspace)
    }

    /// How the end of a proc stands in the table of procs.
    fn state_of(&self, proc: &Proc, end: ProcExit, abnormal: Option<Status>) -> ProcState {
        let is_told_to_end =
            self.endings.has_asked(proc.rank) || !matches!(self.ending, Ending::Not);
        match &self.end.abort {
            Some((source, _)) if source == proc => ProcState::CALLED_ABORT,
            _ if is_told_to_end && abnormal.is_some() => ProcState::KILLED_BY_CMD,
            _ => end.state(abnormal),
        }
    }

    /// Removes what was to be removed when this proc has ended, once nothing of it is left that was asked to end; at the end of the
    /// job later, when all that its procs had started is gone.
    pub(super) fn clean_behind(&mut self, rank: Rank) {
        if self.endings.has_asked(rank) || (self.running.is_empty() && !self.endings.are_busy()) {
            return;
        }
        let due = self.cleanups.ended(&self.proc(rank));
        if !due.is_empty() {
            let cleanups = self.cleanups.clone();
            self.removals.spawn_blocking(move || cleanups.remove(due));
        }
    }

    /// Raises the event of an abnormal end and asks its handlers what is to become of the job. Others may end in the meantime,
    /// and each of their ends is a question of its own.
    fn ask_handlers(&mut self, proc: Proc, status: Status, mut infos: Vec<Info>) {
        infos.extend(intention(&self.request));
        let limit = self.request.keeping.action_timeout;
        let asking = self
            .server
            .proc_ended_abnormally(proc.clone(), status, infos);
        self.asked.spawn(async move {
            let wished = tokio::time::timeout(limit, asking).await.unwrap_or_else(|_| {
                tracing::warn!(%proc, after = ?limit, "handlers take too long to say what becomes of the job: run.on_abort holds");
                None
            });
            Consulted { status, wished }
        });
    }

    /// Does what the handlers wish, or else what was configured. The first wish for termination ends the job; one against
    /// it spares the job the end of one proc only.
    fn heard(&mut self, Consulted { status, wished }: Consulted) {
        if !matches!(self.ending, Ending::Not) {
            return;
        }
        let wish = wished.as_ref().map_or(
            self.request.keeping.on_abort.termination_request(),
            |wished| wished.wish,
        );
        if let Some(wished) = wished {
            self.notices.tell(Notice::Wished {
                nspace: self.request.nspace.clone(),
                wished,
            });
        }
        match wish {
            TerminationRequest::Termination => {
                let at = Instant::now() + self.request.keeping.termination_delay;
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
            self.ask_to_end(because);
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
                tracing::info!(%source, %status, message = text, "a proc aborts its job");
                // Where the job is to end already, the abort follows from that: MPI programs abort when they hear of a death.
                if self.delayed.is_none() {
                    // A job that was aborted has not succeeded, whatever status it names.
                    self.end.exit_status = if status.0 == 0 { 1 } else { status.0 };
                    self.end.abort = Some((source, text));
                }
                self.ask_to_end(code::PMIX_ERR_PROC_REQUESTED_ABORT);
            }
            JobCommand::Abort { .. } => {}
            JobCommand::EndWithRelative { because } => {
                if matches!(self.ending, Ending::Not) {
                    self.ask_to_end(because);
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
                    self.ask_to_end(code::PMIX_ERR_JOB_CANCELED);
                } else {
                    self.kill();
                }
            }
        }
    }

    /// Tells those who want to know why the job is about to end.
    pub(super) fn ends_because(&self, because: Status) {
        self.table.ending(&self.request.nspace, because);
        self.notices.tell(Notice::JobEnding {
            nspace: self.request.nspace.clone(),
            because,
        });
    }

    fn ask_to_end(&mut self, because: Status) {
        self.ends_because(because);
        self.ending = Ending::Asked(Instant::now() + self.request.keeping.grace);
        self.kin.end_relatives(&self.request.nspace, because);
        // A stopped process would not see the request.
        self.trees.values().for_each(Tree::thaw);
        self.signal_all(Signal::TERM);
        self.signal_all(Signal::CONT);
        self.give_up_restarts(|_| true, "its job ends");
    }

    fn kill(&mut self) {
        self.ending = Ending::Killed;
        self.give_up_restarts(|_| true, "its job ends");
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
