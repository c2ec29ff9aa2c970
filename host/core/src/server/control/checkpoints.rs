//! Checkpoints and preemptions: procs are notified and waited for.
use super::{ControlContext, JobControlRequests};
use crate::{
    MonotonicTime,
    job_control::{
        self, Checkpoint, CheckpointMethod, ControlId, ControlPart, Declared, JobAction,
        JobControl, JobControlEnd, JobControlError, JobControlOperation, LedgerEntry, NotDone,
        PendingWork, RequestStage, STATUS, ServerCheckpoint, Trigger,
    },
    policy::REASON,
    server::{Action, EventDelivery, ServerContext, Upcall},
};
use peal_model::{Info, Infos, Proc, Value, code, key};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// A checkpoint that has not begun.
#[derive(Debug)]
pub(in crate::server) struct PlannedCheckpoint {
    pub(in crate::server) name: String,
    /// The methods of each proc, in the order in which they are tried.
    pub(in crate::server) methods: BTreeMap<Proc, VecDeque<CheckpointMethod>>,
    /// True if some targets of a preemption can make none.
    pub(in crate::server) unprepared: bool,
    pub(in crate::server) timeout: Duration,
    /// The time at which procs that have not reported have failed.
    pub(in crate::server) deadline: MonotonicTime,
}

impl PlannedCheckpoint {
    /// Plans the checkpoint of an operation, which may be the first part of a preemption.
    ///
    /// # Errors
    ///
    /// Fails if a proc can make no checkpoint, or must not be preempted.
    pub(super) fn new(
        ctx: ServerContext<'_>,
        declared: &Declared,
        operation: &JobControlOperation,
        targets: &[Proc],
        id: ControlId,
        now: MonotonicTime,
    ) -> Result<PlannedCheckpoint, JobControlError> {
        let declared = declared.of(targets);
        let mut methods: BTreeMap<Proc, VecDeque<CheckpointMethod>> = declared
            .iter()
            .map(|(proc, declared)| {
                let methods = declared.methods.iter().flatten();
                (proc.clone(), methods.copied().collect())
            })
            .collect();
        let (name, timeout) = match operation {
            JobControlOperation::Checkpoint(order) => {
                if let Some(method) = order.method {
                    methods
                        .values_mut()
                        .for_each(|methods| *methods = VecDeque::from([method]));
                }
                // Such a proc could neither be asked nor ever report.
                if let Some((proc, _)) = methods.iter().find(|(_, methods)| methods.is_empty()) {
                    return Err(JobControlError::NoMethod(proc.clone()));
                }
                let timeout = order.timeout.unwrap_or(ctx.settings.checkpoint_timeout);
                (order.checkpoint.clone(), timeout)
            }
            JobControlOperation::Preempt(order) => {
                let mut procs = declared.iter();
                if let Some((proc, _)) = procs.find(|(_, of)| of.preemptible != Some(true)) {
                    return Err(JobControlError::NotPreemptible(proc.clone()));
                }
                // Procs without a method get the alert and the grace period only.
                methods.retain(|_, methods| !methods.is_empty());
                // The time alone is the same for two preemptions within one millisecond.
                let name = format!("preempt-{}-{}", now.0, id.0);
                (name, order.grace.unwrap_or(ctx.settings.preempt_grace))
            }
            JobControlOperation::Act(_) | JobControlOperation::Provision { .. } => {
                return Err(JobControlError::Nothing);
            }
        };
        let unprepared = methods.len() < targets.len();
        Ok(PlannedCheckpoint {
            name,
            methods,
            unprepared,
            timeout,
            deadline: now + timeout,
        })
    }

    /// Plans a checkpoint that another server has ordered.
    pub(super) fn of_order(order: ServerCheckpoint, now: MonotonicTime) -> PlannedCheckpoint {
        PlannedCheckpoint {
            methods: order.methods(),
            name: order.name,
            unprepared: false,
            timeout: order.timeout,
            deadline: now + order.timeout,
        }
    }

    /// Takes out the part of these procs, and returns their methods.
    pub(in crate::server) fn take<'a>(
        &mut self,
        procs: impl IntoIterator<Item = &'a Proc>,
    ) -> BTreeMap<Proc, VecDeque<CheckpointMethod>> {
        let taken = procs.into_iter();
        taken
            .filter_map(|proc| self.methods.remove_entry(proc))
            .collect()
    }
}

