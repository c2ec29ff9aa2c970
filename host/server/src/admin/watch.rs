//! Administrators that watch events. A watcher that does not read misses
//! events, receives the number of missed events, and delays no other.
use super::{
    protocol::{AdminReply, MAX_REPLY},
    watched_event::WatchedEvent,
    watcher_shares::WatcherPermit,
};
use crate::notice::{Listener, ListenerItem, Notice, Notices};
use peal_model::Status;
use std::sync::Arc;

/// Upper bound of notices in one batch.
const BATCH: usize = 64;

/// Memory at which a batch ends, in bytes. A single larger notice is still sent. The lines of a
/// batch may take a few times as much.
const BATCH_BYTES: usize = 1 << 20;

/// Watcher of events.
#[derive(Debug)]
pub(super) struct Watcher {
    listener: Listener,
    /// Codes of the watched events; empty for all.
    codes: Arc<[Status]>,
    _permit: WatcherPermit,
}

impl Watcher {
    /// Creates a watcher that receives the events of these codes from now on.
    pub(super) fn new(notices: &Notices, codes: &[i32], permit: WatcherPermit) -> Watcher {
        Watcher {
            listener: notices.listen(Notice::is_passed),
            codes: codes.iter().copied().map(Status).collect(),
            _permit: permit,
        }
    }

    /// Waits for the next notice, and adds waiting ones to the batch, so that many events need few
    /// writes. Returns none when no notice can follow.
    pub(super) async fn batch(&mut self) -> Option<Vec<ListenerItem>> {
        let mut batch = vec![self.listener.recv().await?];
        let mut size: usize = batch.iter().map(bytes).sum();
        while batch.len() < BATCH
            && size < BATCH_BYTES
            && let Some(item) = self.listener.try_recv()
        {
            size = size.saturating_add(bytes(&item));
            batch.push(item);
        }
        Some(batch)
    }

    /// Encodes a batch as lines. Runs on a blocking thread, because events may be large and the
    /// current thread also serves other connections.
    pub(super) async fn lines(&self, batch: Vec<ListenerItem>) -> Vec<u8> {
        let codes = self.codes.clone();
        let lines = move || {
            batch
                .into_iter()
                .flat_map(|item| line(item, &codes))
                .collect()
        };
        tokio::task::spawn_blocking(lines).await.unwrap_or_default()
    }
}

fn bytes(item: &ListenerItem) -> usize {
    match item {
        ListenerItem::Notice(notice) => notice.bytes(),
        ListenerItem::Missed(_) => 0,
    }
}

/// Encodes an item as a line; empty if the watcher did not request the event.
fn line(item: ListenerItem, codes: &[Status]) -> Vec<u8> {
    let reply = match item {
        ListenerItem::Missed(events) => AdminReply::Missed { events },
        ListenerItem::Notice(Notice::Passed { event, results, .. })
            if codes.is_empty() || codes.contains(&event.code) =>
        {
            AdminReply::Event(WatchedEvent::passed(&event, &results))
        }
        ListenerItem::Notice(_) => return Vec::new(),
    };
    // An event that is longer than a reply may be, or that cannot be encoded, counts as missed.
    encoded(&reply)
        .filter(|line| line.len() <= MAX_REPLY)
        .or_else(|| encoded(&AdminReply::Missed { events: 1 }))
        .unwrap_or_default()
}

/// Encodes a reply as a line.
pub(super) fn encoded(reply: &AdminReply) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(reply)
        .inspect_err(|error| tracing::error!(%error, "admin reply not encoded"))
        .ok()?;
    line.push(b'\n');
    Some(line)
}
