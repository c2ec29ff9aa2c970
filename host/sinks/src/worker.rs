//! Thread of a sink, which delivers due messages and handles the results.
use crate::{
    health::{PeerReachability, SharedHealth},
    queue::{DeliveryQueue, QueueEntry, QueuedMessage, WorkerStep, now},
};
use std::{sync::Arc, time::Duration};

/// Interval between checks of the store for leftover messages.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Delivery to peers.
pub(crate) trait SinkTransport: Send {
    /// Returns the peer of a message.
    fn peer(&self, head: &str) -> String;
    /// Tries to deliver a message. May change the head of a message that is to be tried again.
    fn carry(&mut self, parcel: &mut QueuedMessage) -> DeliveryResult;
    /// Called when no message is due: connections may be closed.
    fn rest(&mut self) -> IdleTransport;
}

/// State of an idle transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IdleTransport {
    /// The transport stays connected.
    Connected,
    /// The transport has no connection.
    Closed,
}

/// Result of an attempt.
#[derive(Debug)]
pub(crate) enum DeliveryResult {
    /// Delivered, except for recipients that were refused permanently.
    Delivered { refused: Vec<String> },
    /// Not delivered to all recipients; the head has the remaining ones.
    Later {
        reason: String,
        refused: Vec<String>,
    },
    /// The peer is unreachable.
    Unreachable(String),
    /// The peer answers that it is overloaded or out of service: all of its messages wait, at least
    /// for this long.
    Busy { reason: String, pause: Duration },
    /// The message can never be delivered.
    Never(String),
}

/// The thread of a sink.
pub(crate) struct SinkWorker {
    pub(crate) name: String,
    pub(crate) queue: Arc<DeliveryQueue>,
    pub(crate) gauge: Arc<SharedHealth>,
    pub(crate) carrier: Box<dyn SinkTransport>,
}

impl SinkWorker {
    /// Delivers until the queue ends.
    pub(crate) fn run(mut self) {
        self.check_store();
        // The first wait without a due message ends at once, so that connections are closed then.
        let mut patience = Duration::ZERO;
        loop {
            match self.queue.next(patience) {
                WorkerStep::Deliver(entry) => {
                    patience = Duration::ZERO;
                    self.deliver(*entry);
                }
                WorkerStep::Nothing if patience.is_zero() => {
                    patience = CHECK_INTERVAL;
                    self.rest();
                }
                WorkerStep::Nothing => self.check_store(),
                WorkerStep::End => break,
            }
        }
        self.queue.retry_removals();
        self.rest();
    }

    fn check_store(&self) {
        self.queue.retry_removals();
        self.queue
            .claim(|head| self.carrier.peer(head), &self.gauge);
    }

    fn rest(&mut self) {
        let rest = self.carrier.rest();
        let mut health = self.gauge.lock();
        if rest == IdleTransport::Closed && health.link == PeerReachability::Connected {
            health.link = PeerReachability::Idle;
        }
    }

    fn deliver(&mut self, mut entry: QueueEntry) {
        let outcome = self.carrier.carry(&mut entry.parcel);
        let link = if matches!(outcome, DeliveryResult::Unreachable(_)) {
            PeerReachability::Lost
        } else {
            PeerReachability::Connected
        };
        let was = {
            let mut health = self.gauge.lock();
            if let DeliveryResult::Unreachable(reason) = &outcome {
                health.last_error = Some(reason.clone());
            }
            std::mem::replace(&mut health.link, link)
        };
        match &outcome {
            DeliveryResult::Unreachable(_) => self.queue.pause(&entry.parcel.peer, Duration::ZERO),
            DeliveryResult::Busy { pause, .. } => self.queue.pause(&entry.parcel.peer, *pause),
            DeliveryResult::Delivered { .. }
            | DeliveryResult::Later { .. }
            | DeliveryResult::Never(_) => self.queue.reached(&entry.parcel.peer),
        }
        match outcome {
            DeliveryResult::Delivered { refused } => {
                if was == PeerReachability::Lost {
                    tracing::info!(sink = self.name, "sink peer reachable again");
                }
                self.log_refused(&refused);
                self.queue
                    .finish(&entry, &self.gauge, |health| health.delivered += 1);
            }
            DeliveryResult::Later { reason, refused } => {
                self.log_refused(&refused);
                // Stored before the pause: after a crash only the remaining recipients get the
                // message.
                self.queue.rewrite(&entry);
                self.retry(entry, reason, DeliveryQueue::put_back);
            }
            DeliveryResult::Unreachable(reason) => {
                if was != PeerReachability::Lost {
                    tracing::warn!(
                        sink = self.name,
                        reason,
                        "sink peer unreachable, messages wait"
                    );
                }
                self.retry(entry, reason, DeliveryQueue::put_first);
            }
            DeliveryResult::Busy { reason, .. } => {
                self.retry(entry, reason, DeliveryQueue::put_first);
            }
            DeliveryResult::Never(reason) => self.give_up(&entry, &reason),
        }
    }

    fn retry(
        &self,
        entry: QueueEntry,
        reason: String,
        back: impl FnOnce(&DeliveryQueue, QueueEntry),
    ) {
        // Checked only after a failure, so that an old message has an attempt before it is given
        // up.
        if now().saturating_sub(entry.accepted) >= self.queue.retry().give_up.as_secs() {
            return self.give_up(&entry, &format!("the message is too old, and {reason}"));
        }
        {
            let mut health = self.gauge.lock();
            health.retried += 1;
            health.last_error = Some(reason);
        }
        back(&self.queue, entry);
    }

    fn give_up(&self, entry: &QueueEntry, reason: &str) {
        tracing::error!(
            sink = self.name,
            accepted = entry.accepted,
            reason,
            "sink message given up"
        );
        self.queue.finish(entry, &self.gauge, |health| {
            health.given_up += 1;
            health.last_error = Some(reason.to_owned());
        });
    }

    fn log_refused(&self, refused: &[String]) {
        for reason in refused {
            tracing::error!(sink = self.name, reason, "mail recipient given up");
        }
        if let Some(last) = refused.last() {
            let mut health = self.gauge.lock();
            health.recipients_given_up += refused.len() as u64;
            health.last_error = Some(last.clone());
        }
    }
}

impl Drop for SinkWorker {
    /// Wakes waiting callers and counts lost messages, even after a panic.
    fn drop(&mut self) {
        let lost = self.queue.done(&self.gauge);
        if lost > 0 {
            tracing::error!(
                sink = self.name,
                lost,
                "sink closed with undelivered messages"
            );
        }
    }
}