impl JobControlRequests {
    /// Plans a checkpoint by what was declared here.
    pub(in crate::server) fn plan(
        &self,
        ctx: ServerContext<'_>,
        operation: &JobControlOperation,
        targets: &[Proc],
        now: MonotonicTime,
    ) -> Result<PlannedCheckpoint, JobControlError> {
        let next = self.ledger.next_id();
        PlannedCheckpoint::new(ctx, &self.declared, operation, targets, next, now)
    }

    /// Begins a checkpoint, or the checkpoint that precedes a preemption, of procs of this node.
    pub(in crate::server) fn checkpoint(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        given: ControlContext,
        operation: JobControlOperation,
        targets: Vec<Proc>,
        planned: PlannedCheckpoint,
    ) -> Result<Vec<Action>, JobControlError> {
        let id = self.accept(ctx.clients, given, operation, targets)?;
        Ok(self.begin_checkpoint(ctx, events, id, planned))
    }

    /// Begins the part of this node in a checkpoint: procs are notified by their methods and waited
    /// for. All targets of a preemption receive an alert first.
    pub(super) fn begin_checkpoint(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        planned: PlannedCheckpoint,
    ) -> Vec<Action> {
        let PlannedCheckpoint {
            name,
            methods,
            unprepared,
            timeout,
            deadline,
        } = planned;
        let (checkpoint, triggers) =
            Checkpoint::begin(name, methods, |proc| ctx.clients.has_ended(proc), deadline);
        let alerted = self.ledger.change(id, |entry| {
            let is_preemption = matches!(entry.operation, JobControlOperation::Preempt(_));
            entry.stage = RequestStage::Running(if is_preemption {
                PendingWork::Grace {
                    checkpoint,
                    unprepared,
                }
            } else {
                PendingWork::Checkpoint(checkpoint)
            });
            is_preemption.then(|| entry.targets.all())
        });
        let mut actions = self.reply_accepted(id);
        if let Some(targets) = alerted.flatten() {
            let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
            let more = vec![Info::new(job_control::GRACE, Value::Uint32(seconds))];
            let alert = code::PMIX_JCTRL_PREEMPT_ALERT;
            actions.extend(self.raise_everywhere(ctx, events, id, alert, &targets, more));
        }
        actions.extend(self.request_checkpoints(ctx, events, id, triggers));
        // All targets may have ended before, or none may make a checkpoint; then no report would
        // continue the request.
        actions.extend(self.advance_control(ctx, events, id));
        actions
    }

    /// Requests checkpoints from procs by their declared methods.
    pub(super) fn request_checkpoints(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        triggers: Vec<Trigger>,
    ) -> Vec<Action> {
        let Some(entry) = self.ledger.get(id) else {
            return Vec::new();
        };
        let source = entry.requester.clone();
        let Some(name) = entry.checkpoint().map(|checkpoint| checkpoint.name.clone()) else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        for Trigger { method, procs } in triggers {
            match method {
                CheckpointMethod::Event(code) => {
                    let more = vec![Info::new(
                        key::PMIX_JOB_CTRL_CHECKPOINT,
                        Value::string(&name),
                    )];
                    actions.extend(self.raise_here(ctx, events, id, code, &procs, more));
                }
                CheckpointMethod::Signal(number) => {
                    let control = entry.control(JobAction::Signal(number), procs);
                    // `controlled` gets the answer, and moves procs that were not reached to their
                    // next method.
                    actions.push(Action::Upcall(Upcall::JobControl {
                        id: id.part(ControlPart::CheckpointSignal),
                        source: source.clone(),
                        control,
                    }));
                }
            }
        }
        actions
    }

