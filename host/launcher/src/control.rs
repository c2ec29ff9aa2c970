//! Job control on this node: requests to the procs of a job, and their results.
use super::{EmbeddedHostEnvironment, JobCommand, registered::RegisteredControl};
use peal_core::job_control::{JobAction, JobControl, NotDone};
use peal_model::{Nspace, Proc, Rank, Status, code};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of requests about procs of registered jobs in progress at once. Each takes a
/// thread.
pub(super) const MAX_REGISTERED_REQUESTS: usize = 64;

/// Maximum number of these requests about jobs of one user.
pub(super) const MAX_REGISTERED_REQUESTS_OF_USER: usize = 16;

/// Result of a request that has begun: the procs on which the action failed, once it has ended.
type PendingResult = oneshot::Receiver<Vec<RankNotDone>>;

impl EmbeddedHostEnvironment {
    /// Carries out an action on procs. Returns those on which it failed.
    pub(super) async fn control_procs(
        &self,
        JobControl {
            action, targets, ..
        }: JobControl,
    ) -> Vec<NotDone> {
        let mut by_job: BTreeMap<Nspace, BTreeSet<Rank>> = BTreeMap::new();
        for Proc { nspace, rank } in targets {
            by_job.entry(nspace).or_default().insert(rank);
        }
        // All jobs begin before the result of one is awaited, so that they proceed in parallel.
        let mut begun = Vec::new();
        for (job, ranks) in by_job {
            let answer = match self.jobs.find(&job) {
                Some(found) => begin(found.commands, &action, &ranks).await,
                None => self.control_registered(&job, &action, &ranks),
            };
            begun.push((answer, job, ranks));
        }
        let mut not_done = Vec::new();
        for (answer, job, ranks) in begun {
            let of_job = match answer {
                Some(answer) => answer
                    .await
                    // The task of the job dropped the sender: the job ended before the action.
                    .unwrap_or_else(|_| after_the_end(&action, ranks)),
                None => ranks.into_iter().map(not_started).collect(),
            };
            let named = |RankNotDone {
                             rank,
                             status,
                             reason,
                         }| {
                let proc = Proc::new(job.clone(), rank);
                NotDone {
                    proc,
                    status,
                    reason,
                }
            };
            not_done.extend(of_job.into_iter().map(named));
        }
        not_done
    }

    /// Begins an action on procs of a job that another launcher started, on another thread. Returns
    /// none if there is no such job.
    fn control_registered(
        &self,
        job: &Nspace,
        action: &JobAction,
        ranks: &BTreeSet<Rank>,
    ) -> Option<PendingResult> {
        let (listed, others) = self.table.registered(job)?;
        let (done, answer) = oneshot::channel();
        let Some(permit) = self.controls.try_take(listed.owner.uid) else {
            let busy = "too many requests about registered jobs are in progress";
            let refused = ranks
                .iter()
                .map(|rank| RankNotDone::new(*rank, code::PMIX_ERR_RESOURCE_BUSY, busy));
            // The receiver is returned below, so the send cannot fail.
            let _ = done.send(refused.collect());
            return Some(answer);
        };
        let action = action.clone();
        let ranks = ranks.clone();
        let control = RegisteredControl {
            owner: listed.owner,
            action,
            ranks,
            grace: self.grace,
            others,
        };
        let helper = self.helper.clone();
        // The action reads `/proc` and waits for processes, which blocks.
        tokio::task::spawn_blocking(move || {
            let not_done = listed
                .registered()
                .map(|procs| control.run(procs, &helper))
                .unwrap_or_default();
            // Released before the answer, so that the requester finds the permit free for its next
            // request.
            drop(permit);
            // The requester may have given up.
            let _ = done.send(not_done);
        });
        Some(answer)
    }
}

/// Sends an action to the task of a job that this launcher started. Returns none if the job has
/// ended.
async fn begin(
    commands: mpsc::Sender<JobCommand>,
    action: &JobAction,
    ranks: &BTreeSet<Rank>,
) -> Option<PendingResult> {
    let (done, answer) = oneshot::channel();
    let control = RankControl {
        action: action.clone(),
        ranks: ranks.clone(),
        done,
    };
    commands.send(JobCommand::Control(control)).await.ok()?;
    Some(answer)
}

/// Returns the failure of a proc of an unknown job.
fn not_started(rank: Rank) -> RankNotDone {
    RankNotDone {
        rank,
        status: code::PMIX_ERR_NOT_FOUND,
        reason: "no process was started for this proc".to_owned(),
    }
}

/// Action on procs of one job.
#[derive(Debug)]
pub(crate) struct RankControl {
    pub(crate) action: JobAction,
    pub(crate) ranks: BTreeSet<Rank>,
    /// Receives the procs on which the action failed, once it has ended.
    pub(crate) done: oneshot::Sender<Vec<RankNotDone>>,
}

/// Proc on which an action failed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RankNotDone {
    pub(crate) rank: Rank,
    pub(crate) status: Status,
    pub(crate) reason: String,
}

impl RankNotDone {
    pub(crate) fn new(rank: Rank, status: Status, reason: &str) -> RankNotDone {
        RankNotDone {
            rank,
            status,
            reason: reason.to_owned(),
        }
    }
}

/// Returns the signal with which an action begins.
pub(crate) fn signal_of(action: &JobAction) -> Option<Signal> {
    match action {
        JobAction::Terminate | JobAction::Restart { .. } => Some(Signal::TERM),
        JobAction::Kill => Some(Signal::KILL),
        JobAction::Signal(number) => Signal::from_named_raw(i32::from(*number)),
        // A pause may use the freezer instead of a signal.
        JobAction::Pause | JobAction::Resume => None,
    }
}

/// Returns the failures of an action on procs of a job that has ended.
pub(crate) fn after_the_end(action: &JobAction, ranks: BTreeSet<Rank>) -> Vec<RankNotDone> {
    ranks
        .into_iter()
        .filter_map(|rank| ended_already(action, rank))
        .collect()
}

/// Returns the failure of an action on a proc that has ended; none if the action was to end it.
pub(crate) fn ended_already(action: &JobAction, rank: Rank) -> Option<RankNotDone> {
    match action {
        JobAction::Terminate | JobAction::Kill => None,
        JobAction::Signal(_) | JobAction::Pause | JobAction::Resume | JobAction::Restart { .. } => {
            Some(RankNotDone::new(
                rank,
                code::PMIX_ERR_NOT_FOUND,
                "it has ended",
            ))
        }
    }
}

/// Request that has begun and is not done.
#[derive(Debug)]
pub(crate) struct OpenControl {
    /// Ranks with processes that still have to end.
    pub(crate) waits: BTreeSet<Rank>,
    pub(crate) not_done: Vec<RankNotDone>,
    pub(crate) done: oneshot::Sender<Vec<RankNotDone>>,
    /// Procs to start again after that.
    pub(crate) restart: Option<Restart>,
}

/// Procs to start again, from a checkpoint if one is named.
#[derive(Clone, Debug)]
pub(crate) struct Restart {
    pub(crate) ranks: BTreeSet<Rank>,
    pub(crate) checkpoint: Option<String>,
}

impl OpenControl {
    /// Creates a request that waits for no proc.
    pub(crate) fn of(done: oneshot::Sender<Vec<RankNotDone>>) -> OpenControl {
        OpenControl {
            waits: BTreeSet::new(),
            not_done: Vec::new(),
            done,
            restart: None,
        }
    }

    /// Sends the result to the requester.
    pub(crate) fn answer(self) {
        // The requester may have given up.
        let _ = self.done.send(self.not_done);
    }
}
