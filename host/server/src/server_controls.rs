//! Operations for other servers, each recorded in the audit trail before it begins.
use crate::{
    actor::Actor,
    handle::{ActorMessage, ServerHandle},
};
use peal_audit::{AuditTrail, CommitResult, CommitThread, DecisionEntry};
use peal_core::{
    job_control::ControlId,
    policy::DeniedVerdict,
    server::{Action, RecordForServer},
};
use tokio::sync::{mpsc, oneshot};

/// Recorder of operations for other servers. They keep their order.
pub(crate) struct ControlRecorder {
    // The ledger of the state bounds the number of open requests.
    orders: mpsc::UnboundedSender<RecordedControl>,
}

/// Operation for another server, with its entry of the trail.
struct RecordedControl {
    id: ControlId,
    entry: DecisionEntry,
}

impl ControlRecorder {
    /// Starts the task that records.
    pub(crate) fn start(audit: AuditTrail, handle: ServerHandle) -> ControlRecorder {
        let (orders, mut waiting) = mpsc::unbounded_channel::<RecordedControl>();
        tokio::spawn(async move {
            while let Some(RecordedControl { id, entry }) = waiting.recv().await {
                let committed = commit(audit.clone(), entry).await;
                handle.send(ActorMessage::ControlCommitted { id, committed });
            }
        });
        ControlRecorder { orders }
    }

    /// Records an operation. [`ActorMessage::ControlCommitted`] follows.
    fn record(&self, id: ControlId, entry: DecisionEntry) {
        // The task ends with its runtime.
        let _ = self.orders.send(RecordedControl { id, entry });
    }
}

/// Records an entry. A thread does it, since the queue of the trail may have no room.
async fn commit(audit: AuditTrail, entry: DecisionEntry) -> CommitResult {
    let (done, committed) = oneshot::channel();
    let record = move || {
        audit.decide(entry, CommitThread::Caller, move |result| {
            // The server may have stopped.
            let _ = done.send(result);
        });
    };
    let recorded = tokio::task::spawn_blocking(record).await;
    match (recorded, committed.await) {
        (Ok(()), Ok(result)) => result,
        _ => CommitResult::No,
    }
}

impl Actor {
    /// Records an operation for another server. [`ActorMessage::ControlCommitted`] follows.
    pub(crate) fn record_for_server(&mut self, record: RecordForServer) {
        let RecordForServer {
            id,
            number,
            from,
            request,
        } = record;
        let Some(recorder) = &self.control_recorder else {
            let committed = CommitResult::Yes;
            return self.process_answer(std::future::ready(ActorMessage::ControlCommitted {
                id,
                committed,
            }));
        };
        let server = self.transport.sender(from).to_string();
        recorder.record(
            id,
            DecisionEntry::of_server(number.number(), request, server),
        );
    }

    /// Continues after the record of an operation for another server.
    pub(crate) fn control_committed(
        &mut self,
        id: ControlId,
        committed: CommitResult,
    ) -> Vec<Action> {
        let recorded = match committed {
            CommitResult::Yes => Ok(()),
            CommitResult::No => Err(DeniedVerdict::unrecorded().status),
        };
        let now = self.now();
        self.state.recorded_for_server(id, recorded, now)
    }
}
