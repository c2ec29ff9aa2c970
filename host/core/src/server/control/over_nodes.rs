//! Requests for procs of several nodes: the launcher is asked first, then the servers of those nodes.
use super::{ControlContext, JobControlRequests, PlannedCheckpoint};
use crate::{
    MonotonicTime,
    job_control::{
        ControlId, ControlOverNodes, ControlResult, Declared, JobAction, JobControl, JobControlEnd,
        JobControlError, JobControlOperation, LedgerEntry, NotDone, PendingWork, RequestStage,
    },
    policy,
    server::{Action, EventDelivery, ServerContext, Upcall, clients::ClientTable},
    targets::ResolvedTargets,
};
use peal_model::{Proc, Status, code};

/// The part of other nodes in a request.
#[derive(Debug)]
pub(in crate::server) struct OrderElsewhere {
    pub(in crate::server) requester: Option<Proc>,
    /// The number of targets on this node.
    pub(in crate::server) local: usize,
    /// The targets on other nodes, as in [`ResolvedTargets::elsewhere`].
    pub(in crate::server) elsewhere: Vec<Proc>,
}

impl OrderElsewhere {
    fn new(entry: &LedgerEntry) -> OrderElsewhere {
        OrderElsewhere {
            requester: entry.requester.clone(),
            local: entry.targets.local.len(),
            elsewhere: entry.targets.elsewhere.clone(),
        }
    }
}

impl JobControlRequests {
    /// Passes an operation on procs of several nodes to their launcher. The reply comes when it has
    /// answered.
    pub(in crate::server) fn operate_over_nodes(
        &mut self,
        clients: &ClientTable,
        given: ControlContext,
        operation: JobControlOperation,
        targets: ResolvedTargets,
    ) -> Result<Vec<Action>, JobControlError> {
        let stage = RequestStage::Running(PendingWork::Launcher(operation.clone()));
        let id = self.record_request(clients, given, operation, targets, stage, Vec::new())?;
        let asks = self.ask_launcher(id);
        Ok(self.mail(id).into_iter().chain(asks).collect())
    }

    /// Asks the launcher to carry out the operation that waits for it.
    pub(super) fn ask_launcher(&self, id: ControlId) -> Option<Action> {
        let entry = self.ledger.get(id)?;
        let RequestStage::Running(PendingWork::Launcher(operation)) = &entry.stage else {
            return None;
        };
        let directives = match operation {
            // The directives of a preemption request another operation than its action in the end.
            JobControlOperation::Act(action) if entry.operation != *operation => {
                vec![action.directive()]
            }
            _ => entry.directives.clone(),
        };
        Some(Action::Upcall(Upcall::ControlOverNodes {
            id,
            source: entry.requester.clone(),
            control: ControlOverNodes {
                operation: operation.clone(),
                targets: entry.targets.clone(),
                directives,
            },
        }))
    }

    /// Ends a request that the launcher has answered.
    pub(in crate::server) fn answered_by_launcher(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        answer: Result<ControlResult, Status>,
    ) -> Vec<Action> {
        let end = self.ledger.change(id, |entry| {
            let status = match answer {
                Ok(ControlResult::OfLauncher { status, infos }) => {
                    entry.infos.extend(infos);
                    status
                }
                Ok(ControlResult::OfServers) => code::PMIX_ERR_NOT_SUPPORTED,
                Err(status) => status,
            };
            entry.answer = Some(status);
            if status == code::PMIX_SUCCESS && entry.not_done.is_empty() {
                JobControlEnd::Done
            } else {
                JobControlEnd::Failed
            }
        });
        end.map(|end| self.end(ctx, events, id, end))
            .unwrap_or_default()
    }

