//! A place where events change something for one who waits.
use crate::{Call, ClientError, lock, queue::QueuedItem};
use peal_model::{CommandCode, Event, Proc};
use peal_wire::ServerUri;
use std::sync::Mutex;
use tokio::sync::Notify;

/// Something that events change, and one who waits for that.
pub(super) struct EventWaiter<T> {
    state: Mutex<T>,
    /// Who brings the events.
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

    /// Something has arrived.
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

    /// Looks at it.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut lock(&self.state))
    }

    /// Looks at it, unless nothing will change it any more because the server is lost.
    pub(super) fn look<R>(&self, look: impl FnOnce(&mut T) -> R) -> Result<R, ClientError> {
        match lock(&self.lost).clone() {
            Some(server) => Err(ClientError::Lost {
                call: Call(CommandCode::Notify),
                server,
            }),
            None => Ok(self.with(look)),
        }
    }

    /// Waits until it may have changed since it was looked at.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}
