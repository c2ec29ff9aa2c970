//! Job control on this node: what procs of a job were asked to do, and when it has been done.
use super::{EmbeddedHostEnvironment, JobCommand, registered::RegisteredControl};
use peal_core::job_control::{JobAction, JobControl, NotDone};
use peal_model::{Nspace, Proc, Rank, Status, code};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::{mpsc, oneshot};

/// How many requests about procs of registered jobs may be under way at once: each takes a thread.
pub(super) const REGISTERED: usize = 64;

/// An answer that comes when it has been done, with those to whom it could not be.
type Begun = oneshot::Receiver<Vec<RankNotDone>>;

impl EmbeddedHostEnvironment {
    /// Controls procs, and says to whom it could not be done.
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
        // All of them begin before any is waited for.
        let mut begun = Vec::new();
        for (job, ranks) in by_job {
            let answer = match self.kin.find(&job) {
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

    /// Controls procs of a job that others started, on another thread; none where there is no such job.
    fn control_registered(
        &self,
        job: &Nspace,
        action: &JobAction,
        ranks: &BTreeSet<Rank>,
    ) -> Option<Begun> {
        let (listed, others) = self.table.registered(job)?;
        let (done, answer) = oneshot::channel();
        let Ok(permit) = self.controls.clone().try_acquire_owned() else {
            let busy = "too many requests about registered jobs are under way";
            let refused = ranks
                .iter()
                .map(|rank| RankNotDone::new(*rank, code::PMIX_ERR_RESOURCE_BUSY, busy));
            // Whoever no longer waits need not be told.
            let _ = done.send(refused.collect());
            return Some(answer);
        };
        let (action, ranks) = (action.clone(), ranks.clone());
        let control = RegisteredControl {
            owner: listed.owner,
            action,
            ranks,
            grace: self.grace,
            others,
        };
        tokio::task::spawn_blocking(move || {
            let not_done = listed
                .registered()
                .map(|procs| control.run(procs))
                .unwrap_or_default();
            drop(permit);
            let _ = done.send(not_done);
        });
        Some(answer)
    }
}

async fn begin(
    commands: mpsc::Sender<JobCommand>,
    action: &JobAction,
    ranks: &BTreeSet<Rank>,
) -> Option<Begun> {
    let (done, answer) = oneshot::channel();
    let control = RankControl {
        action: action.clone(),
        ranks: ranks.clone(),
        done,
    };
    commands.send(JobCommand::Control(control)).await.ok()?;
    Some(answer)
}

fn not_started(rank: Rank) -> RankNotDone {
    RankNotDone {
        rank,
        status: code::PMIX_ERR_NOT_FOUND,
        reason: "no process was started for it here".to_owned(),
    }
}

/// An action for procs of one job.
#[derive(Debug)]
pub(crate) struct RankControl {
    pub(crate) action: JobAction,
    pub(crate) ranks: BTreeSet<Rank>,
    /// Told when it has been done, and to whom it could not be.
    pub(crate) done: oneshot::Sender<Vec<RankNotDone>>,
}

/// A proc to which it could not be done.
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

/// The signal that an action begins with.
pub(crate) fn signal_of(action: &JobAction) -> Option<Signal> {
    match action {
        JobAction::Terminate | JobAction::Restart { .. } => Some(Signal::TERM),
        JobAction::Kill => Some(Signal::KILL),
        JobAction::Signal(number) => Signal::from_named_raw(i32::from(*number)),
        JobAction::Pause | JobAction::Resume => None,
    }
}

/// What there is to say where nothing of the job is left.
pub(crate) fn after_the_end(action: &JobAction, ranks: BTreeSet<Rank>) -> Vec<RankNotDone> {
    ranks
        .into_iter()
        .filter_map(|rank| ended_already(action, rank))
        .collect()
}

/// Who has ended can be ended, but not be told anything.
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

/// A request that has begun and is not done.
#[derive(Debug)]
pub(crate) struct OpenControl {
    /// Of whom something still runs that is to end.
    pub(crate) waits: BTreeSet<Rank>,
    pub(crate) not_done: Vec<RankNotDone>,
    pub(crate) done: oneshot::Sender<Vec<RankNotDone>>,
    /// Who is to be started again then.
    pub(crate) restart: Option<Restart>,
}

/// Who is to be started again.
#[derive(Clone, Debug)]
pub(crate) struct Restart {
    pub(crate) ranks: BTreeSet<Rank>,
    pub(crate) checkpoint: Option<String>,
}

impl OpenControl {
    /// One that waits for nobody.
    pub(crate) fn of(done: oneshot::Sender<Vec<RankNotDone>>) -> OpenControl {
        OpenControl {
            waits: BTreeSet::new(),
            not_done: Vec::new(),
            done,
            restart: None,
        }
    }

    /// Tells whoever asked.
    pub(crate) fn answer(self) {
        // Who no longer waits need not be told.
        let _ = self.done.send(self.not_done);
    }
}
