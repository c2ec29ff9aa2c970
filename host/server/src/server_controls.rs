//! Actions for other servers, each recorded in the audit trail before it is carried out.
use crate::{
    actor::Actor,
    handle::{ActorMessage, ServerHandle},
};
use peal_audit::{AuditTrail, CommitResult, CommitThread, DecisionEntry};
use peal_core::{
    policy::DeniedVerdict,
    server::{Action, ControlForServer},
};
use tokio::sync::{mpsc, oneshot};

/// Recorder of actions for other servers. They keep their order.
pub(crate) struct ControlRecorder {
    // The ledger of the state bounds the number of open requests.
    orders: mpsc::UnboundedSender<RecordedControl>,
}

/// Action for another server, with its entry of the trail.
struct RecordedControl {
    control: ControlForServer,
    entry: DecisionEntry,
}

impl ControlRecorder {
    /// Starts the task that records.
    pub(crate) fn start(audit: AuditTrail, handle: ServerHandle) -> ControlRecorder {
        let (orders, mut waiting) = mpsc::unbounded_channel::<RecordedControl>();
        tokio::spawn(async move {
            while let Some(RecordedControl { control, entry }) = waiting.recv().await {
                let committed = commit(audit.clone(), entry).await;
                handle.send(ActorMessage::ControlCommitted { control, committed });
            }
        });
        ControlRecorder { orders }
    }

    /// Records an action. [`ActorMessage::ControlCommitted`] follows.
    fn record(&self, control: ControlForServer, entry: DecisionEntry) {
        // The task ends with its runtime.
        let _ = self.orders.send(RecordedControl { control, entry });
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
    /// Carries out an action for another server, after its record in the trail.
    pub(crate) fn control_for_server(&mut self, control: ControlForServer) {
        let Some(recorder) = &self.control_recorder else {
            return self.make_control(
                control.id,
                control.request.requester.clone(),
                control.control,
            );
        };
        let server = self.transport.sender(control.from).to_string();
        let number = control.number.number();
        let entry = DecisionEntry::of_server(number, control.request.clone(), server);
        recorder.record(control, entry);
    }

    /// Continues after the record of an action for another server.
    pub(crate) fn control_committed(
        &mut self,
        control: ControlForServer,
        committed: CommitResult,
    ) -> Vec<Action> {
        let ControlForServer {
            id,
            request,
            control,
            ..
        } = control;
        match committed {
            CommitResult::Yes => {
                self.make_control(id, request.requester.clone(), control);
                Vec::new()
            }
            CommitResult::No => {
                let status = DeniedVerdict::unrecorded().status;
                self.state.controlled(id, &control.targets, Err(status))
            }
        }
    }
}
