//! Job control of the procs of a job: signals, pause and resumption, termination and restart.
use super::{
    control::{OpenControl, RankControl, RankNotDone, Restart, ended_already, signal_of},
    job::{Ending, RunningJobTask},
    process_tree::{self, Tree, Trees},
    reaper,
    termination::ScanResult,
};
use peal_core::{choice::RestartScope, job_control::JobAction};
use peal_model::{Rank, code};
use peal_server::ProcExit;
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Maximum number of requests that wait for earlier pauses and resumptions.
const MAX_WAITING_REQUESTS: usize = 64;

/// Result of a pause or resumption on another thread.
#[derive(Debug)]
pub(super) struct PauseResult {
    open: OpenControl,
    /// Ranks on which it failed, with the reason.
    refused: BTreeMap<Rank, String>,
}

impl RunningJobTask {
    /// Carries out a request. Requests are processed in order, except signals and kills: these take
    /// effect at once and wait for no other request.
    pub(super) async fn control(&mut self, control: RankControl) {
        match &control.action {
            JobAction::Signal(_) | JobAction::Kill => self.begin(control).await,
            JobAction::Terminate
            | JobAction::Pause
            | JobAction::Resume
            | JobAction::Restart { .. } => {
                if self.queue.len() >= MAX_WAITING_REQUESTS {
                    let busy = "too many requests about this job are waiting";
                    let refused = control
                        .ranks
                        .iter()
                        .map(|rank| RankNotDone::new(*rank, code::PMIX_ERR_RESOURCE_BUSY, busy));
                    return OpenControl {
                        not_done: refused.collect(),
                        ..OpenControl::of(control.done)
                    }
                    .answer();
                }
                self.queue.push_back(control);
                self.begin_next().await;
            }
        }
    }

    /// Begins waiting requests until one occupies another thread.
    async fn begin_next(&mut self) {
        while self.pauses.is_empty()
            && let Some(control) = self.queue.pop_front()
        {
            self.begin(control).await;
        }
    }

    async fn begin(&mut self, control: RankControl) {
        let RankControl {
            action,
            ranks,
            done,
        } = control;
        let open = OpenControl::of(done);
        match &action {
            JobAction::Signal(_) => self.signal(&action, ranks, open),
            JobAction::Pause | JobAction::Resume => self.stop_or_go(action, ranks, open),
            JobAction::Terminate => {
                self.end_procs(&action, ranks, open, self.request.options.grace)
                    .await
            }
            JobAction::Kill => self.end_procs(&action, ranks, open, Duration::ZERO).await,
            JobAction::Restart { checkpoint } => {
                self.restart(checkpoint.clone(), ranks, open).await
            }
        }
    }

