//! The way of events to the handlers: one queue for what servers send and for what the client raises for itself.
use crate::{observers::Observers, server_connection::LossDetection};
use peal_model::{Event, Size};
use peal_wire::{ServerUri, WireError};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, timeout_at},
};

/// What waits for the handlers.
#[derive(Debug)]
pub(crate) enum QueuedItem {
    /// An event, of a server or our own.
    Event(Event),
    /// A message of a server that could not be unpacked, or one to it that could not be packed.
    Garbled(ServerUri, Box<WireError>),
    /// A handler was registered, which may have to hear recent events.
    Registered,
    /// The end of a connection, which is a loss only of one that is held.
    Lost(LossDetection, ServerUri),
}

/// Something that waits, and the room that it takes.
type WaitingItem = (QueuedItem, Option<OwnedSemaphorePermit>);

/// The end at which things are put.
#[derive(Clone)]
pub(crate) struct EventQueue {
    arrive: mpsc::UnboundedSender<WaitingItem>,
    room: Arc<Semaphore>,
    bytes: u32,
    /// Who hears of what is put, before the handlers.
    pub(crate) observers: Observers,
}

impl EventQueue {
    /// A queue in which events may take so much memory, in bytes.
    pub(crate) fn new(bytes: usize) -> (EventQueue, Arrivals) {
        let bytes = u32::try_from(bytes.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let (arrive, arrivals) = mpsc::unbounded_channel();
        (
            EventQueue {
                arrive,
                room: Arc::new(Semaphore::new(bytes as usize)),
                bytes,
                observers: Observers::default(),
            },
            Arrivals {
                queue: arrivals,
                next: None,
            },
        )
    }

    /// Waits until there is room for it; an event larger than all the room waits for all of it.
    pub(crate) async fn room(&self, arrival: &QueuedItem) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        self.room
            .clone()
            .acquire_many_owned(self.weight(arrival))
            .await
            .ok()
    }

    /// Puts it into the queue if there is room at once.
    pub(crate) fn try_put(&self, arrival: QueuedItem) {
        match self
            .room
            .clone()
            .try_acquire_many_owned(self.weight(&arrival))
        {
            Ok(room) => self.put(arrival, Some(room)),
            Err(_) => tracing::warn!(?arrival, "no room for an internal event"),
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

    /// Puts it into the queue.
    pub(crate) fn put(&self, arrival: QueuedItem, room: Option<OwnedSemaphorePermit>) {
        self.observers.see(&arrival);
        // Without a reader the client is gone.
        let _ = self.arrive.send((arrival, room));
    }
}

/// The end at which things arrive.
pub(crate) struct Arrivals {
    queue: mpsc::UnboundedReceiver<WaitingItem>,
    /// What was looked at and comes next.
    next: Option<WaitingItem>,
}

impl Arrivals {
    /// What comes next; nothing when the client is gone.
    pub(crate) async fn next(&mut self) -> Option<WaitingItem> {
        match self.next.take() {
            Some(next) => Some(next),
            None => self.queue.recv().await,
        }
    }

    /// The servers whose losses come next, within so long. Whatever else comes is not held up and ends the row.
    pub(crate) async fn further_losses(&mut self, window: Duration) -> Vec<ServerUri> {
        let (deadline, mut lost) = (Instant::now() + window, Vec::new());
        while let Ok(Some(next)) = timeout_at(deadline, self.next()).await {
            match next {
                (QueuedItem::Lost(held, server), _) => lost.extend(held.get().then_some(server)),
                (QueuedItem::Registered, _) => {}
                other => {
                    self.next = Some(other);
                    break;
                }
            }
        }
        lost
    }
}
