//! Requests for procs of several nodes: the launcher is asked first, then the servers of those nodes.
use super::{ControlContext, JobControlRequests, PlannedCheckpoint};
use crate::{
    MonotonicTime,
    job_control::{
        ControlId, ControlOverNodes, ControlPart, ControlResult, Declared, JobAction,
        JobControlEnd, JobControlError, JobControlOperation, LedgerEntry, NotDone, PendingWork,
        RequestStage,
    },
    policy,
    server::{Action, EventDelivery, ServerContext, Upcall, clients::ClientTable},
    targets::ResolvedTargets,
};
use peal_model::{Proc, Status, code};

/// The part of other nodes in a request.
#[derive(Debug)]
pub(in crate::server) struct OrderElsewhere {
    pub(in crate::server) operation: JobControlOperation,
    pub(in crate::server) requester: Option<Proc>,
    /// The targets on this node.
    pub(in crate::server) local: Vec<Proc>,
    /// The targets on other nodes, as in [`ResolvedTargets::elsewhere`].
    pub(in crate::server) elsewhere: Vec<Proc>,
}

impl OrderElsewhere {
    fn new(entry: &LedgerEntry, operation: JobControlOperation) -> OrderElsewhere {
        OrderElsewhere {
            operation,
            requester: entry.requester.clone(),
            local: entry.targets.local.clone(),
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
        // The mail about a checkpoint is sent when it begins.
        let is_action = self
            .ledger
            .get(id)
            .is_some_and(|entry| matches!(entry.operation, JobControlOperation::Act(_)));
        let mut actions = if is_action { self.mail(id) } else { Vec::new() };
        actions.extend(asks);
        Ok(actions)
    }

    /// Asks the launcher to carry out the operation that waits for it.
    pub(super) fn ask_launcher(&self, id: ControlId) -> Option<Action> {
        let entry = self.ledger.get(id)?;
        let RequestStage::Running(PendingWork::Launcher(operation)) = &entry.stage else {
            return None;
        };
        Some(Action::Upcall(Upcall::ControlOverNodes {
            id,
            source: entry.requester.clone(),
            control: ControlOverNodes {
                operation: operation.clone(),
                targets: entry.targets.clone(),
                directives: entry.directives.clone(),
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
    pub(in crate::server) fn left_by_launcher(&mut self, id: ControlId) -> Option<OrderElsewhere> {
        let left = self.ledger.change(id, |entry| {
            let RequestStage::Running(PendingWork::Launcher(operation)) = &entry.stage else {
                return None;
            };
            let operation = operation.clone();
            entry.stage = RequestStage::Accepted;
            Some(OrderElsewhere::new(entry, operation))
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
            let control = entry.control(action, entry.targets.local.clone());
            entry.awaits_servers = true;
            let is_of_node = !control.targets.is_empty();
            entry.stage = RequestStage::Running(if is_of_node {
                PendingWork::Host
            } else {
                PendingWork::Elsewhere
            });
            is_of_node.then(|| Upcall::JobControl {
                id: id.part(ControlPart::Action),
                source: entry.requester.clone(),
                control,
            })
        });
        upcall.flatten().map(Action::Upcall)
    }

    /// Returns a request that has not begun.
    pub(in crate::server) fn accepted_over_nodes(&self, id: ControlId) -> Option<OrderElsewhere> {
        let entry = self.ledger.get(id)?;
        matches!(entry.stage, RequestStage::Accepted)
            .then(|| OrderElsewhere::new(entry, entry.operation.clone()))
    }

    /// Plans the checkpoint of a request with the declarations of other servers beside those of this
    /// one.
    pub(in crate::server) fn plan_over_nodes(
        &self,
        ctx: ServerContext<'_>,
        id: ControlId,
        declared: Declared,
        order: &OrderElsewhere,
        now: MonotonicTime,
    ) -> Result<PlannedCheckpoint, JobControlError> {
        let mut declared = declared;
        declared.add_all(&self.declared);
        let targets = [order.local.as_slice(), &order.elsewhere].concat();
        PlannedCheckpoint::new(ctx, &declared, &order.operation, &targets, id, now)
    }

    /// Returns the name of a request.
    pub(in crate::server) fn name_of(&self, id: ControlId) -> Option<&str> {
        self.ledger.get(id).map(|entry| entry.name.as_str())
    }

    /// Returns true if a request has not ended.
    pub(in crate::server) fn is_open(&self, id: ControlId) -> bool {
        self.ledger.get(id).is_some_and(LedgerEntry::is_open)
    }

    /// Records a checkpoint or preemption of procs of this node that has not begun.
    pub(in crate::server) fn accept(
        &mut self,
        clients: &ClientTable,
        given: ControlContext,
        operation: JobControlOperation,
        targets: Vec<Proc>,
    ) -> Result<ControlId, JobControlError> {
        self.record_request(
            clients,
            given,
            operation,
            ResolvedTargets::of_node(targets),
            RequestStage::Accepted,
            Vec::new(),
        )
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

    /// Ends a request that has not begun, because these targets cannot take part.
    pub(in crate::server) fn cannot_begin(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        missing: Vec<NotDone>,
    ) -> Vec<Action> {
        self.ledger.change(id, |entry| {
            entry.answer = missing.first().map(|one| one.status);
            entry.not_done = missing;
        });
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
