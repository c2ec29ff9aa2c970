//! The thread of a sink: takes what is due, has it carried, and sees to what becomes of it.
use crate::{
    health::{PeerReachability, SharedHealth},
    queue::{DeliveryQueue, QueueEntry, QueuedMessage, WorkerStep, now},
};
use std::{sync::Arc, time::Duration};

/// How often it is looked whether others left something in the store.
const LOOK_AROUND: Duration = Duration::from_secs(30);

/// Knows how to reach peers.
pub(crate) trait SinkTransport: Send {
    /// The peer of a message, by what is to be known to deliver it.
    fn peer(&self, head: &str) -> String;
    /// Tries to deliver. May change the head of what is to be tried again.
    fn carry(&mut self, parcel: &mut QueuedMessage) -> DeliveryResult;
    /// There is nothing to deliver for now: connections may be closed.
    fn rest(&mut self) -> Rest;
}

/// Whether a carrier that has nothing to do stays connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// It does.
    Connected,
    /// It does not.
    Closed,
}

/// What became of an attempt.
#[derive(Debug)]
pub(crate) enum DeliveryResult {
    /// It was delivered, but for so many recipients that were refused for good.
    Delivered { refused: Vec<String> },
    /// Not, or not to all: the head says to whom it is still to go.
    Later { why: String, refused: Vec<String> },
    /// The peer cannot be reached.
    Unreachable(String),
    /// It never will be.
    Never(String),
}

/// A sink's thread.
pub(crate) struct SinkWorker {
    pub(crate) name: String,
    pub(crate) queue: Arc<DeliveryQueue>,
    pub(crate) gauge: Arc<SharedHealth>,
    pub(crate) carrier: Box<dyn SinkTransport>,
}

impl SinkWorker {
    /// Delivers until the queue ends.
    pub(crate) fn run(mut self) {
        self.look_around();
        // Looked at as soon as nothing is due, so that connections close then.
        let mut patience = Duration::ZERO;
        loop {
            match self.queue.next(patience) {
                WorkerStep::Deliver(entry) => {
                    patience = Duration::ZERO;
                    self.deliver(*entry);
                }
                WorkerStep::Nothing if patience.is_zero() => {
                    patience = LOOK_AROUND;
                    self.rest();
                }
                WorkerStep::Nothing => self.look_around(),
                WorkerStep::End => break,
            }
        }
        self.queue.tidy();
        self.rest();
    }

    fn look_around(&self) {
        self.queue.tidy();
        self.queue
            .claim(|head| self.carrier.peer(head), &self.gauge);
    }

    fn rest(&mut self) {
        let rest = self.carrier.rest();
        let mut health = self.gauge.lock();
        if rest == Rest::Closed && health.link == PeerReachability::Connected {
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
            if let DeliveryResult::Unreachable(why) = &outcome {
                health.last_error = Some(why.clone());
            }
            std::mem::replace(&mut health.link, link)
        };
        match link {
            PeerReachability::Lost => self.queue.pause(&entry.parcel.peer),
            PeerReachability::Connected | PeerReachability::Idle => {
                self.queue.reached(&entry.parcel.peer)
            }
        }
        match outcome {
            DeliveryResult::Delivered { refused } => {
                if was == PeerReachability::Lost {
                    tracing::info!(sink = self.name, "the peer can be reached again");
                }
                self.tell_refused(&refused);
                self.queue
                    .finish(&entry, &self.gauge, |health| health.delivered += 1);
            }
            DeliveryResult::Later { why, refused } => {
                self.tell_refused(&refused);
                self.queue.rewrite(&entry);
                self.again(entry, why, DeliveryQueue::put_back);
            }
            DeliveryResult::Unreachable(why) => {
                if was != PeerReachability::Lost {
                    tracing::warn!(
                        sink = self.name,
                        why,
                        "the peer cannot be reached: what it should get waits"
                    );
                }
                self.again(entry, why, DeliveryQueue::put_first);
            }
            DeliveryResult::Never(why) => self.give_up(&entry, &why),
        }
    }

    fn again(&self, entry: QueueEntry, why: String, back: impl FnOnce(&DeliveryQueue, QueueEntry)) {
        if now().saturating_sub(entry.accepted) >= self.queue.retry().give_up.as_secs() {
            return self.give_up(&entry, &format!("it is too old, and {why}"));
        }
        {
            let mut health = self.gauge.lock();
            health.retried += 1;
            health.last_error = Some(why);
        }
        back(&self.queue, entry);
    }

    fn give_up(&self, entry: &QueueEntry, why: &str) {
        tracing::error!(
            sink = self.name,
            accepted = entry.accepted,
            why,
            "a message is given up"
        );
        self.queue.finish(entry, &self.gauge, |health| {
            health.given_up += 1;
            health.last_error = Some(why.to_owned());
        });
    }

    fn tell_refused(&self, refused: &[String]) {
        for why in refused {
            tracing::error!(sink = self.name, why, "a recipient is given up");
        }
        if let Some(last) = refused.last() {
            let mut health = self.gauge.lock();
            health.recipients_given_up += refused.len() as u64;
            health.last_error = Some(last.clone());
        }
    }
}

impl Drop for SinkWorker {
    /// However it ends, whoever waits for it is told, and what is lost with it is counted.
    fn drop(&mut self) {
        let lost = self.queue.done(&self.gauge);
        if lost > 0 {
            tracing::error!(
                sink = self.name,
                lost,
                "the sink is closed with messages that were not delivered"
            );
        }
    }
}