    /// Handles the report of a proc that its checkpoint is made or failed.
    pub(in crate::server) fn checkpointed(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        proc: &Proc,
        infos: &[Info],
    ) -> Vec<Action> {
        // A report that names neither is for all checkpoints that wait for the proc.
        let named = [key::PMIX_JOB_CTRL_CHECKPOINT, key::PMIX_JOB_CTRL_ID];
        let names = named.map(|key| infos.value_of(key).and_then(Value::as_str));
        let status = match infos.value_of(STATUS) {
            Some(value) => value.as_status().unwrap_or(code::PMIX_ERROR),
            None => code::PMIX_SUCCESS,
        };
        let reason = infos.value_of(REASON).and_then(Value::as_str);
        let awaiting = self.ledger.awaiting(proc);
        let is_meant = |id: &ControlId| {
            let entry = self.ledger.get(*id);
            entry
                .and_then(|entry| Some((entry, entry.checkpoint()?)))
                .is_some_and(|(entry, checkpoint)| {
                    names[0].is_none_or(|name| name == checkpoint.name)
                        && names[1].is_none_or(|name| name == entry.name)
                })
        };
        let meant: Vec<ControlId> = awaiting.into_iter().filter(is_meant).collect();
        self.each_checkpoint(ctx, events, meant, |entry| {
            if let Some(checkpoint) = entry.checkpoint_mut() {
                checkpoint.record_report(proc, status, reason);
            }
        })
    }

    /// Stops waiting for the checkpoint of a proc that has ended.
    pub(in crate::server) fn checkpoint_lost(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        proc: &Proc,
    ) -> Vec<Action> {
        let awaiting = self.ledger.awaiting(proc);
        self.each_checkpoint(ctx, events, awaiting, |entry| {
            if let Some(checkpoint) = entry.checkpoint_mut() {
                checkpoint.lost(proc);
            }
        })
    }

    /// Expires checkpoints that are past their deadline.
    pub(in crate::server) fn expire(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let late = self.ledger.late(now);
        self.each_checkpoint(ctx, events, late, |entry| entry.expire(now))
    }

    fn each_checkpoint(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        of: Vec<ControlId>,
        mut change: impl FnMut(&mut LedgerEntry),
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for id in of {
            self.ledger.change(id, &mut change);
            actions.extend(self.advance_control(ctx, events, id));
        }
        actions
    }

    /// Continues a request if it waits for no proc and no server any more.
    pub(super) fn advance_control(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
    ) -> Vec<Action> {
        let next = self.ledger.change(id, |entry| {
            if entry.awaits_servers {
                return None;
            }
            match &entry.stage {
                RequestStage::Running(PendingWork::Elsewhere) => Some(NextStep::End),
                RequestStage::Running(PendingWork::Checkpoint(checkpoint))
                    if checkpoint.is_over() =>
                {
                    entry.not_done.extend_from_slice(checkpoint.failed());
                    Some(NextStep::End)
                }
                RequestStage::Running(PendingWork::Grace {
                    checkpoint,
                    unprepared: false,
                }) if checkpoint.is_over() => {
                    // A failed checkpoint does not stop a preemption; the data are lost.
                    let failed = checkpoint.failed().iter().map(NotDone::info);
                    entry.infos.extend(failed);
                    entry.preempt()
                }
                _ => None,
            }
        });
        match next.flatten() {
            Some(NextStep::End) => self.end_by_result(ctx, events, id),
            Some(NextStep::Control(control)) => {
                let source = self
                    .ledger
                    .get(id)
                    .and_then(|entry| entry.requester.clone());
                vec![Action::Upcall(Upcall::JobControl {
                    id: id.part(ControlPart::Action),
                    source,
                    control,
                })]
            }
            Some(NextStep::Launcher) => self.ask_launcher(id).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Ends a request by what is not done.
    fn end_by_result(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
    ) -> Vec<Action> {
        let is_done = self
            .ledger
            .get(id)
            .is_some_and(|entry| entry.not_done.is_empty());
        let end = if is_done {
            JobControlEnd::Done
        } else {
            JobControlEnd::Failed
        };
        self.end(ctx, events, id, end)
    }
}

/// The step that follows the wait.
enum NextStep {
    End,
    /// The host environment controls procs of this node.
    Control(JobControl),
    /// The launcher is asked to control procs of several nodes.
    Launcher,
}

impl LedgerEntry {
    /// Begins the action of a preemption whose procs are prepared.
    fn preempt(&mut self) -> Option<NextStep> {
        let JobControlOperation::Preempt(order) = &self.operation else {
            return None;
        };
        let action = order.action.clone();
        if self.targets.elsewhere.is_empty() {
            self.stage = RequestStage::Running(PendingWork::Host);
            Some(NextStep::Control(
                self.control(action, self.targets.local.clone()),
            ))
        } else {
            let operation = JobControlOperation::Act(action);
            self.stage = RequestStage::Running(PendingWork::Launcher(operation));
            Some(NextStep::Launcher)
        }
    }
}
