//! Operations for other servers: each is recorded in the audit trail before it begins.
use super::{JobControlRequests, PlannedCheckpoint};
use crate::{
    MonotonicTime,
    job_control::{
        ControlId, ControlPart, ControlReply, JobControlEnd, LedgerEntry, NotDone, PendingWork,
        RequestStage, Requestor, ServerWork,
    },
    server::{
        Action, EventDelivery, ServerAnswer, ServerContext, ServerReply, Upcall,
        clients::ClientTable,
    },
    targets::ResolvedTargets,
};
use peal_model::{Proc, Status, UserIdentity, code};

/// An operation that another server asks for.
#[derive(Debug)]
pub(in crate::server) struct ServerOrder {
    pub(in crate::server) reply: ServerReply,
    pub(in crate::server) requester: Option<Proc>,
    /// The user of the targets' jobs.
    pub(in crate::server) owner: Option<UserIdentity>,
    pub(in crate::server) work: ServerWork,
}

/// Start of an operation that another server asks for.
#[derive(Debug)]
pub(in crate::server) enum ServerOrderStart {
    /// It is to be recorded that these procs are controlled.
    Accepted { id: ControlId, known: Vec<Proc> },
    /// The other server is answered at once.
    Over(Action),
}

impl JobControlRequests {
    /// Accepts an operation for another server, which is answered when it is done.
    pub(in crate::server) fn accept_for_server(
        &mut self,
        clients: &ClientTable,
        order: ServerOrder,
    ) -> ServerOrderStart {
        let ServerOrder {
            reply,
            requester,
            owner,
            work,
        } = order;
        let targets = work.procs();
        // A job of this server may have ended since the sender heard of it.
        let (known, unknown): (Vec<Proc>, Vec<Proc>) = targets
            .iter()
            .cloned()
            .partition(|target| clients.life(target).is_some());
        let gone = "the server of its node does not have it any more";
        let gone = NotDone::each(unknown, code::PMIX_ERR_NOT_FOUND, gone);
        if known.is_empty() {
            return ServerOrderStart::Over(reply.answer(ServerAnswer::Controlled(gone)));
        }
        let name = work.request().map(str::to_owned);
        let recorded = self.ledger.record(name, |name| LedgerEntry {
            name,
            requestor: Requestor::Server(reply),
            requester,
            identity: owner,
            operation: work.operation(),
            targets: ResolvedTargets::of_node(targets.clone()),
            directives: Vec::new(),
            mail: None,
            stage: RequestStage::Running(PendingWork::Record(work.on(&known))),
            awaits_servers: false,
            reply: ControlReply::Server(reply),
            not_done: gone,
            answer: None,
            infos: Vec::new(),
        });
        match recorded {
            Ok(id) => ServerOrderStart::Accepted { id, known },
            Err(error) => {
                let all = NotDone::each(targets, error.status(), &error.to_string());
                ServerOrderStart::Over(reply.answer(ServerAnswer::Controlled(all)))
            }
        }
    }

    /// Cancels the orders that fulfil a condition. What the host environment was told to do goes on.
    pub(in crate::server) fn cancel_orders(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        is_meant: impl Fn(ServerReply) -> bool,
    ) -> Vec<Action> {
        let orders = self.ledger.orders(is_meant).into_iter();
        orders
            .flat_map(|id| self.end(ctx, events, id, JobControlEnd::Cancelled))
            .collect()
    }

    /// Begins an operation for another server that is recorded. Without a record nothing is done.
    pub(in crate::server) fn recorded_for_server(
        &mut self,
        ctx: ServerContext<'_>,
        events: &mut EventDelivery,
        id: ControlId,
        recorded: Result<(), Status>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let begun = self.ledger.change(id, |entry| {
            let RequestStage::Running(PendingWork::Record(work)) = &entry.stage else {
                return None;
            };
            let work = work.clone();
            entry.stage = RequestStage::Running(PendingWork::Host);
            Some((work, entry.requester.clone()))
        });
        let Some((work, source)) = begun.flatten() else {
            return Vec::new();
        };
        if let Err(status) = recorded {
            let reason = "the audit trail does not take the record";
            let not_done = NotDone::each(work.procs(), status, reason);
            self.ledger
                .change(id, |entry| entry.not_done.extend(not_done));
            return self.end(ctx, events, id, JobControlEnd::Failed);
        }
        match work {
            ServerWork::Act(control) => vec![Action::Upcall(Upcall::JobControl {
                id: id.part(ControlPart::Action),
                source,
                control,
            })],
            ServerWork::Checkpoint(order) => {
                let planned = PlannedCheckpoint::of_order(order, now);
                self.begin_checkpoint(ctx, events, id, planned)
            }
        }
    }
}
