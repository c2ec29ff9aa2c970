//! State that events change, with a notification for a task that waits for a change.
use crate::{Call, ClientError, lock, queued_item::QueuedItem};
use peal_model::{CommandCode, Event, Proc};
use peal_wire::ServerUri;
use std::sync::Mutex;
use tokio::sync::Notify;

/// State that events change, and the notification of its waiter.
pub(super) struct EventWaiter<T> {
    state: Mutex<T>,
    /// Server that sends the events.
    server: Option<Proc>,
    lost: Mutex<Option<ServerUri>>,
    changed: Notify,
}

impl<T> EventWaiter<T> {
    pub(super) fn new(state: T, server: Option<Proc>) -> EventWaiter<T> {
        EventWaiter {
            state: Mutex::new(state),
            server,
            lost: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Updates the state by an item of the queue, and notifies the waiter.
    pub(super) fn note(&self, arrival: &QueuedItem, see: impl FnOnce(&mut T, &Event)) {
        match arrival {
            QueuedItem::Event(event) => see(&mut lock(&self.state), event),
            QueuedItem::Lost(held, server)
                if held.get() && self.server.as_ref() == Some(&server.proc) =>
            {
                *lock(&self.lost) = Some(server.clone());
            }
            QueuedItem::Lost(..) | QueuedItem::Garbled(..) | QueuedItem::Registered => return,
        }
        self.changed.notify_one();
    }

    /// Calls `look` with the state.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut lock(&self.state))
    }

    /// Calls `look` with the state, unless the server is lost, after which no event will change it.
    pub(super) fn with_state<R>(&self, look: impl FnOnce(&mut T) -> R) -> Result<R, ClientError> {
        match lock(&self.lost).clone() {
            Some(server) => Err(ClientError::Lost {
                call: Call(CommandCode::Notify),
                server,
            }),
            None => Ok(self.with(look)),
        }
    }

    /// Waits until the state may have changed since it was last read.
    pub(super) async fn changed(&self) {
        // A notification that came before this call is stored, so no change since the last look is
        // missed.
        self.changed.notified().await;
    }
}
