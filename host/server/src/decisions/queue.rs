//! Queue of the requests that wait for the policies of one hook. Users take turns, so that one
//! user's requests delay those of others by one decision each.
use super::DecisionRequest;
use peal_core::{
    decision_limits::{DecisionLimit, DecisionLimits},
    fair_queue::FairQueue,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Queue, shared by the actor and the worker of the hook.
pub(super) struct DecisionQueue {
    state: Mutex<DecisionQueueState>,
    changed: Notify,
    limits: DecisionLimits,
}

struct DecisionQueueState {
    /// Requests by user. Modules of the site have no user.
    waiting: FairQueue<Option<u32>, DecisionRequest>,
    intake: Intake,
}

/// State of the intake of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Intake {
    Open,
    Closed,
}

/// Sending end of a queue. The worker ends after the queued requests when it is dropped.
pub(super) struct DecisionSender(Arc<DecisionQueue>);

impl DecisionQueue {
    /// Creates both ends of a queue.
    pub(super) fn new(limits: DecisionLimits) -> (DecisionSender, Arc<DecisionQueue>) {
        let queue = Arc::new(DecisionQueue {
            state: Mutex::new(DecisionQueueState {
                waiting: FairQueue::default(),
                intake: Intake::Open,
            }),
            changed: Notify::new(),
            limits,
        });
        (DecisionSender(queue.clone()), queue)
    }

    /// Waits for the next request; none after the last one.
    pub(super) async fn next(&self) -> Option<DecisionRequest> {
        loop {
            {
                let mut state = self.lock();
                if let Some(request) = state.waiting.pop() {
                    return Some(request);
                }
                if state.intake == Intake::Closed {
                    return None;
                }
            }
            // A notification since the look is stored, so none is missed.
            self.changed.notified().await;
        }
    }

    /// Returns true if no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().waiting.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, DecisionQueueState> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DecisionSender {
    /// Adds a request behind all others of its user. The gate has checked the limits of pending
    /// decisions. Requests that it no longer awaits may still be in the queue, so their number has
    /// the same limits.
    pub(super) fn send(&self, request: DecisionRequest) -> Result<(), DecisionLimit> {
        let user = request.request.identity.map(|identity| identity.uid);
        let mut state = self.0.lock();
        let limits = self.0.limits;
        if state.waiting.len() >= limits.requests {
            return Err(DecisionLimit::Requests);
        }
        if user.is_some() && state.waiting.len_of(&user) >= limits.user_requests {
            return Err(DecisionLimit::UserRequests);
        }
        state.waiting.push(user, request);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl Drop for DecisionSender {
    fn drop(&mut self) {
        self.0.lock().intake = Intake::Closed;
        self.0.changed.notify_one();
    }
}
