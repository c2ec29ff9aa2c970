//! State of a sink, as plain data for metrics.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// State of a sink.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SinkHealth {
    /// Queued messages, including the one that is being delivered.
    pub queued: u64,
    /// Bytes of these.
    pub queued_bytes: u64,
    /// Delivered messages. A mail counts if it reached all recipients that were not given up.
    pub delivered: u64,
    /// Accepted messages that reached no recipient: refused permanently by the peer, too old, or
    /// lost at the end.
    pub given_up: u64,
    /// Recipients that the mail server refused permanently while other recipients got the mail.
    pub recipients_given_up: u64,
    /// Messages that were not accepted.
    pub refused: u64,
    /// Failed attempts that are repeated.
    pub retried: u64,
    /// The last error.
    pub last_error: Option<String>,
    /// Reachability of the peer.
    pub link: PeerReachability,
}

/// Use of the queues of sinks by one user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SinkUse {
    /// Messages that are not delivered yet.
    pub messages: usize,
    /// Bytes of these.
    pub bytes: usize,
    /// Messages that were refused because of the user's share.
    pub refused: u64,
}

/// Last known reachability of a sink's peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeerReachability {
    /// No message has been delivered yet, or the connection was closed in good order.
    #[default]
    Idle,
    /// The last message was delivered.
    Connected,
    /// The last attempt failed to reach the peer.
    Lost,
}

/// A [`SinkHealth`] shared by several threads.
#[derive(Debug, Default)]
pub(crate) struct SharedHealth(Mutex<SinkHealth>);

impl SharedHealth {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SinkHealth> {
        // The data are plain numbers, valid even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
