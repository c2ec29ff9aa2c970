//! Lost connections, reported together: the failure of a node raises one event, not one for each
//! proc.
use super::EventDelivery;
use crate::{
    MonotonicTime,
    server::{Action, EventOrigin, ServerContext},
    user_scope::UserScope,
};
use peal_model::{Event, Info, Nspace, Proc, Range, Value, code, key};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, mem, sync::Arc};

/// Maximum number of procs in one event.
const TOGETHER: usize = 1024;

/// Lost procs that no event has reported yet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Losses {
    /// Time of the next event, if any proc is lost.
    due: Option<MonotonicTime>,
    by_job: BTreeMap<Nspace, Vec<Proc>>,
}

impl Losses {
    /// Returns the time of the next event.
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

impl EventDelivery {
    /// Records the loss of a proc that had not finalized. The event follows at the end of the loss
    /// window, which the first loss opens.
    pub(in crate::server) fn lose(
        &mut self,
        ctx: ServerContext<'_>,
        proc: &Proc,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.losses
            .add(proc, now + ctx.settings.connection_loss_window);
        self.report_due_losses(ctx, now)
    }

    /// Raises the event if the loss window is over.
    pub(in crate::server) fn report_due_losses(
        &mut self,
        ctx: ServerContext<'_>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        if self.losses.due.is_some_and(|due| due <= now) {
            self.report_losses(ctx)
        } else {
            Vec::new()
        }
    }

    /// Raises the events for all pending losses, as before a server stops.
    pub(in crate::server) fn report_losses(&mut self, ctx: ServerContext<'_>) -> Vec<Action> {
        let lost = mem::take(&mut self.losses).by_job;
        lost.into_values()
            .flat_map(|procs| loss_actions(ctx, &procs))
            .collect()
    }

    /// Raises the events for the pending losses of one job. Must precede the job's removal, because
    /// the owner is unknown afterwards.
    pub(in crate::server) fn report_losses_of(
        &mut self,
        ctx: ServerContext<'_>,
        nspace: &Nspace,
    ) -> Vec<Action> {
        let lost = self.losses.take_job(nspace);
        loss_actions(ctx, &lost)
    }

    /// Forgets the pending losses of a job.
    pub(in crate::server) fn drop_losses_of(&mut self, nspace: &Nspace) {
        self.losses.take_job(nspace);
    }
}

/// Runs the chains for lost procs. The host environment has its upcalls already. Other procs
/// are notified when the host environment knows how each proc ended.
fn loss_actions(ctx: ServerContext<'_>, procs: &[Proc]) -> Vec<Action> {
    let tell = |procs: &[Proc]| {
        // All of these procs are of one job, and so of one user.
        let reach = UserScope::of(procs.first().and_then(|proc| ctx.clients.identity(proc)));
        Action::Chain {
            event: Arc::new(lost_connections(procs)),
            origin: EventOrigin::ThisServer,
            reach,
            allowance: ctx.settings.allowance,
        }
    };
    procs.chunks(TOGETHER).map(tell).collect()
}

/// Returns the event for lost procs. A single proc is the source of its own loss, as in OpenPMIx's
/// server; several have no source.
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
        // Without a source, the range means the jobs of the affected procs.
        range: Range::Namespace,
        infos: vec![affected],
    }
}
