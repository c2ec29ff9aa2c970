//! Job control on this node: what procs of a job were asked to do, and when it has been done.
use super::stray;
use crate::host::JobControlled;
use peal_core::{job_control::JobAction, policy};
use peal_model::{DataArray, Info, KeyName, Proc, Rank, Status, Value, code, key};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// Under this key an answer says of a proc that it was not done to it, and why: an array of infos.
const OUTCOME: KeyName = KeyName("peal.jctrl.outcome");
/// In that array: the status that says so.
const STATUS: KeyName = KeyName("peal.jctrl.status");

/// An action for procs of one job.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) action: JobAction,
    pub(crate) ranks: BTreeSet<Rank>,
    /// Told when it has been done, and to whom it could not be.
    pub(crate) done: oneshot::Sender<Vec<NotDone>>,
}

/// A proc to which it could not be done.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct NotDone {
    pub(crate) rank: Rank,
    pub(crate) status: Status,
    pub(crate) reason: String,
}

/// The signal that an action begins with.
pub(crate) fn signal_of(action: JobAction) -> Option<Signal> {
    match action {
        JobAction::Terminate => Some(Signal::TERM),
        JobAction::Kill => Some(Signal::KILL),
        JobAction::Signal(number) => Signal::from_named_raw(i32::from(number)),
    }
}

/// What there is to say where nothing of the job is left.
pub(crate) fn after_the_end(action: JobAction, ranks: BTreeSet<Rank>) -> Vec<NotDone> {
    ranks.into_iter().filter_map(|rank| ended_already(action, rank)).collect()
}

/// Who has ended can be ended, but not be told anything.
fn ended_already(action: JobAction, rank: Rank) -> Option<NotDone> {
    match action {
        JobAction::Terminate | JobAction::Kill => None,
        JobAction::Signal(_) => {
            Some(NotDone { rank, status: code::PMIX_ERR_NOT_FOUND, reason: "it has ended".to_owned() })
        }
    }
}

/// What became of it all, for the requester.
pub(crate) fn report(targets: usize, not_done: Vec<(Proc, Status, String)>) -> JobControlled {
    let status = match not_done.first() {
        None => code::PMIX_SUCCESS,
        Some((_, status, _)) if not_done.len() >= targets => *status,
        Some(_) => code::PMIX_ERR_PARTIAL_SUCCESS,
    };
    let outcome = |(proc, status, why): (Proc, Status, String)| {
        let infos = [
            Info::new(key::PMIX_PROCID, Value::Proc(proc)),
            Info::new(STATUS, Value::Status(status)),
            policy::reason(why),
        ];
        Info::new(OUTCOME, Value::DataArray(DataArray::infos(infos)))
    };
    JobControlled { status, infos: not_done.into_iter().map(outcome).collect() }
}

/// A request that has begun and is not done.
#[derive(Debug)]
struct Open {
    ranks: BTreeSet<Rank>,
    not_done: Vec<NotDone>,
    done: oneshot::Sender<Vec<NotDone>>,
}

/// The procs of a job that were asked to end, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Controls {
    /// When each is killed that has not ended by then; never where it has been killed.
    asked: BTreeMap<Rank, Option<Instant>>,
    open: Vec<Open>,
}

impl Controls {
    /// Begins. `running` are the procs that run, with their process groups.
    pub(crate) fn begin(&mut self, control: Control, running: &BTreeMap<Rank, u32>, grace: Duration) {
        let Control { action, ranks, done } = control;
        let Some(signal) = signal_of(action) else { return };
        let mut open = Open { ranks: BTreeSet::new(), not_done: Vec::new(), done };
        for rank in ranks {
            match running.get(&rank).map(|group| send(*group, signal, action)) {
                Some(Ok(())) => drop(open.ranks.insert(rank)),
                Some(Err(error)) => {
                    let (status, reason) = (code::PMIX_ERR_NO_PERMISSIONS, error.to_string());
                    open.not_done.push(NotDone { rank, status, reason });
                }
                None => open.not_done.extend(ended_already(action, rank)),
            }
        }
        let kill_at = match action {
            JobAction::Signal(_) => {
                open.ranks.clear();
                return self.keep(open);
            }
            JobAction::Terminate => Some(Instant::now() + grace),
            JobAction::Kill => None,
        };
        for rank in &open.ranks {
            let at = self.asked.entry(*rank).or_insert(kill_at);
            // Of two times the earlier one holds, and who has been killed already needs none.
            *at = at.zip(kill_at).map(|(one, other)| one.min(other));
        }
        self.keep(open);
    }

    fn keep(&mut self, open: Open) {
        if open.ranks.is_empty() {
            // Who no longer waits need not be told.
            let _ = open.done.send(open.not_done);
        } else {
            self.open.push(open);
        }
    }

    /// Whether a proc has been asked to end.
    pub(crate) fn has_asked(&self, rank: Rank) -> bool {
        self.asked.contains_key(&rank)
    }

    /// A proc has ended.
    pub(crate) fn ended(&mut self, rank: Rank) {
        for mut open in std::mem::take(&mut self.open) {
            open.ranks.remove(&rank);
            self.keep(open);
        }
        self.asked.remove(&rank);
    }

    /// Whether these have all been asked to end.
    pub(crate) fn cover(&self, running: &BTreeMap<Rank, u32>) -> bool {
        running.keys().all(|rank| self.asked.contains_key(rank))
    }

    /// When the next proc is to be killed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.asked.values().flatten().min().copied()
    }

    /// Kills those whose time is over.
    pub(crate) fn kill_late(&mut self, running: &BTreeMap<Rank, u32>) {
        let now = Instant::now();
        for (rank, at) in self.asked.iter_mut().filter(|(_, at)| at.is_some_and(|at| at <= now)) {
            *at = None;
            if let Some(group) = running.get(rank) {
                stray::signal_group(*group, Signal::KILL);
            }
        }
    }
}

fn send(group: u32, signal: Signal, action: JobAction) -> rustix::io::Result<()> {
    stray::try_signal_group(group, signal)?;
    // A stopped process would not see the request.
    if action == JobAction::Terminate { stray::try_signal_group(group, Signal::CONT) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Nspace;

    #[test]
    fn the_report_tells_all_some_and_none_apart() {
        let failed = |rank| {
            let proc = Proc::new(Nspace::new("job").unwrap(), Rank(rank));
            (proc, code::PMIX_ERR_NOT_FOUND, "it has ended".to_owned())
        };
        assert_eq!(report(2, vec![]).status, code::PMIX_SUCCESS);
        assert_eq!(report(2, vec![failed(1)]).status, code::PMIX_ERR_PARTIAL_SUCCESS);
        let none = report(2, vec![failed(0), failed(1)]);
        assert_eq!((none.status, none.infos.len()), (code::PMIX_ERR_NOT_FOUND, 2));
    }
}
