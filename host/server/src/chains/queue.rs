//! The way of an event from owner to owner, through queues that are bounded in number and in bytes. Owners come and go while
//! events are on their way.
use super::{ChainSettings, EventInFlight, SharedChain, chain_modules::ChainModule};
use peal_core::owner::Owner;
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{mpsc, watch};

/// The owners before whose chains events come, in their order.
#[derive(Clone, Default)]
pub(super) struct Route(Arc<RwLock<BTreeMap<Owner, StopSignal>>>);

struct StopSignal {
    send: mpsc::Sender<EventInFlight>,
    waiting: Arc<AtomicUsize>,
    max_bytes: usize,
    seats: watch::Sender<Arc<[ChainModule]>>,
}

/// Where a worker gets its events from, and who sits in its chain.
pub(super) struct ChainQueue {
    receive: mpsc::Receiver<EventInFlight>,
    waiting: Arc<AtomicUsize>,
    seats: watch::Receiver<Arc<[ChainModule]>>,
}

/// What a worker has to do next.
pub(super) enum ChainWork {
    /// Others take the place of those who sit in its chain.
    Reseat(Arc<[ChainModule]>),
    /// An event has come.
    Event(EventInFlight),
}

impl Route {
    /// Seats these in the chain of an owner. One that has had none needs a worker, which reads from what this returns.
    pub(super) fn seat(
        &self,
        owner: &Owner,
        seats: Arc<[ChainModule]>,
        settings: &ChainSettings,
    ) -> Option<ChainQueue> {
        let mut stops = self.write();
        if let Some(stop) = stops.get(owner) {
            stop.seats.send_replace(seats);
            return None;
        }
        let (send, receive) = mpsc::channel(settings.queue);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (tell, mut told) = watch::channel(seats);
        told.mark_changed();
        let stop = StopSignal {
            send,
            waiting: waiting.clone(),
            max_bytes: settings.queue_bytes,
            seats: tell,
        };
        stops.insert(owner.clone(), stop);
        Some(ChainQueue {
            receive,
            waiting,
            seats: told,
        })
    }

    /// No more events come to this owner's chain; its worker ends when it is behind those that have.
    pub(super) fn close(&self, owner: &Owner) {
        self.write().remove(owner);
    }

    /// Who has a chain, in their order.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.read().keys().cloned().collect()
    }

    /// Hands an event to the first owner, or to the first one after another, that has room for it. One that has none misses it.
    pub(super) fn pass(
        &self,
        after: Option<&Owner>,
        mut passing: EventInFlight,
        shared: &SharedChain,
    ) {
        let stops = self.read();
        for (owner, stop) in stops.range((
            after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        )) {
            match stop.offer(passing) {
                Ok(()) => return,
                Err(refused) => {
                    shared.metrics.counters().chain_events_dropped.count();
                    tracing::error!(%owner, code = %refused.entered.event.code, "a chain cannot keep up: it misses an event");
                    passing = *refused;
                }
            }
        }
        drop(stops);
        shared.passed(passing);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Owner, StopSignal>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Owner, StopSignal>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopSignal {
    fn offer(&self, passing: EventInFlight) -> Result<(), Box<EventInFlight>> {
        let bytes = passing.bytes;
        if self
            .waiting
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
            > self.max_bytes
        {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Box::new(passing));
        }
        self.send.try_send(passing).map_err(|refused| {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            Box::new(refused.into_inner())
        })
    }
}

impl ChainQueue {
    /// Whether events can still come.
    pub(super) fn is_open(&self) -> bool {
        !self.receive.is_closed()
    }

    /// What is next; nothing when no event can come any more. New seats come before events that wait.
    pub(super) async fn next(&mut self) -> Option<ChainWork> {
        tokio::select! {
            biased;
            Ok(()) = self.seats.changed() => Some(ChainWork::Reseat(self.seats.borrow_and_update().clone())),
            passing = self.receive.recv() => {
                let passing = passing?;
                self.waiting.fetch_sub(passing.bytes, Ordering::Relaxed);
                Some(ChainWork::Event(passing))
            }
        }
    }
}
