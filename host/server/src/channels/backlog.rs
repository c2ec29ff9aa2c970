//! Log requests that wait or are being written, shared by submitters and the worker.
use super::Logging;
use peal_core::{
    log::queue::{BegunRequest, LogQueue, LogUser, QueueLimit, QueueLimits, Ticket},
    quota::QuotaReport,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Log requests that wait or are being written.
pub(super) struct ChannelBacklog {
    state: Mutex<ChannelBacklogState>,
    changed: Notify,
}

struct ChannelBacklogState {
    queue: LogQueue<Logging>,
    intake: Intake,
}

/// State of the intake of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Intake {
    Open,
    Closed,
}

/// Next action of the worker.
pub(super) enum NextRequest {
    /// The request may begin now.
    Begin(Box<Logging>, RequestPlace),
    /// No request may begin before another one ends or is added.
    Wait,
    /// No request is left, and none can be added.
    End,
}

/// Place of a request that has begun. Later requests in its channels wait until this is dropped.
pub(super) struct RequestPlace {
    backlog: Arc<ChannelBacklog>,
    ticket: Ticket,
}

/// Request that was refused, and the limit that refused it.
pub(super) struct RefusedRequest {
    pub(super) logging: Logging,
    pub(super) limit: QueueLimit,
}

impl ChannelBacklog {
    pub(super) fn new(limits: QueueLimits) -> Arc<ChannelBacklog> {
        let state = ChannelBacklogState {
            queue: LogQueue::new(limits),
            intake: Intake::Open,
        };
        Arc::new(ChannelBacklog {
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    /// Adds a request, unless a limit is reached.
    pub(super) fn offer(&self, user: LogUser, logging: Logging) -> Result<(), Box<RefusedRequest>> {
        let mut state = self.lock();
        let bytes = logging.bytes();
        if let Err(limit) = state.queue.check(user, bytes) {
            return Err(Box::new(RefusedRequest { logging, limit }));
        }
        state.queue.push(user, bytes, logging.channels(), logging);
        // Unlock first, so that the worker does not wait for the lock when it wakes up.
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Adds a request of the worker itself. Such requests are few, so no limit applies.
    pub(super) fn add(&self, user: LogUser, logging: Logging) {
        self.lock()
            .queue
            .push(user, logging.bytes(), logging.channels(), logging);
        self.changed.notify_one();
    }

    /// Takes the next request that may begin.
    pub(super) fn begin(self: &Arc<Self>) -> NextRequest {
        let mut state = self.lock();
        match state.queue.begin() {
            Some(BegunRequest { ticket, item }) => NextRequest::Begin(
                Box::new(item),
                RequestPlace {
                    backlog: self.clone(),
                    ticket,
                },
            ),
            None if state.intake == Intake::Closed && state.queue.is_empty() => NextRequest::End,
            None => NextRequest::Wait,
        }
    }

    /// Returns true if no request waits or is being written.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Adds the requests of each user to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport) {
        self.lock().queue.report_quotas(report);
    }

    /// Closes the intake: no request is added afterwards.
    pub(super) fn close(&self) {
        self.lock().intake = Intake::Closed;
        self.changed.notify_one();
    }

    /// Waits until a request was added or has ended since the last call.
    pub(super) async fn changed(&self) {
        // A notification is stored while the worker does something else.
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, ChannelBacklogState> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestPlace {
    fn drop(&mut self) {
        self.backlog.lock().queue.finish(self.ticket);
        self.backlog.changed.notify_one();
    }
}
