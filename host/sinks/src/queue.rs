//! What waits for a peer: bounded in messages and bytes, in memory, and in the store where it must not be forgotten.
use crate::{
    QueueBounds, QueueDurability, Retry, SinkHealth, SinkWriteError, health::SharedHealth,
};
use peal_store::SinkQueue;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A message, and whom it is for: what is for one peer is in vain where that cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct QueuedMessage {
    /// The peer.
    pub(crate) peer: String,
    /// What is to be known to deliver it, as text that the carrier understands.
    pub(crate) head: String,
    /// What is to be delivered.
    pub(crate) body: Vec<u8>,
}

impl QueuedMessage {
    fn size(&self) -> usize {
        self.head.len().saturating_add(self.body.len())
    }
}

/// A message that waits.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    /// By which the store knows it, if it does.
    pub(crate) id: Option<i64>,
    /// When it was accepted, in seconds since the epoch.
    pub(crate) accepted: u64,
    pub(crate) parcel: QueuedMessage,
    /// How often it, and not its peer, was the reason of a failure.
    failures: u32,
    /// Not before.
    due: Option<Instant>,
    /// What it counts for.
    size: usize,
}

/// Peers that could not be reached, how often, and when to try again.
type Pauses = BTreeMap<String, (u32, Instant)>;

#[derive(Debug, Default)]
struct QueueState {
    /// Where messages are kept, as long as the worker lives: who holds on to a sink that was closed keeps nothing from the next.
    outbox: Option<SinkQueue>,
    /// What the store has still although it is done with, because that could not be written.
    stale: Vec<i64>,
    entries: VecDeque<QueueEntry>,
    pauses: Pauses,
    /// What waits, is being written to the store, or is being delivered.
    messages: usize,
    bytes: usize,
    /// When it is over, once that is known.
    until: Option<Instant>,
    /// The worker has ended.
    is_done: bool,
}

/// What a worker is to do next.
pub(crate) enum WorkerStep {
    /// Deliver this.
    Deliver(Box<QueueEntry>),
    /// Nothing has been due for this long: time to look around.
    Nothing,
    /// End. What is left is lost, unless it is in the store.
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
    /// Something has changed.
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

    /// Accepts a message: it is in the store, where there is one, when this returns.
    pub(crate) fn accept(
        &self,
        parcel: QueuedMessage,
        gauge: &SharedHealth,
    ) -> Result<(), SinkWriteError> {
        let size = parcel.size();
        let outbox = self.reserve(size)?;
        let accepted = now();
        // Others go on meanwhile.
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
            // It ended meanwhile. What is in the store is delivered by whoever comes next.
            return if id.is_some() {
                Ok(())
            } else {
                Err(self.closed())
            };
        }
        // The worker knows already when to go on with a peer that cannot be reached, if something waits for it; and to see that again
        // it would look through all that waits.
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
        state.tell(gauge);
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

    /// Takes over what others left in the store, even beyond the bounds: it was accepted once.
    pub(crate) fn claim(&self, peer_of: impl Fn(&str) -> String, gauge: &SharedHealth) {
        let Some(outbox) = self.outbox() else { return };
        let claimed = match outbox.claim() {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(sink = self.name, %error, "what was left to be delivered cannot be read");
                return;
            }
        };
        if !claimed.is_empty() {
            tracing::info!(
                sink = self.name,
                messages = claimed.len(),
                "what was left to be delivered is delivered now"
            );
        }
        let mut state = self.lock();
        for message in claimed {
            let parcel = QueuedMessage {
                peer: peer_of(&message.head),
                head: message.head,
                body: message.body,
            };
            let size = parcel.size();
            let (id, accepted) = (Some(message.id), message.accepted);
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
        state.tell(gauge);
    }