    fn signal(&self, action: &JobAction, ranks: BTreeSet<Rank>, mut open: OpenControl) {
        let Some(signal) = signal_of(action) else {
            return;
        };
        for rank in ranks {
            match self
                .running
                .get(&rank)
                .map(|group| reaper::try_signal_group(*group, signal))
            {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    open.not_done.push(RankNotDone::new(
                        rank,
                        code::PMIX_ERR_NO_PERMISSIONS,
                        &error.to_string(),
                    ));
                }
                None => open.not_done.extend(ended_already(action, rank)),
            }
        }
        open.answer();
    }

    fn stop_or_go(&mut self, action: JobAction, ranks: BTreeSet<Rank>, mut open: OpenControl) {
        let mut trees = Trees::new();
        for rank in ranks {
            match self
                .trees
                .get(&rank)
                .filter(|_| self.running.contains_key(&rank))
            {
                Some(_)
                    if self.terminations.is_terminating(rank)
                        || !matches!(self.ending, Ending::Not) =>
                {
                    open.not_done.push(RankNotDone::new(
                        rank,
                        code::PMIX_ERR_NOT_FOUND,
                        "its termination has been requested",
                    ));
                }
                Some(tree) => drop(trees.insert(rank, tree.clone())),
                None => open.not_done.extend(ended_already(&action, rank)),
            }
        }
        let reaper = self.reaper.clone();
        // A pause waits until the processes have stopped.
        self.pauses.spawn_blocking(move || {
            let refused = match action {
                JobAction::Pause => process_tree::pause(&trees, &reaper),
                _ => process_tree::resume(&trees, &reaper),
            };
            PauseResult { open, refused }
        });
    }

    /// Answers a request whose pause or resumption has finished, and begins the next ones.
    pub(super) async fn pause_done(&mut self, PauseResult { mut open, refused }: PauseResult) {
        let not_done = refused.into_iter().map(|(rank, reason)| RankNotDone {
            rank,
            status: code::PMIX_ERROR,
            reason,
        });
        open.not_done.extend(not_done);
        open.answer();
        if !matches!(self.ending, Ending::Not) {
            // The job began to end in the meantime. A paused process would not receive the
            // request to end.
            self.trees.values().for_each(Tree::thaw);
            self.signal_all(Signal::CONT);
        }
        self.begin_next().await;
    }

    /// Begins to end procs. If the end of all running procs is requested then, the job ends as it
    /// does by a signal to `peal`.
    async fn end_procs(
        &mut self,
        action: &JobAction,
        ranks: BTreeSet<Rank>,
        open: OpenControl,
        grace: Duration,
    ) {
        let Some(signal) = signal_of(action) else {
            return;
        };
        // The later request wins over a pending restart of the same procs.
        self.cancel_restarts(
            |rank| ranks.contains(&rank),
            "its termination has been requested",
        );
        let done =
            self.terminations
                .end(ranks, open, (&self.trees, &self.running), (signal, grace));
        done.into_iter().for_each(OpenControl::answer);
        if self.terminations.cover(&self.running) && matches!(self.ending, Ending::Not) {
            self.end.exit_status = ProcExit::Signalled(signal.as_raw()).exit_status();
            self.ends_because(code::PMIX_ERR_JOB_CANCELED);
            // The scans kill each proc at its own time, so the job needs no time of its own.
            self.ending = Ending::Controlled;
            self.cancel_restarts(|_| true, "its job ends");
        }
    }

    /// Begins to end procs that are started again afterwards. Procs that have ended before are
    /// started again, too.
    async fn restart(
        &mut self,
        checkpoint: Option<String>,
        ranks: BTreeSet<Rank>,
        mut open: OpenControl,
    ) {
        let mut ranks = match self.request.options.restart {
            RestartScope::Ranks => ranks,
            RestartScope::Job => (0..self.request.size()).map(Rank).collect(),
        };
        let ends = !matches!(self.ending, Ending::Not);
        for rank in ranks.extract_if(.., |rank| ends || self.terminations.is_terminating(*rank)) {
            let (status, why) = if self.terminations.restarts(rank) {
                (code::PMIX_ERR_RESOURCE_BUSY, "its restart is in progress")
            } else {
                (
                    code::PMIX_ERR_JOB_CANCELED,
                    "its termination has been requested",
                )
            };
            open.not_done.push(RankNotDone::new(rank, status, why));
        }
        for rank in &ranks {
            // Announced before the signal: from here on the server does not treat the end of the
            // connection as the loss of a proc.
            self.server
                .proc_restarts(self.proc(*rank), checkpoint.clone())
                .await;
        }
        open.restart = Some(Restart {
            ranks: ranks.clone(),
            checkpoint,
        });
        let how = (Signal::TERM, self.request.options.grace);
        let done = self
            .terminations
            .end(ranks, open, (&self.trees, &self.running), how);
        if let Some(open) = done {
            // No proc of the request has a process left: they are started at once.
            self.settle(open).await;
        }
    }

    /// Processes the result of a scan: cleans up behind procs without processes, and completes
    /// their requests.
    pub(super) async fn scan_done(&mut self, result: ScanResult) {
        let (over, done) = self.terminations.apply_scan(result);
        over.into_iter().for_each(|rank| self.clean_up_after(rank));
        for open in done {
            self.settle(open).await;
        }
    }

    /// Completes a request: starts the procs of a restart, then answers.
    async fn settle(&mut self, mut open: OpenControl) {
        if let Some(Restart { ranks, checkpoint }) = open.restart.take() {
            for rank in ranks {
                let proc = self.proc(rank);
                // Announced again: the old process may have connected once more while it ended.
                self.server
                    .proc_restarts(proc.clone(), checkpoint.clone())
                    .await;
                match self.spawn(rank, checkpoint.as_deref()) {
                    Ok(()) => {
                        let pids = self.running.get(&rank).map(|pid| (rank, *pid));
                        self.server
                            .procs_started(self.request.nspace.clone(), pids.into_iter().collect());
                        self.clear_abnormal_end(rank);
                    }
                    Err(error) => {
                        let reason = error.to_string();
                        tracing::warn!(%proc, reason, "proc restart failed");
                        open.not_done.push(RankNotDone {
                            rank,
                            status: code::PMIX_ERR_JOB_FAILED_TO_LAUNCH,
                            reason,
                        });
                        self.end.exit_status = if self.end.exit_status == 0 {
                            1
                        } else {
                            self.end.exit_status
                        };
                        // The server expects the restarted proc, and collectives would wait for it.
                        self.server.proc_ended(proc, None);
                        self.clean_up_after(rank);
                    }
                }
            }
            self.move_started_to_cgroups();
        }
        open.answer();
    }

    /// Removes the abnormal end of a restarted proc from the exit of the job.
    fn clear_abnormal_end(&mut self, rank: Rank) {
        if self
            .end
            .first_abnormal
            .as_ref()
            .is_some_and(|(proc, _)| proc.rank == rank)
        {
            self.end.first_abnormal = None;
            self.end.exit_status = 0;
        }
    }

    /// Cancels the restarts of the selected procs. Those without a process count as ended now.
    pub(super) fn cancel_restarts(&mut self, of: impl Fn(Rank) -> bool, because: &str) {
        for rank in self.terminations.cancel_restarts(of, because) {
            // A proc that still runs is reported when its process ends.
            if !self.running.contains_key(&rank) {
                self.server.proc_ended(self.proc(rank), None);
                self.clean_up_after(rank);
            }
        }
    }
}
