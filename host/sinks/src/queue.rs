//! Queue of messages for a peer: bounded in messages and bytes, in memory, and with durability
//! `store` in the store too.
use crate::{SinkHealth, SinkWriteError, health::SharedHealth};
use peal_store::SinkQueue;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Bounds of a queue, including the message that is being delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueBounds {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum size of all messages in bytes.
    pub bytes: usize,
}

impl Default for QueueBounds {
    fn default() -> Self {
        QueueBounds {
            messages: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// Durability of accepted messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QueueDurability {
    /// Messages are in memory and are lost with the process.
    #[default]
    Memory,
    /// Messages are written to the store before the sender gets the result, and survive the end of
    /// the process.
    Store,
}

/// Repetition of failed deliveries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Pause after the first failure. It doubles with each further failure.
    pub first: Duration,
    /// Maximum pause.
    pub longest: Duration,
    /// Age at which a message is given up after a failure.
    pub give_up: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(300),
            give_up: Duration::from_secs(5 * 24 * 3600),
        }
    }
}

impl Retry {
    /// Returns the pause after this number of failures.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }
}

/// A message and its peer. If a peer is unreachable, all of its messages wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueuedMessage {
    /// The peer.
    pub(crate) peer: String,
    /// Data for the delivery, as text that the transport understands.
    pub(crate) head: String,
    /// The message.
    pub(crate) body: Vec<u8>,
}

impl QueuedMessage {
    fn size(&self) -> usize {
        self.head.len().saturating_add(self.body.len())
    }
}

/// A queued message.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// The id in the store, if it is there.
    pub(crate) id: Option<i64>,
    /// The time of acceptance in seconds since the epoch.
    pub(crate) accepted: u64,
    pub(crate) parcel: QueuedMessage,
    /// The number of failures caused by the message itself, not by its peer.
    failures: u32,
    /// The earliest time of the next attempt.
    due: Option<Instant>,
    /// The size that counts against the bounds.
    size: usize,
}

/// Unreachable peers: the number of failed attempts and the time of the next one.
type Pauses = BTreeMap<String, (u32, Instant)>;

#[derive(Debug, Default)]
struct QueueState {
    /// The queue in the store. It is dropped with the worker, so that handles of a closed sink do
    /// not keep messages from the next instance.
    outbox: Option<SinkQueue>,
    /// Finished messages that could not be removed from the store yet.
    stale: Vec<i64>,
    entries: VecDeque<QueueEntry>,
    pauses: Pauses,
    /// Number of messages that are queued, being written to the store, or being delivered.
    messages: usize,
    bytes: usize,
    /// The time at which the queue ends, once it is closed.
    until: Option<Instant>,
    /// True after the worker has ended.
    is_done: bool,
}

/// Next step of a worker.
pub(crate) enum WorkerStep {
    /// Deliver this message.
    Deliver(Box<QueueEntry>),
    /// No message was due within the given time: check the store.
    Nothing,
    /// End. The remaining messages are lost, unless they are in the store.
    End,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct DeliveryQueue {
    name: String,
    bounds: QueueBounds,
    retry: Retry,
    durability: QueueDurability,
    state: Mutex<QueueState>,
    /// Signals a change of the state.
    changed: Condvar,
}

impl DeliveryQueue {
    pub(crate) fn new(
        name: String,
        bounds: QueueBounds,
        retry: Retry,
        outbox: Option<SinkQueue>,
    ) -> DeliveryQueue {
        let durability = if outbox.is_some() {
            QueueDurability::Store
        } else {
            QueueDurability::Memory
        };
        let state = Mutex::new(QueueState {
            outbox,
            ..QueueState::default()
        });
        DeliveryQueue {
            name,
            bounds,
            retry,
            durability,
            state,
            changed: Condvar::new(),
        }
    }

    pub(crate) fn retry(&self) -> &Retry {
        &self.retry
    }

    /// Accepts a message. When this returns, it is in the store, if there is one.
    pub(crate) fn accept(
        &self,
        parcel: QueuedMessage,
        gauge: &SharedHealth,
    ) -> Result<(), SinkWriteError> {
        let size = parcel.size();
        // Reserve before the write: several callers could otherwise pass the bound together.
        let outbox = self.reserve(size)?;
        let accepted = now();
        // The lock is not held during the write, so that other callers are not delayed.
        let kept = outbox
            .map(|outbox| outbox.add(accepted, &parcel.head, &parcel.body))
            .transpose();
        let mut state = self.lock();
        let id = kept.map_err(|source| {
            state.release(size);
            SinkWriteError::Store {
                name: self.name.clone(),
                source,
            }
        })?;
        if state.is_done {
            // The worker ended meanwhile. A message in the store is delivered by the next instance.
            return if id.is_some() {
                Ok(())
            } else {
                Err(self.closed())
            };
        }
        // The worker already waits for the end of this peer's pause. Waking it would only make it
        // search the whole queue again.
        let is_known = state
            .entries
            .back()
            .is_some_and(|last| last.parcel.peer == parcel.peer)
            && state.pauses.contains_key(&parcel.peer);
        state.entries.push_back(QueueEntry {
            id,
            accepted,
            parcel,
            failures: 0,
            due: None,
            size,
        });
        state.update_health(gauge);
        if !is_known {
            self.changed.notify_all();
        }
        Ok(())
    }

