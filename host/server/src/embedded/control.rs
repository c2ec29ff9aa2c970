//! Job control on this node: what procs of a job were asked to do, and when it has been done.
use peal_core::job_control::JobAction;
use peal_model::{Rank, Status, code};
use rustix::process::Signal;
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// An action for procs of one job.
#[derive(Debug)]
pub(crate) struct Control {
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
        RankNotDone { rank, status, reason: reason.to_owned() }
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
    ranks.into_iter().filter_map(|rank| ended_already(action, rank)).collect()
}

/// Who has ended can be ended, but not be told anything.
pub(crate) fn ended_already(action: &JobAction, rank: Rank) -> Option<RankNotDone> {
    match action {
        JobAction::Terminate | JobAction::Kill => None,
        JobAction::Signal(_) | JobAction::Pause | JobAction::Resume | JobAction::Restart { .. } => {
            Some(RankNotDone::new(rank, code::PMIX_ERR_NOT_FOUND, "it has ended"))
        }
    }
}

/// A request that has begun and is not done.
#[derive(Debug)]
pub(crate) struct Open {
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

impl Open {
    /// One that waits for nobody.
    pub(crate) fn of(done: oneshot::Sender<Vec<RankNotDone>>) -> Open {
        Open { waits: BTreeSet::new(), not_done: Vec::new(), done, restart: None }
    }

    /// Tells whoever asked.
    pub(crate) fn answer(self) {
        // Who no longer waits need not be told.
        let _ = self.done.send(self.not_done);
    }
}
