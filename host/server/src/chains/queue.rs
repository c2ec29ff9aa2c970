//! Passing of events from owner to owner, through queues that are bounded in number and bytes.
//! Owners may be added and removed while events are on their way.
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

/// Owners with a chain, in their order.
#[derive(Clone, Default)]
pub(super) struct Route(Arc<RwLock<BTreeMap<Owner, ChainQueueSender>>>);

struct ChainQueueSender {
    send: mpsc::Sender<EventInFlight>,
    waiting: Arc<AtomicUsize>,
    max_bytes: usize,
    modules: watch::Sender<Arc<[ChainModule]>>,
}

/// Receiving end of a queue: events for a worker, and the modules of its chain.
pub(super) struct ChainQueue {
    receive: mpsc::Receiver<EventInFlight>,
    waiting: Arc<AtomicUsize>,
    modules: watch::Receiver<Arc<[ChainModule]>>,
}

/// Next work of a worker.
pub(super) enum ChainWork {
    /// Replaces the modules of the chain.
    ReplaceModules(Arc<[ChainModule]>),
    /// Handles an event.
    Event(EventInFlight),
}

impl Route {
    /// Sets the modules of an owner's chain. If the owner had no chain, returns the queue for a new
    /// worker.
    pub(super) fn set_modules(
        &self,
        owner: &Owner,
        modules: Arc<[ChainModule]>,
        settings: &ChainSettings,
    ) -> Option<ChainQueue> {
        let mut owners = self.write();
        if let Some(entry) = owners.get(owner) {
            entry.modules.send_replace(modules);
            return None;
        }
        // Bounded, and never waited for: a slow owner misses events and delays no other.
        let (send, receive) = mpsc::channel(settings.queue);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (module_sender, mut module_receiver) = watch::channel(modules);
        // The first set counts as a change, so that the worker takes it before its first event.
        module_receiver.mark_changed();
        let entry = ChainQueueSender {
            send,
            waiting: waiting.clone(),
            max_bytes: settings.queue_bytes,
            modules: module_sender,
        };
        owners.insert(owner.clone(), entry);
        Some(ChainQueue {
            receive,
            waiting,
            modules: module_receiver,
        })
    }

    /// Closes the queue of an owner. Its worker ends after the events that are already in it.
    pub(super) fn close(&self, owner: &Owner) {
        self.write().remove(owner);
    }

    /// Returns the owners with a chain, in their order.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.read().keys().cloned().collect()
    }

    /// Passes an event to the first owner, or to the first one after `after`, whose queue has
    /// space. Owners whose queue is full miss the event.
    pub(super) fn pass(
        &self,
        after: Option<&Owner>,
        mut passing: EventInFlight,
        shared: &SharedChain,
    ) {
        let owners = self.read();
        for (owner, entry) in owners.range((
            after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        )) {
            match entry.offer(passing) {
                Ok(()) => return,
                Err(refused) => {
                    shared.metrics.counters().chain_events_dropped.count();
                    tracing::error!(%owner, code = %refused.entered.event.code, "chain queue full; event dropped");
                    passing = *refused;
                }
            }
        }
        // Release the lock first: listeners are notified without it.
        drop(owners);
        shared.passed(passing);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Owner, ChainQueueSender>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Owner, ChainQueueSender>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChainQueueSender {
    fn offer(&self, passing: EventInFlight) -> Result<(), Box<EventInFlight>> {
        let bytes = passing.bytes;
        // Count the bytes before sending, so that concurrent senders cannot exceed the bound
        // together.
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
    /// Returns true if events can still be added.
    pub(super) fn is_open(&self) -> bool {
        !self.receive.is_closed()
    }

    /// Returns the next work; none when no event can be added any more. New modules come before
    /// waiting events.
    pub(super) async fn next(&mut self) -> Option<ChainWork> {
        tokio::select! {
            biased;
            Ok(()) = self.modules.changed() => Some(ChainWork::ReplaceModules(self.modules.borrow_and_update().clone())),
            passing = self.receive.recv() => {
                let passing = passing?;
                self.waiting.fetch_sub(passing.bytes, Ordering::Relaxed);
                Some(ChainWork::Event(passing))
            }
        }
    }
}