    /// Returns what a request asks of its launcher, and the part of other nodes. A checkpoint has not
    /// begun before their servers have told what procs have declared.
    pub(in crate::server) fn left_by_launcher(
        &mut self,
        id: ControlId,
    ) -> Option<(JobControlOperation, OrderElsewhere)> {
        let left = self.ledger.change(id, |entry| {
            let RequestStage::Running(PendingWork::Launcher(operation)) = &entry.stage else {
                return None;
            };
            let operation = operation.clone();
            entry.stage = RequestStage::Accepted;
            Some((operation, OrderElsewhere::new(entry)))
        });
        left.flatten()
    }

    /// Replaces the targets on other nodes by the single procs for which they stand.
    pub(in crate::server) fn name_elsewhere(&mut self, id: ControlId, single: Vec<Proc>) {
        self.ledger
            .change(id, |entry| entry.targets.elsewhere = single);
    }

    /// Begins an action on the procs of this node. Other servers are awaited as well.
    pub(in crate::server) fn act_beside_servers(
        &mut self,
        id: ControlId,
        action: JobAction,
    ) -> Option<Action> {
        let upcall = self.ledger.change(id, |entry| {
            let control = JobControl {
                action,
                targets: entry.targets.local.clone(),
                directives: entry.directives.clone(),
            };
            entry.awaits_servers = true;
            let is_of_node = !control.targets.is_empty();
            entry.stage = RequestStage::Running(if is_of_node {
                PendingWork::Host
            } else {
                PendingWork::Elsewhere
            });
            is_of_node.then(|| Upcall::JobControl {
                id,
                source: entry.requester.clone(),
                control,
            })
        });
        upcall.flatten().map(Action::Upcall)
    }

    /// Returns the part of other nodes in a request that has not begun.
    pub(in crate::server) fn accepted_over_nodes(&self, id: ControlId) -> Option<OrderElsewhere> {
        let entry = self.ledger.get(id)?;
        matches!(entry.stage, RequestStage::Accepted).then(|| OrderElsewhere::new(entry))
    }

    /// Plans the checkpoint of a request with the declarations of other servers beside those of this
    /// one. Of the targets on other nodes, these are reached.
    pub(in crate::server) fn plan_over_nodes(
        &self,
        ctx: ServerContext<'_>,
        id: ControlId,
        declared: Declared,
        reached: impl Iterator<Item = Proc>,
        now: MonotonicTime,
    ) -> Result<PlannedCheckpoint, JobControlError> {
        let mut declared = declared;
        declared.add_all(&self.declared);
        let Some(entry) = self.ledger.get(id) else {
            return Err(JobControlError::NoTargets);
        };
        let targets: Vec<Proc> = entry.targets.local.iter().cloned().chain(reached).collect();
        PlannedCheckpoint::new(ctx, &declared, &entry.operation, &targets, id, now)
    }

    /// Begins the part of this node in a checkpoint. Other servers are awaited as well.
    pub(in crate::server) fn begin_beside_servers(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        planned: PlannedCheckpoint,
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| entry.awaits_servers = true);
        self.begin_checkpoint(ctx, events, id, planned)
    }

    /// Ends a request that cannot be carried out.
    pub(in crate::server) fn refuse(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        error: &JobControlError,
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| {
            entry.answer = Some(error.status());
            entry.infos.push(policy::reason(error));
        });
        self.end(ctx, events, id, JobControlEnd::Failed)
    }

    /// Ends a request that reaches none of its targets.
    pub(in crate::server) fn reached_none(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        missing: Vec<NotDone>,
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| entry.not_done = missing);
        self.end(ctx, events, id, JobControlEnd::Failed)
    }

    /// Adds what the servers of other nodes have not done.
    pub(in crate::server) fn servers_answered(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        not_done: Vec<NotDone>,
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| {
            entry.awaits_servers = false;
            match entry.stage {
                // A failed checkpoint does not stop a preemption; the data are lost.
                RequestStage::Running(PendingWork::Grace { .. }) => {
                    entry.infos.extend(not_done.iter().map(NotDone::info));
                }
                _ => entry.not_done.extend(not_done),
            }
        });
        self.advance_control(ctx, events, id)
    }
}