    fn reserve(&self, size: usize) -> Result<Option<SinkQueue>, SinkWriteError> {
        let mut state = self.lock();
        if state.until.is_some() {
            return Err(self.closed());
        }
        if state.messages >= self.bounds.messages
            || state.bytes.saturating_add(size) > self.bounds.bytes
        {
            let QueueBounds { messages, bytes } = self.bounds;
            return Err(SinkWriteError::Full {
                name: self.name.clone(),
                messages,
                bytes,
            });
        }
        state.messages = state.messages.saturating_add(1);
        state.bytes = state.bytes.saturating_add(size);
        Ok(state.outbox.clone())
    }

    fn closed(&self) -> SinkWriteError {
        SinkWriteError::Closed {
            name: self.name.clone(),
        }
    }

    fn outbox(&self) -> Option<SinkQueue> {
        self.lock().outbox.clone()
    }

    /// Claims messages that ended processes left in the store, even beyond the bounds: they were
    /// accepted.
    pub(crate) fn claim(&self, peer_of: impl Fn(&str) -> String, gauge: &SharedHealth) {
        let Some(outbox) = self.outbox() else { return };
        let claimed = match outbox.claim() {
            Ok(claimed) => claimed,
            // The messages stay in the store, and the worker tries again at its next check.
            Err(error) => {
                tracing::warn!(sink = self.name, %error, "leftover messages not read from store");
                return;
            }
        };
        if !claimed.is_empty() {
            tracing::info!(
                sink = self.name,
                messages = claimed.len(),
                "leftover messages taken over for delivery"
            );
        }
        // Locked only now, because the store may block.
        let mut state = self.lock();
        for message in claimed {
            let parcel = QueuedMessage {
                peer: peer_of(&message.head),
                head: message.head,
                body: message.body,
            };
            let size = parcel.size();
            let id = Some(message.id);
            let accepted = message.accepted;
            state.messages = state.messages.saturating_add(1);
            state.bytes = state.bytes.saturating_add(size);
            state.entries.push_back(QueueEntry {
                id,
                accepted,
                parcel,
                failures: 0,
                due: None,
                size,
            });
        }
        state.update_health(gauge);
    }

