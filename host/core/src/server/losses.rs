//! Connections that were lost, told of together: of a node that fails everybody hears once, and not of each proc.
use super::{Action, ServerState};
use crate::{MonotonicTime, user_scope::UserScope};
use peal_model::{Event, Info, Nspace, Proc, Range, Value, code, key};
use std::{collections::BTreeMap, mem, sync::Arc};

/// How many procs one event names.
const TOGETHER: usize = 1024;

/// Procs whose loss has not been told.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// When they are told of, if there are any.
    due: Option<MonotonicTime>,
    by_job: BTreeMap<Nspace, Vec<Proc>>,
}

impl Losses {
    /// When something is to be told.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.due
    }

    fn add(&mut self, proc: &Proc, due: MonotonicTime) {
        self.due.get_or_insert(due);
        self.by_job
            .entry(proc.nspace.clone())
            .or_default()
            .push(proc.clone());
    }

    pub(super) fn take_job(&mut self, nspace: &Nspace) -> Vec<Proc> {
        let taken = self.by_job.remove(nspace).unwrap_or_default();
        if self.by_job.is_empty() {
            self.due = None;
        }
        taken
    }
}

impl ServerState {
    /// A proc is gone without having left in order: it is told of when the window that its loss opened is over, or the one
    /// that was open.
    pub(super) fn lose(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<Action> {
        self.losses
            .add(proc, now + self.settings.connection_loss_window);
        self.told_losses(now)
    }

    /// What is due of what was lost.
    pub(super) fn told_losses(&mut self, now: MonotonicTime) -> Vec<Action> {
        if self.losses.due.is_some_and(|due| due <= now) {
            self.tell_losses()
        } else {
            Vec::new()
        }
    }

    /// Tells of all losses that were not told of yet, as before a server ends.
    pub fn tell_losses(&mut self) -> Vec<Action> {
        let lost = mem::take(&mut self.losses).by_job;
        lost.into_values()
            .flat_map(|procs| self.lost_together(&procs))
            .collect()
    }

    /// The same of one job, before it is removed: nobody would know then whose it was.
    pub fn tell_losses_of(&mut self, nspace: &Nspace) -> Vec<Action> {
        let lost = self.losses.take_job(nspace);
        self.lost_together(&lost)
    }

    /// The host has been told, and its handlers see it; the other procs hear of it when the host knows how each proc ended.
    fn lost_together(&self, procs: &[Proc]) -> Vec<Action> {
        let tell = |procs: &[Proc]| {
            let reach = UserScope::of(procs.first().and_then(|proc| self.identity(proc)));
            Action::Chain {
                event: Arc::new(lost_connections(procs)),
                reach,
                allowance: self.settings.allowance,
            }
        };
        procs.chunks(TOGETHER).map(tell).collect()
    }
}

/// One proc is the source of its own loss, as in the C library's server; of several none is.
fn lost_connections(procs: &[Proc]) -> Event {
    let (source, affected) = match procs {
        [one] => (
            Some(one.clone()),
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(one.clone())),
        ),
        many => (
            None,
            Info::new(
                key::PMIX_EVENT_AFFECTED_PROCS,
                Value::procs(many.iter().cloned()),
            ),
        ),
    };
    Event {
        code: code::PMIX_ERR_LOST_CONNECTION,
        source,
        range: Range::Namespace,
        infos: vec![affected],
    }
}
