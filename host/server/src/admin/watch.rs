//! Administrators who watch events as they pass. Each has a seat of a few; one who does not read misses events, is told how many,
//! and holds nobody up.
use super::{
    protocol::{AdminReply, MAX_REPLY},
    watched_event::WatchedEvent,
};
use crate::notice::{Listener, ListenerItem, Notice, Notices};
use peal_model::Status;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many may watch at once.
const WATCHERS: usize = 16;

/// How many notices are turned into lines in one go.
const BATCH: usize = 64;

/// How much memory these may take, in bytes; one alone may be larger. Their lines may take a few times as much.
const BATCH_BYTES: usize = 1 << 20;

/// Where watchers come from.
pub(super) struct Watchers {
    seats: Arc<Semaphore>,
    notices: Notices,
}

/// Somebody who watches.
#[derive(Debug)]
pub(super) struct Watcher {
    listener: Listener,
    /// Which events; none means all.
    codes: Arc<[Status]>,
    _seat: OwnedSemaphorePermit,
}

impl Watchers {
    pub(super) fn new(notices: Notices) -> Watchers {
        Watchers {
            seats: Arc::new(Semaphore::new(WATCHERS)),
            notices,
        }
    }

    /// One more, who sees the events of these codes from now on; or why not.
    pub(super) fn admit(&self, codes: &[i32]) -> Result<Watcher, String> {
        let seat = self.seats.clone().try_acquire_owned();
        let seat = seat.map_err(|_| format!("{WATCHERS} watch already, more are not allowed"))?;
        let listener = self.notices.listen(Notice::is_passed);
        Ok(Watcher {
            listener,
            codes: codes.iter().copied().map(Status).collect(),
            _seat: seat,
        })
    }
}

impl Watcher {
    /// Waits for what happens next, and takes along some of what waits, so that many events need few writes. Nothing when nobody
    /// can tell any more.
    pub(super) async fn batch(&mut self) -> Option<Vec<ListenerItem>> {
        let mut batch = vec![self.listener.recv().await?];
        let mut size: usize = batch.iter().map(bytes).sum();
        while batch.len() < BATCH
            && size < BATCH_BYTES
            && let Some(heard) = self.listener.try_recv()
        {
            size = size.saturating_add(bytes(&heard));
            batch.push(heard);
        }
        Some(batch)
    }

    /// What was heard, as lines. What events carry may be much, and the thread that we are on serves everybody: another one does it.
    pub(super) async fn lines(&self, batch: Vec<ListenerItem>) -> Vec<u8> {
        let codes = self.codes.clone();
        let lines = move || {
            batch
                .into_iter()
                .flat_map(|heard| line(heard, &codes))
                .collect()
        };
        tokio::task::spawn_blocking(lines).await.unwrap_or_default()
    }
}

fn bytes(heard: &ListenerItem) -> usize {
    match heard {
        ListenerItem::Notice(notice) => notice.bytes(),
        ListenerItem::Missed(_) => 0,
    }
}

/// What is heard as a line; nothing if it is not asked for.
fn line(heard: ListenerItem, codes: &[Status]) -> Vec<u8> {
    let reply = match heard {
        ListenerItem::Missed(events) => AdminReply::Missed { events },
        ListenerItem::Notice(Notice::Passed { event, results, .. })
            if codes.is_empty() || codes.contains(&event.code) =>
        {
            AdminReply::Event(WatchedEvent::passed(&event, &results))
        }
        ListenerItem::Notice(_) => return Vec::new(),
    };
    encoded(&reply)
        .filter(|line| line.len() <= MAX_REPLY)
        .or_else(|| encoded(&AdminReply::Missed { events: 1 }))
        .unwrap_or_default()
}

/// A reply as a line.
pub(super) fn encoded(reply: &AdminReply) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(reply)
        .inspect_err(|error| tracing::error!(%error, "a reply cannot be said"))
        .ok()?;
    line.push(b'\n');
    Some(line)
}
