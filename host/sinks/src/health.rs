//! How a sink fares, as plain data for metrics.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a sink fares.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SinkHealth {
    /// Messages that wait, what is being delivered included.
    pub queued: u64,
    /// Bytes of these.
    pub queued_bytes: u64,
    /// Messages that were delivered: a mail to all who were not given up.
    pub delivered: u64,
    /// Messages that were accepted and reach nobody: refused for good by the peer, too old, or lost at the end.
    pub given_up: u64,
    /// Recipients of mails whom the mail server refused for good, where others got the mail.
    pub recipients_given_up: u64,
    /// Messages that were not accepted.
    pub refused: u64,
    /// Attempts that failed and are or were to be repeated.
    pub retried: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Whether the peer can be reached.
    pub link: PeerReachability,
}

/// Whether a sink's peer can be reached, as far as was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PeerReachability {
    /// Nothing has been delivered yet, or the connection was closed in good order.
    #[default]
    Idle,
    /// The last message was delivered.
    Connected,
    /// The last attempt found nobody.
    Lost,
}

/// A [`SinkHealth`] that several threads keep.
#[derive(Debug, Default)]
pub(crate) struct SharedHealth(Mutex<SinkHealth>);

impl SharedHealth {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SinkHealth> {
        // Plain numbers: nothing in here is half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
