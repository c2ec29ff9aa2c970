//! The way of an event from owner to owner, through queues that are bounded in number and in bytes.
use super::{ChainSettings, Passing, Shared};
use peal_core::owner::Owner;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::sync::mpsc;

/// The owners that are still before an event.
#[derive(Clone)]
pub(super) struct Route(Option<Arc<Stop>>);

struct Stop {
    owner: Owner,
    send: mpsc::Sender<Passing>,
    waiting: Arc<AtomicUsize>,
    max_bytes: usize,
    after: Route,
}

/// Where a worker gets its events from.
pub(super) struct Queue {
    receive: mpsc::Receiver<Passing>,
    waiting: Arc<AtomicUsize>,
}

impl Route {
    /// Nobody is left.
    pub(super) fn end() -> Route {
        Route(None)
    }

    /// Puts an owner before all others, and returns what its worker reads from.
    pub(super) fn begin_with(&mut self, owner: Owner, settings: &ChainSettings) -> Queue {
        let (send, receive) = mpsc::channel(settings.queue);
        let waiting = Arc::new(AtomicUsize::new(0));
        let after = self.clone();
        let stop = Stop { owner, send, waiting: waiting.clone(), max_bytes: settings.queue_bytes, after };
        *self = Route(Some(Arc::new(stop)));
        Queue { receive, waiting }
    }

    /// Hands an event to the next owner that has room for it. One that has none misses it.
    pub(super) fn pass(&self, mut passing: Passing, shared: &Shared) {
        let mut route = self;
        while let Some(stop) = &route.0 {
            match stop.offer(passing) {
                Ok(()) => return,
                Err(refused) => {
                    shared.metrics.counters().chain_events_dropped.count();
                    tracing::error!(owner = %stop.owner, code = %refused.entered.event.code, "a chain cannot keep up: it misses an event");
                    passing = *refused;
                    route = &stop.after;
                }
            }
        }
        shared.passed(passing);
    }
}

impl Stop {
    fn offer(&self, passing: Passing) -> Result<(), Box<Passing>> {
        let bytes = passing.bytes;
        if self.waiting.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > self.max_bytes {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Box::new(passing));
        }
        self.send.try_send(passing).map_err(|refused| {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            Box::new(refused.into_inner())
        })
    }
}

impl Queue {
    /// The next event; nothing when none can come any more.
    pub(super) async fn next(&mut self) -> Option<Passing> {
        let passing = self.receive.recv().await?;
        self.waiting.fetch_sub(passing.bytes, Ordering::Relaxed);
        Some(passing)
    }
}
