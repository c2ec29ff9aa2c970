//! Checkpoints and preemptions: procs are notified and waited for.
use super::{ControlContext, JobControlRequests};
use crate::{
    MonotonicTime,
    job_control::{
        self, Checkpoint, CheckpointMethod, CheckpointOrder, ControlId, ControlReply, JobAction,
        JobControl, JobControlEnd, JobControlError, JobControlOperation, LedgerEntry, NotDone,
        PendingWork, RequestStage, STATUS, Trigger,
    },
    policy::REASON,
    server::{Action, EventDelivery, ServerContext, Upcall},
};
use peal_model::{Info, Infos, Proc, Value, code, key};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

impl JobControlRequests {
    /// Begins a checkpoint: procs are notified by their methods and waited for.
    pub(in crate::server) fn checkpoint(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        given: ControlContext,
        order: CheckpointOrder,
        targets: Vec<Proc>,
    ) -> Result<Vec<Action>, JobControlError> {
        let methods_of = |proc: &Proc| match order.method {
            Some(method) => VecDeque::from([method]),
            None => self.declared.methods_of(proc),
        };
        let methods: BTreeMap<Proc, VecDeque<CheckpointMethod>> = targets
            .iter()
            .map(|proc| (proc.clone(), methods_of(proc)))
            .collect();
        // Such a proc could neither be asked nor ever report.
        if let Some((proc, _)) = methods.iter().find(|(_, methods)| methods.is_empty()) {
            return Err(JobControlError::NoMethod(proc.clone()));
        }
        let deadline = given.by.at + order.timeout.unwrap_or(ctx.settings.checkpoint_timeout);
        let (checkpoint, triggers) = Checkpoint::begin(
            order.checkpoint.clone(),
            methods,
            |proc| ctx.clients.has_ended(proc),
            deadline,
        );
        let to = given.by.to;
        let operation = JobControlOperation::Checkpoint(order.checkpoint);
        let id = self.record_request(
            ctx.clients,
            given,
            operation,
            targets,
            RequestStage::Running(PendingWork::Checkpoint(checkpoint)),
            Vec::new(),
        )?;
        let mut actions = self.reply_accepted(id, to);
        actions.extend(self.request_checkpoints(ctx, events, id, triggers));
        // All targets may have ended before, and then no report would continue the request.
        actions.extend(self.advance_control(ctx, events, id));
        Ok(actions)
    }

    /// Preempts procs. They receive an alert first. Those that declared a method make a checkpoint.
    /// When all have made theirs, or the grace period is over, the action is carried out.
    pub(in crate::server) fn preempt(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        given: ControlContext,
        action: JobAction,
        grace: Option<Duration>,
        targets: Vec<Proc>,
    ) -> Result<Vec<Action>, JobControlError> {
        if let Some(proc) = targets
            .iter()
            .find(|proc| !self.declared.may_be_preempted(proc))
        {
            return Err(JobControlError::NotPreemptible(proc.clone()));
        }
        let methods = targets
            .iter()
            .map(|proc| (proc.clone(), self.declared.methods_of(proc)));
        // Procs without a method get the alert and the grace period only.
        let methods: BTreeMap<Proc, VecDeque<CheckpointMethod>> =
            methods.filter(|(_, methods)| !methods.is_empty()).collect();
        let unprepared = methods.len() < targets.len();
        let grace = grace.unwrap_or(ctx.settings.preempt_grace);
        // The time alone is the same for two preemptions within one millisecond.
        let name = format!("preempt-{}-{}", given.by.at.0, self.ledger.next_id().0);
        let deadline = given.by.at + grace;
        let (checkpoint, triggers) =
            Checkpoint::begin(name, methods, |proc| ctx.clients.has_ended(proc), deadline);
        let to = given.by.to;
        let operation = JobControlOperation::Preempt(action);
        let work = PendingWork::Grace {
            checkpoint,
            unprepared,
        };
        let id = self.record_request(
            ctx.clients,
            given,
            operation,
            targets.clone(),
            RequestStage::Running(work),
            Vec::new(),
        )?;
        let mut actions = self.reply_accepted(id, to);
        let seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        let more = vec![Info::new(job_control::GRACE, Value::Uint32(seconds))];
        actions.extend(self.raise_for(
            ctx,
            events,
            id,
            code::PMIX_JCTRL_PREEMPT_ALERT,
            &targets,
            more,
        ));
        actions.extend(self.request_checkpoints(ctx, events, id, triggers));
        // No checkpoint may be possible, and then no report would continue the request.
        actions.extend(self.advance_control(ctx, events, id));
        Ok(actions)
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
        let directives = entry.directives.clone();
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
                    actions.extend(self.raise_for(ctx, events, id, code, &procs, more));
                }
                CheckpointMethod::Signal(number) => {
                    let action = JobAction::Signal(number);
                    let directives = directives.clone();
                    let control = JobControl {
                        action,
                        targets: procs,
                        directives,
                    };
                    // `controlled` gets the answer, and moves procs that were not reached to their
                    // next method.
                    actions.push(Action::Upcall(Upcall::JobControl {
                        id,
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

    /// Continues a request if it waits for no proc any more.
    pub(super) fn advance_control(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
    ) -> Vec<Action> {
        let next = self.ledger.change(id, |entry| match &entry.stage {
            RequestStage::Running(PendingWork::Checkpoint(checkpoint)) if checkpoint.is_over() => {
                entry.not_done = checkpoint.failed().to_vec();
                Some(Next::Ended(if entry.not_done.is_empty() {
                    JobControlEnd::Done
                } else {
                    JobControlEnd::Failed
                }))
            }
            RequestStage::Running(PendingWork::Grace {
                checkpoint,
                unprepared: false,
            }) if checkpoint.is_over() => {
                let JobControlOperation::Preempt(action) = &entry.operation else {
                    return None;
                };
                let control = JobControl {
                    action: action.clone(),
                    targets: entry.targets.clone(),
                    directives: entry.directives.clone(),
                };
                let source = entry.requester.clone();
                // A failed checkpoint does not stop a preemption; the data are lost.
                entry
                    .infos
                    .extend(checkpoint.failed().iter().map(NotDone::info));
                entry.stage = RequestStage::Running(PendingWork::Host(ControlReply::Given));
                Some(Next::Done(Upcall::JobControl {
                    id,
                    source,
                    control,
                }))
            }
            _ => None,
        });
        match next.flatten() {
            Some(Next::Ended(end)) => self.end(ctx, events, id, end),
            Some(Next::Done(upcall)) => vec![Action::Upcall(upcall)],
            None => Vec::new(),
        }
    }
}

/// The step that follows the wait.
enum Next {
    Ended(JobControlEnd),
    Done(Upcall),
}
