//! State of a checkpoint in progress: the procs that have not reported it, and the remaining
//! methods to request it from each.
use super::{CheckpointMethod, NotDone};
use crate::MonotonicTime;
use peal_model::{Proc, Status, code};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// A checkpoint in progress.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// The name of the checkpoint.
    pub(crate) name: String,
    /// The time at which procs that have not reported have failed.
    pub(crate) deadline: MonotonicTime,
    /// Procs that have not reported, with the methods that remain if the current one is not
    /// possible.
    waiting: BTreeMap<Proc, VecDeque<CheckpointMethod>>,
    failed: Vec<NotDone>,
}

/// Procs from which the checkpoint is requested by one method.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trigger {
    pub(crate) method: CheckpointMethod,
    pub(crate) procs: Vec<Proc>,
}

impl Checkpoint {
    /// Begins a checkpoint with the methods of each proc, in the order in which they are tried.
    /// Procs that have ended have failed.
    pub(crate) fn begin(
        name: String,
        procs: BTreeMap<Proc, VecDeque<CheckpointMethod>>,
        has_ended: impl Fn(&Proc) -> bool,
        deadline: MonotonicTime,
    ) -> (Checkpoint, Vec<Trigger>) {
        let mut checkpoint = Checkpoint {
            name,
            deadline,
            waiting: procs,
            failed: Vec::new(),
        };
        let ended: Vec<Proc> = checkpoint
            .waiting
            .keys()
            .filter(|proc| has_ended(proc))
            .cloned()
            .collect();
        // Ended procs fail first, so that nothing is requested from them.
        ended.iter().for_each(|proc| checkpoint.lost(proc));
        let all: Vec<Proc> = checkpoint.waiting.keys().cloned().collect();
        let triggers = checkpoint.next_for(all.iter().map(|proc| (proc, None)));
        (checkpoint, triggers)
    }

    /// Moves procs that could not be reached on to their next method. Procs without another method
    /// have failed.
    pub(crate) fn try_next_methods(&mut self, not_done: &[NotDone]) -> Vec<Trigger> {
        self.next_for(
            not_done
                .iter()
                .map(|not_done| (&not_done.proc, Some(not_done))),
        )
    }

    fn next_for<'a>(
        &mut self,
        procs: impl Iterator<Item = (&'a Proc, Option<&'a NotDone>)>,
    ) -> Vec<Trigger> {
        let mut procs_by_method: BTreeMap<CheckpointMethod, Vec<Proc>> = BTreeMap::new();
        for (proc, why) in procs {
            // The proc has reported or ended in the meantime.
            let Some(left) = self.waiting.get_mut(proc) else {
                continue;
            };
            match left.pop_front() {
                Some(method) => procs_by_method
                    .entry(method)
                    .or_default()
                    .push(proc.clone()),
                None => {
                    // `begin` has at least one method for each proc, so there is a reason.
                    self.waiting.remove(proc);
                    self.failed.extend(why.cloned());
                }
            }
        }
        procs_by_method
            .into_iter()
            .map(|(method, procs)| Trigger { method, procs })
            .collect()
    }

    /// Returns true if a proc has not reported.
    pub(crate) fn awaits(&self, proc: &Proc) -> bool {
        self.waiting.contains_key(proc)
    }

    /// Records a proc's report of success or failure.
    pub(crate) fn record_report(&mut self, proc: &Proc, status: Status, reason: Option<&str>) {
        // A repeated or late report changes nothing.
        if self.waiting.remove(proc).is_some() && status != code::PMIX_SUCCESS {
            let reason = reason.unwrap_or("the checkpoint failed").to_owned();
            self.failed.push(NotDone {
                proc: proc.clone(),
                status,
                reason,
            });
        }
    }

    /// Records the end of a proc.
    pub(crate) fn lost(&mut self, proc: &Proc) {
        if self.waiting.remove(proc).is_some() {
            let reason = "the proc ended before its checkpoint was made".to_owned();
            self.failed.push(NotDone {
                proc: proc.clone(),
                status: code::PMIX_ERR_NOT_FOUND,
                reason,
            });
        }
    }

    /// Records the failure of all procs that have not reported by the deadline.
    pub(crate) fn expire(&mut self, now: MonotonicTime) {
        if now >= self.deadline {
            let late = std::mem::take(&mut self.waiting).into_keys();
            let reason = "the proc did not report its checkpoint in time";
            self.failed
                .extend(NotDone::each(late, code::PMIX_ERR_TIMEOUT, reason));
        }
    }

    /// Returns true if no report is awaited any more.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the procs that failed.
    pub(crate) fn failed(&self) -> &[NotDone] {
        &self.failed
    }
}
