//! A checkpoint on its way: which procs are to make it, how each is told, and who has not said yet that it is made.
use super::{CheckpointMethod, NotDone};
use crate::MonotonicTime;
use peal_model::{Proc, Status, code};
use std::collections::{BTreeMap, VecDeque};

/// A checkpoint that is being made.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// What it is called.
    pub(crate) name: String,
    /// When whoever has not made it has failed.
    pub(crate) deadline: MonotonicTime,
    /// Who has not, and the methods that are left should the one in use not be possible.
    waiting: BTreeMap<Proc, VecDeque<CheckpointMethod>>,
    failed: Vec<NotDone>,
}

/// Procs that are to be told in one way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trigger {
    pub(crate) method: CheckpointMethod,
    pub(crate) procs: Vec<Proc>,
}

impl Checkpoint {
    /// Begins, with the methods of each proc, the first of which is tried first. Who has ended has failed.
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
        ended.iter().for_each(|proc| checkpoint.lost(proc));
        let all: Vec<Proc> = checkpoint.waiting.keys().cloned().collect();
        let triggers = checkpoint.next_for(all.iter().map(|proc| (proc, None)));
        (checkpoint, triggers)
    }

    /// Procs could not be told in the way that was tried: how they are told next. Who has no other way has failed.
    pub(crate) fn could_not_be_told(&mut self, not_done: &[NotDone]) -> Vec<Trigger> {
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
        let mut told: BTreeMap<CheckpointMethod, Vec<Proc>> = BTreeMap::new();
        for (proc, why) in procs {
            let Some(left) = self.waiting.get_mut(proc) else {
                continue;
            };
            match left.pop_front() {
                Some(method) => told.entry(method).or_default().push(proc.clone()),
                None => {
                    self.waiting.remove(proc);
                    self.failed.extend(why.cloned());
                }
            }
        }
        told.into_iter()
            .map(|(method, procs)| Trigger { method, procs })
            .collect()
    }

    /// Whether this proc is still to make it.
    pub(crate) fn awaits(&self, proc: &Proc) -> bool {
        self.waiting.contains_key(proc)
    }

    /// A proc says that it has made it, or why it could not.
    pub(crate) fn told_by(&mut self, proc: &Proc, status: Status, reason: Option<&str>) {
        if self.waiting.remove(proc).is_some() && status != code::PMIX_SUCCESS {
            let reason = reason.unwrap_or("it could not make it").to_owned();
            self.failed.push(NotDone {
                proc: proc.clone(),
                status,
                reason,
            });
        }
    }

    /// A proc is gone.
    pub(crate) fn lost(&mut self, proc: &Proc) {
        if self.waiting.remove(proc).is_some() {
            let reason = "it ended before it had made it".to_owned();
            self.failed.push(NotDone {
                proc: proc.clone(),
                status: code::PMIX_ERR_NOT_FOUND,
                reason,
            });
        }
    }

    /// Time is over for those who have not made it by now.
    pub(crate) fn expire(&mut self, now: MonotonicTime) {
        if now >= self.deadline {
            let late = std::mem::take(&mut self.waiting).into_keys();
            let reason = "it did not say in time that it had made it";
            self.failed.extend(late.map(|proc| NotDone {
                proc,
                status: code::PMIX_ERR_TIMEOUT,
                reason: reason.to_owned(),
            }));
        }
    }

    /// Whether nobody is waited for any more.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Who failed.
    pub(crate) fn failed(&self) -> &[NotDone] {
        &self.failed
    }
}
