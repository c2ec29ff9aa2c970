//! A running job: one task that waits for its procs, ends it when it must, and says how it ended.
use super::{
    JobCommand,
    control::{Control, Controls, signal_of},
    end::{JobEnd, ProcEnd, intention},
    launch::{self, JobRequest, LaunchError},
    output::{self, Writers},
    stray::{self, Family},
};
use crate::{
    handle::ServerHandle,
    notice::{Notice, Notices, Wished},
};
use peal_core::{job::JobSpec, job_control::JobAction, termination::Wish};
use peal_model::{Info, Proc, Rank, Status, code};
use rustix::process::Signal;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    signal::unix,
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

/// How long what the procs had started may take to end after it was killed; a process in the kernel's hands takes its time.
const LAST_ORPHAN: Duration = Duration::from_secs(5);

/// A job that has been started.
pub struct RunningJob {
    commands: mpsc::Sender<JobCommand>,
    task: JoinHandle<JobEnd>,
}

impl RunningJob {
    pub(crate) fn new(commands: mpsc::Sender<JobCommand>, task: JoinHandle<JobEnd>) -> RunningJob {
        RunningJob { commands, task }
    }

    /// Ends the job, as the user wishes by a signal of that number. Saying it again kills it at once.
    pub fn interrupt(&self, signal: i32) {
        // A job that has ended already, or is busy ending, needs no more.
        let _ = self.commands.try_send(JobCommand::Interrupt { signal });
    }

    /// Sends a signal of that number on to the procs.
    pub fn forward(&self, signal: i32) {
        let _ = self.commands.try_send(JobCommand::Forward { signal });
    }

    /// Waits for the job's end. May be called again after having been given up.
    pub async fn ended(&mut self) -> JobEnd {
        (&mut self.task).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task of a job failed");
            JobEnd { exit_status: 1, first_abnormal: None, abort: None }
        })
    }
}

/// How far a job is on its way to its end.
enum Ending {
    /// It runs.
    Not,
    /// Its procs have been asked to end; at that time they are killed.
    Asked(Instant),
    /// Its procs have been killed.
    Killed,
    /// Job control has asked all of its procs to end, each in its time.
    Controlled,
}

/// What became of the question what a proc's abnormal end leads to.
struct Consulted {
    /// How it ended.
    status: Status,
    /// What the handlers wish, if anything.
    wished: Option<Wished>,
}

/// Tells when a child may have ended.
struct Children(Option<unix::Signal>);

impl Children {
    fn watch() -> Children {
        let watch = unix::signal(unix::SignalKind::child());
        Children(watch.inspect_err(|error| tracing::warn!(%error, "orphans are reaped at the job's end only")).ok())
    }

    async fn changed(&mut self) {
        match &mut self.0 {
            Some(signals) => drop(signals.recv().await),
            None => std::future::pending().await,
        }
    }
}

/// A job from its start to its end.
pub(crate) struct Job {
    server: ServerHandle,
    request: JobRequest,
    family: Arc<Family>,
    notices: Notices,
    /// Process ids, which are process groups too, of the procs that run.
    running: BTreeMap<Rank, u32>,
    waits: JoinSet<(Rank, ProcEnd)>,
    output: JoinSet<()>,
    writers: watch::Sender<Writers>,
    ending: Ending,
    controls: Controls,
    /// What handlers are asked about: at most one question for each proc.
    asked: JoinSet<Consulted>,
    end: JobEnd,
}

impl Job {
    pub(crate) fn new(server: ServerHandle, request: JobRequest, family: Arc<Family>, notices: Notices) -> Job {
        Job {
            server,
            request,
            family,
            notices,
            running: BTreeMap::new(),
            waits: JoinSet::new(),
            output: JoinSet::new(),
            writers: watch::Sender::new(Writers::Alive),
            ending: Ending::Not,
            controls: Controls::default(),
            asked: JoinSet::new(),
            end: JobEnd { exit_status: 0, first_abnormal: None, abort: None },
        }
    }

