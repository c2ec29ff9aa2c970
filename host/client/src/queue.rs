//! Queue of events to the handlers, for events of servers and for those that the client raises
//! itself.
use crate::{
    observers::Observers, output::OutputPulls, queued_item::QueuedItem, settlement::Settlement,
};
use peal_model::Size;
use peal_wire::ServerUri;
use std::{future::poll_fn, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::yield_now,
    time::{Instant, timeout_at},
};

/// Waiting item, and the permit for its memory.
#[derive(Debug)]
pub(crate) struct WaitingItem {
    pub(crate) item: QueuedItem,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// Sending end of the queue.
#[derive(Clone)]
pub(crate) struct EventQueue {
    byte_permits: Arc<Semaphore>,
    bytes: u32,
    /// Observers of the items, called before the handlers.
    pub(crate) observers: Observers,
    /// Receivers of output, which does not go through the queue.
    pub(crate) outputs: OutputPulls,
    /// Items, and their order and that of replies.
    pub(crate) settlement: Settlement,
}

impl EventQueue {
    /// Creates a queue in which events may use this much memory, in bytes.
    pub(crate) fn new(bytes: usize) -> (EventQueue, Arrivals) {
        // A semaphore with more permits than its maximum panics.
        let bytes = u32::try_from(bytes.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let settlement = Settlement::new();
        (
            EventQueue {
                byte_permits: Arc::new(Semaphore::new(bytes as usize)),
                bytes,
                observers: Observers::default(),
                outputs: OutputPulls::default(),
                settlement: settlement.clone(),
            },
            Arrivals {
                next: None,
                until_turn: ITEMS_OF_A_TURN,
                awake_until: None,
                settlement,
            },
        )
    }

    /// Returns a permit for an item if there is room at once, and no other item waits for it.
    pub(crate) fn try_reserve(&self, arrival: &QueuedItem) -> Option<OwnedSemaphorePermit> {
        let permits = self.byte_permits.clone();
        permits.try_acquire_many_owned(self.weight(arrival)).ok()
    }

    /// Waits until there is room for an item. An item larger than the whole queue waits until the
    /// queue is empty.
    pub(crate) async fn reserve(&self, arrival: &QueuedItem) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.byte_permits
            .clone()
            .acquire_many_owned(self.weight(arrival))
            .await
            .ok()
    }

    /// Puts an item into the queue if there is room at once, else drops it.
    pub(crate) fn try_put(&self, arrival: QueuedItem) {
        match self.try_reserve(&arrival) {
            Some(room) => self.put(arrival, Some(room)),
            None => tracing::warn!(?arrival, "internal event dropped: queue full"),
        }
    }

    fn weight(&self, arrival: &QueuedItem) -> u32 {
        let wanted = match arrival {
            QueuedItem::Event(event) => Size::of_event(event).bytes,
            QueuedItem::Garbled(..) | QueuedItem::Registered | QueuedItem::Lost(..) => {
                size_of::<WaitingItem>()
            }
        };
        u32::try_from(wanted).unwrap_or(u32::MAX).min(self.bytes)
    }

    /// Puts an item into the queue.
    pub(crate) fn put(&self, item: QueuedItem, room: Option<OwnedSemaphorePermit>) {
        self.observers.observe(&item);
        self.settlement.put(WaitingItem { item, room });
    }
}

/// Receiving end of the queue.
pub(crate) struct Arrivals {
    /// Item that was received but comes next.
    next: Option<WaitingItem>,
    /// Number of items until other tasks have their turn.
    until_turn: u32,
    /// Time until which the task does not sleep.
    awake_until: Option<std::time::Instant>,
    settlement: Settlement,
}

/// Number of items after which the event task lets other tasks run.
const ITEMS_OF_A_TURN: u32 = 64;

impl Arrivals {
    /// Returns the next item.
    pub(crate) async fn next(&mut self) -> WaitingItem {
        if let Some(next) = self.next.take() {
            return next;
        }
        match self.until_turn.checked_sub(1) {
            Some(fewer) => self.until_turn = fewer,
            None => {
                self.until_turn = ITEMS_OF_A_TURN;
                self.settlement.note_handled();
                yield_now().await;
            }
        }
        match self.next_while_awake().await {
            Some(next) => next,
            None => poll_fn(|context| self.settlement.poll_take(context)).await,
        }
    }

    /// Makes the task wait awake for the next item, for this time from now. Other tasks run meanwhile.
    pub(crate) fn stay_awake(&mut self, time: Duration) {
        // The clock of the system: that of a runtime may be paused.
        self.awake_until = std::time::Instant::now().checked_add(time);
    }

    /// Returns the next item if it comes while the task is awake.
    async fn next_while_awake(&mut self) -> Option<WaitingItem> {
        let until = self.awake_until.take()?;
        while std::time::Instant::now() < until {
            match self.settlement.take() {
                Some(next) => return Some(next),
                None => yield_now().await,
            }
        }
        None
    }

    /// Collects the servers of losses that come next, within `window`. Any other item ends the
    /// collection and is not delayed.
    pub(crate) async fn further_losses(&mut self, window: Duration) -> Vec<ServerUri> {
        let deadline = Instant::now() + window;
        let mut lost = Vec::new();
        while let Ok(next) = timeout_at(deadline, self.next()).await {
            match next.item {
                QueuedItem::Lost(held, server) => lost.extend(held.get().then_some(server)),
                // The event task passes recent events to new handlers after this item too.
                QueuedItem::Registered => {}
                _ => {
                    self.next = Some(next);
                    break;
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_awake_lets_others_run_and_gets_items() {
        let (queue, mut arrivals) = EventQueue::new(1 << 20);
        for awake in [Duration::from_secs(3600), Duration::ZERO] {
            arrivals.stay_awake(awake);
            let queue = queue.clone();
            // On the only thread of this runtime, after the wait has begun.
            let put = tokio::spawn(async move { queue.put(QueuedItem::Registered, None) });
            let next = arrivals.next().await;
            assert!(matches!(next.item, QueuedItem::Registered));
            put.await.unwrap();
        }
    }
}