    /// Waits for something to be due, no longer than this.
    pub(crate) fn next(&self, patience: Duration) -> WorkerStep {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            // At its end each message has had its attempt, and with a durable queue none is waited for.
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

    /// A message is not to be delivered any more: it was, or never will be. Which of these is counted at the same moment.
    pub(crate) fn finish(
        &self,
        entry: &QueueEntry,
        gauge: &SharedHealth,
        count: impl FnOnce(&mut SinkHealth),
    ) {
        let stale = entry.id.filter(|id| !self.forget(*id));
        let mut state = self.lock();
        state.release(entry.size);
        state.stale.extend(stale);
        let mut health = gauge.lock();
        count(&mut health);
        state.tell_in(&mut health);
    }

    /// Has the store forget a message; says whether it has.
    fn forget(&self, id: i64) -> bool {
        let Some(outbox) = self.outbox() else {
            return true;
        };
        let forgotten = outbox.remove(id).inspect_err(
            |error| tracing::warn!(sink = self.name, %error, "a message that is done with stays in the store for now"),
        );
        forgotten.is_ok()
    }

    /// Has the store forget what it could not before: what it has at the end is delivered once more.
    pub(crate) fn tidy(&self) {
        let mut stale = std::mem::take(&mut self.lock().stale);
        stale.retain(|id| !self.forget(*id));
        self.lock().stale.extend(stale);
    }

    /// A message is to be tried again later. Others may go before it.
    pub(crate) fn put_back(&self, mut entry: QueueEntry) {
        entry.failures = entry.failures.saturating_add(1);
        entry.due = Instant::now().checked_add(self.retry.pause(entry.failures));
        self.lock().entries.push_front(entry);
    }

    /// A message is to be tried again when its peer is.
    pub(crate) fn put_first(&self, entry: QueueEntry) {
        self.lock().entries.push_front(entry);
    }

    /// A peer cannot be reached: nothing of it is tried for a while.
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

    /// A peer can be reached.
    pub(crate) fn reached(&self, peer: &str) {
        self.lock().pauses.remove(peer);
    }

    /// What is to be known to deliver a message has changed.
    pub(crate) fn rewrite(&self, entry: &QueueEntry) {
        if let (Some(outbox), Some(id)) = (self.outbox(), entry.id)
            && let Err(error) = outbox.rewrite(id, &entry.parcel.head)
        {
            tracing::warn!(sink = self.name, %error, "who has got a message cannot be noted: it may be repeated");
        }
    }

    /// Accepts nothing more, and has the worker end by then.
    pub(crate) fn close(&self, until: Instant) {
        let mut state = self.lock();
        state.until = Some(state.until.map_or(until, |before| before.min(until)));
        self.changed.notify_all();
    }

    /// The worker has ended: counts the messages that are lost with it, for they are nowhere else, and says how many.
    pub(crate) fn done(&self, gauge: &SharedHealth) -> usize {
        let mut state = self.lock();
        let lost = match self.durability {
            QueueDurability::Memory => state.entries.len(),
            QueueDurability::Store => 0,
        };
        state.outbox = None;
        state.entries.clear();
        (state.messages, state.bytes, state.is_done) = (0, 0, true);
        state.until.get_or_insert_with(Instant::now);
        let mut health = gauge.lock();
        health.given_up += lost as u64;
        state.tell_in(&mut health);
        drop(health);
        self.changed.notify_all();
        lost
    }

    /// Waits until the worker has ended, no longer than until then; says whether it has.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut state = self.lock();
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
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When nothing waits, this is how long.
const EVER: Duration = Duration::from_secs(3600);

impl QueueState {
    /// What is due first, and how long that takes. Of what is due now, the one that came first.
    fn earliest(&self, now: Instant) -> (Option<usize>, Duration) {
        let mut found = (None, EVER);
        for (at, entry) in self.entries.iter().enumerate() {
            let paused = self.pauses.get(&entry.parcel.peer).map(|pause| pause.1);
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

    fn tell(&self, gauge: &SharedHealth) {
        self.tell_in(&mut gauge.lock());
    }

    fn tell_in(&self, health: &mut SinkHealth) {
        (health.queued, health.queued_bytes) = (self.messages as u64, self.bytes as u64);
    }
}

/// In seconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