    /// Starts the procs. If one cannot be started, those before it are ended.
    pub(crate) async fn start(
        mut self,
        uri: &str,
        inbox: mpsc::Receiver<JobCommand>,
    ) -> Result<JoinHandle<JobEnd>, LaunchError> {
        let spec = JobSpec {
            nspace: self.request.nspace.clone(),
            size: self.request.size,
            hostname: self.request.hostname.clone(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        self.server.add_job(spec).await?;
        self.notices.tell(Notice::JobStarted { nspace: self.request.nspace.clone(), size: self.request.size });
        match self.spawn_all(uri) {
            Ok(()) => Ok(tokio::spawn(self.run(inbox))),
            Err(error) => {
                self.end.exit_status = 1;
                self.kill();
                self.run(inbox).await;
                Err(error)
            }
        }
    }

    fn spawn_all(&mut self, uri: &str) -> Result<(), LaunchError> {
        if self.request.size == 0 {
            return Err(LaunchError::Size { size: 0, why: "at least one is needed".to_owned() });
        }
        for rank in (0..self.request.size).map(Rank) {
            let mut child = self.family.start(self.proc(rank), || {
                let child = launch::spawn(&self.request, rank, uri)?;
                let number = child.id();
                Ok::<_, LaunchError>((child, number))
            })?;
            let pid = child.id().unwrap_or_default();
            self.running.insert(rank, pid);
            self.notices.tell(Notice::ProcStarted { proc: self.proc(rank), pid });
            output::forward(&mut child, rank, self.request.tagging, &self.writers.subscribe(), &mut self.output);
            self.waits.spawn(async move {
                match child.wait().await {
                    Ok(status) => (rank, ProcEnd::from(status)),
                    Err(error) => {
                        tracing::error!(%rank, %error, "cannot wait for a proc");
                        (rank, ProcEnd::Exited(1))
                    }
                }
            });
        }
        Ok(())
    }

    async fn run(mut self, mut inbox: mpsc::Receiver<JobCommand>) -> JobEnd {
        let mut children = Children::watch();
        while !self.running.is_empty() {
            let kill_at = match self.ending {
                Ending::Asked(at) => Some(at),
                Ending::Not | Ending::Killed | Ending::Controlled => None,
            };
            let kill_some_at = self.controls.deadline();
            tokio::select! {
                ended = self.waits.join_next() => match ended {
                    Some(Ok((rank, end))) => self.proc_ended(rank, end).await,
                    // A wait cannot fail, and there is one for each that runs.
                    Some(Err(_)) | None => break,
                },
                Some(command) = inbox.recv() => self.command(command),
                Some(Ok(consulted)) = self.asked.join_next() => self.heard(consulted),
                () = children.changed() => self.family.reap_orphans(),
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => self.kill(),
                () = tokio::time::sleep_until(kill_some_at.unwrap_or_else(Instant::now)), if kill_some_at.is_some() => {
                    self.controls.kill_late(&self.running);
                }
            }
        }
        self.clear_up(&mut inbox).await;
        let exit_status = self.end.exit_status;
        self.server.remove_job(self.request.nspace.clone());
        self.notices.tell(Notice::JobEnded { nspace: self.request.nspace.clone(), exit_status });
        self.end
    }

    async fn proc_ended(&mut self, rank: Rank, end: ProcEnd) {
        let proc = self.proc(rank);
        self.running.remove(&rank);
        self.family.ended(&proc);
        self.notices.tell(Notice::ProcEnded { proc: proc.clone(), end });
        let abnormal = end.abnormal(self.server.life(proc.clone()).await);
        let is_its_own_doing = !self.controls.has_asked(rank) && matches!(self.ending, Ending::Not);
        if is_its_own_doing && abnormal.is_some() && self.end.first_abnormal.is_none() {
            self.end.first_abnormal = Some((proc.clone(), end));
            self.end.exit_status = end.exit_status();
        }
        match abnormal {
            // What becomes of the others depends on it.
            Some((status, infos)) if is_its_own_doing && !self.running.is_empty() => {
                self.ask_handlers(proc, status, infos);
            }
            abnormal => self.server.proc_ended(proc, abnormal),
        }
        self.controls.ended(rank);
    }

    /// Raises the event of an abnormal end and asks its handlers what is to become of the job. Others may end in the meantime,
    /// and each of their ends is a question of its own.
    fn ask_handlers(&mut self, proc: Proc, status: Status, mut infos: Vec<Info>) {
        infos.extend(intention(&self.request));
        let limit = self.request.action_timeout;
        let asking = self.server.proc_ended_abnormally(proc.clone(), status, infos);
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
        let wish = wished.as_ref().map_or(self.request.on_abort.wish(), |wished| wished.wish);
        if let Some(wished) = wished {
            self.notices.tell(Notice::Wished { nspace: self.request.nspace.clone(), wished });
        }
        match wish {
            Wish::Termination => self.ask_to_end(status),
            Wish::NoTermination => {}
        }
    }

    fn command(&mut self, command: JobCommand) {
        match command {
            JobCommand::Abort { source, status, message } if matches!(self.ending, Ending::Not) => {
                let text = message.map(|text| text.to_string()).unwrap_or_default();
                tracing::info!(%source, %status, message = text, "a proc aborts its job");
                // A job that was aborted has not succeeded, whatever status it names.
                self.end.exit_status = if status.0 == 0 { 1 } else { status.0 };
                self.end.abort = Some((source, text));
                self.ask_to_end(code::PMIX_ERR_PROC_REQUESTED_ABORT);
            }
            JobCommand::Abort { .. } => {}
            JobCommand::Forward { signal } => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    self.signal_all(signal);
                }
            }
            JobCommand::Control(control) => self.control(control),
            JobCommand::Interrupt { signal } => {
                if matches!(self.ending, Ending::Not) {
                    self.end.exit_status = ProcEnd::Signalled(signal).exit_status();
                    self.ask_to_end(code::PMIX_ERR_JOB_CANCELED);
                } else {
                    self.kill();
                }
            }
        }
    }

