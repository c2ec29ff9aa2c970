//! Items of the queue to the handlers.
use peal_model::Event;
use peal_wire::{ServerUri, WireError};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Flag that a connection is held. The end of a connection is a loss only while it is held: neither
/// before it was added nor after it was detached.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossDetection(Arc<AtomicBool>);

impl LossDetection {
    /// Sets the flag.
    pub(crate) fn set(&self, loss_detection: bool) {
        self.0.store(loss_detection, Ordering::SeqCst);
    }

    /// Returns the flag.
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Item that waits for the handlers.
#[derive(Debug)]
pub(crate) enum QueuedItem {
    /// Event of a server or of this client.
    Event(Event),
    /// Message of a server that could not be unpacked, or one to it that could not be packed.
    Garbled(ServerUri, Box<WireError>),
    /// Registration of a handler, which may have to receive recent events.
    Registered,
    /// End of a connection. It is a loss only if the connection is held.
    Lost(LossDetection, ServerUri),
}