    /// Waits until a message is due, at most for `patience`.
    pub(crate) fn next(&self, patience: Duration) -> WorkerStep {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            // After the end each message has had an attempt; a durable queue does not wait for
            // further ones.
            if state.until.is_some_and(|until| now >= until) {
                return WorkerStep::End;
            }
            let (at, wait) = state.earliest(now);
            if wait.is_zero()
                && let Some(entry) = at.and_then(|at| state.entries.remove(at))
            {
                return WorkerStep::Deliver(Box::new(entry));
            }
            let wait = match state.until {
                Some(until) => {
                    let left = until.saturating_duration_since(now);
                    // A durable queue leaves its messages to the next start. A queue in memory
                    // tries as long as there is time.
                    if at.is_none() || self.durability == QueueDurability::Store || wait >= left {
                        return WorkerStep::End;
                    }
                    wait
                }
                None => {
                    let left = patience.saturating_sub(start.elapsed());
                    if left.is_zero() {
                        return WorkerStep::Nothing;
                    }
                    wait.min(left)
                }
            };
            state = self
                .changed
                .wait_timeout(state, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Removes a message that was delivered or given up, and updates the counters at the same time.
    pub(crate) fn finish(
        &self,
        entry: &QueueEntry,
        gauge: &SharedHealth,
        count: impl FnOnce(&mut SinkHealth),
    ) {
        // Without the lock, which `forget` takes, and because the store may block.
        let stale = entry.id.filter(|id| !self.forget(*id));
        let mut state = self.lock();
        state.release(entry.size);
        state.stale.extend(stale);
        let mut health = gauge.lock();
        count(&mut health);
        state.write_health(&mut health);
    }

    /// Removes a message from the store. Returns true on success.
    fn forget(&self, id: i64) -> bool {
        let Some(outbox) = self.outbox() else {
            return true;
        };
        let forgotten = outbox.remove(id).inspect_err(
            |error| tracing::warn!(sink = self.name, %error, "finished message not removed from store yet"),
        );
        forgotten.is_ok()
    }

    /// Retries the removal of finished messages. Those that remain at the end are delivered again.
    pub(crate) fn retry_removals(&self) {
        let mut stale = std::mem::take(&mut self.lock().stale);
        stale.retain(|id| !self.forget(*id));
        self.lock().stale.extend(stale);
    }

    /// Queues a message for a later attempt. Other messages may precede it.
    pub(crate) fn put_back(&self, mut entry: QueueEntry) {
        entry.failures = entry.failures.saturating_add(1);
        entry.due = Instant::now().checked_add(self.retry.pause(entry.failures));
        self.lock().entries.push_front(entry);
    }

    /// Queues a message as the first one of its paused peer.
    pub(crate) fn put_first(&self, entry: QueueEntry) {
        self.lock().entries.push_front(entry);
    }

    /// Pauses all messages of an unreachable peer.
    pub(crate) fn pause(&self, peer: &str) {
        let mut state = self.lock();
        let failures = state
            .pauses
            .get(peer)
            .map_or(0, |pause| pause.0)
            .saturating_add(1);
        if let Some(until) = Instant::now().checked_add(self.retry.pause(failures)) {
            state.pauses.insert(peer.to_owned(), (failures, until));
        }
    }

    /// Ends the pause of a peer.
    pub(crate) fn reached(&self, peer: &str) {
        self.lock().pauses.remove(peer);
    }

    /// Stores changed data for the delivery of a message.
    pub(crate) fn rewrite(&self, entry: &QueueEntry) {
        if let (Some(outbox), Some(id)) = (self.outbox(), entry.id)
            && let Err(error) = outbox.rewrite(id, &entry.parcel.head)
        {
            tracing::warn!(sink = self.name, %error, "remaining recipients not stored, the message may be repeated");
        }
    }

    /// Closes the queue; the worker ends at `until` at the latest.
    pub(crate) fn close(&self, until: Instant) {
        let mut state = self.lock();
        state.until = Some(state.until.map_or(until, |before| before.min(until)));
        self.changed.notify_all();
    }

    /// Marks the worker as ended. Counts queued messages that are not in the store as lost and
    /// returns their number.
    pub(crate) fn done(&self, gauge: &SharedHealth) -> usize {
        let mut state = self.lock();
        let lost = match self.durability {
            QueueDurability::Memory => state.entries.len(),
            QueueDurability::Store => 0,
        };
        // The last user of the outbox gives up the lock by which its messages count as held.
        state.outbox = None;
        state.entries.clear();
        (state.messages, state.bytes, state.is_done) = (0, 0, true);
        // The worker may have ended by a panic: nothing may be accepted any more.
        state.until.get_or_insert_with(Instant::now);
        let mut health = gauge.lock();
        health.given_up += lost as u64;
        state.write_health(&mut health);
        drop(health);
        self.changed.notify_all();
        lost
    }

    /// Waits for the end of the worker. Returns false if it has not ended by `until`.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut state = self.lock();
        // A condition variable may wake without a signal.
        while !state.is_done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No code panics while it holds the lock, so a poisoned state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time to wait if no message is queued.
const EVER: Duration = Duration::from_secs(3600);

impl QueueState {
    /// Returns the first message to become due and the time until then. Of several due ones, the
    /// oldest.
    fn earliest(&self, now: Instant) -> (Option<usize>, Duration) {
        let mut found = (None, EVER);
        for (at, entry) in self.entries.iter().enumerate() {
            let paused = self.pauses.get(&entry.parcel.peer).map(|pause| pause.1);
            // A pause of the peer delays all of its messages, so that an absent peer is tried once
            // for all of them.
            let due = entry.due.into_iter().chain(paused).max();
            let wait = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
            if found.0.is_none() || wait < found.1 {
                found = (Some(at), wait);
            }
            if wait.is_zero() {
                break;
            }
        }
        found
    }

    fn release(&mut self, size: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }

    fn update_health(&self, gauge: &SharedHealth) {
        self.write_health(&mut gauge.lock());
    }

    fn write_health(&self, health: &mut SinkHealth) {
        (health.queued, health.queued_bytes) = (self.messages as u64, self.bytes as u64);
    }
}

/// Returns the time in seconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let first = Duration::from_secs(1);
        let longest = Duration::from_secs(5);
        let retry = Retry {
            first,
            longest,
            ..Retry::default()
        };
        let pauses: Vec<u64> = [1, 2, 3, 4, 40, u32::MAX]
            .map(|failures| retry.pause(failures).as_secs())
            .into();
        assert_eq!(pauses, [1, 2, 4, 5, 5, 5]);
    }
}