    /// Controls some procs. If that leaves none that was not asked to end, the job ends as it does by a signal to `peal`.
    fn control(&mut self, control: Control) {
        let action = control.action;
        self.controls.begin(control, &self.running, self.request.grace);
        let ends = matches!(action, JobAction::Terminate | JobAction::Kill) && self.controls.cover(&self.running);
        if ends && matches!(self.ending, Ending::Not) {
            let signal = signal_of(action).map_or(0, Signal::as_raw);
            self.end.exit_status = ProcEnd::Signalled(signal).exit_status();
            let (nspace, because) = (self.request.nspace.clone(), code::PMIX_ERR_JOB_CANCELED);
            self.notices.tell(Notice::JobEnding { nspace, because });
            // Those whose time is over are killed one by one.
            self.ending = Ending::Controlled;
        }
    }

    fn ask_to_end(&mut self, because: Status) {
        self.notices.tell(Notice::JobEnding { nspace: self.request.nspace.clone(), because });
        self.ending = Ending::Asked(Instant::now() + self.request.grace);
        // A stopped process would not see the request.
        self.signal_all(Signal::TERM);
        self.signal_all(Signal::CONT);
    }

    fn kill(&mut self) {
        self.ending = Ending::Killed;
        self.signal_all(Signal::KILL);
    }

    fn signal_all(&self, signal: Signal) {
        self.running.values().for_each(|leader| stray::signal_group(*leader, signal));
    }

    /// The procs have ended; what they started is orphaned and ours by now, and must end too. What was written is passed on,
    /// however long our own reader takes, unless the user does not want to wait.
    async fn clear_up(&mut self, inbox: &mut mpsc::Receiver<JobCommand>) {
        let family = self.family.clone();
        let killing = tokio::task::spawn_blocking(move || family.kill_orphans());
        if tokio::time::timeout(LAST_ORPHAN, killing).await.is_err() {
            tracing::error!("a process that the job started does not end, although it was killed");
        }
        self.writers.send_replace(Writers::Gone);
        let mut heard = true;
        loop {
            tokio::select! {
                copied = self.output.join_next() => if copied.is_none() { return },
                command = inbox.recv(), if heard => match command {
                    Some(JobCommand::Interrupt { .. }) => {
                        tracing::warn!("interrupted: the last output of the job is lost");
                        return;
                    }
                    Some(JobCommand::Abort { .. } | JobCommand::Forward { .. } | JobCommand::Control(_)) => {}
                    None => heard = false,
                },
            }
        }
    }

    fn proc(&self, rank: Rank) -> Proc {
        Proc::new(self.request.nspace.clone(), rank)
    }
}
