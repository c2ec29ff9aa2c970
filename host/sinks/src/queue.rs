//! Queue of messages for a peer: bounded in messages and bytes, in memory, and with durability
//! `store` in the store too.
use crate::{SinkHealth, SinkUse, SinkWriteError, health::SharedHealth};
use peal_store::SinkQueue;
use rustix::rand::{GetRandomFlags, getrandom};
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Number of users whose refusals are counted. Refusals of further users are counted for nobody.
const MAX_COUNTED_USERS: usize = 4096;

/// Bounds of a queue, including the message that is being delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueBounds {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum size of all messages in bytes.
    pub bytes: usize,
    /// Maximum number of messages of one user.
    pub user_messages: usize,
    /// Maximum size of all messages of one user in bytes.
    pub user_bytes: usize,
}

impl Default for QueueBounds {
    fn default() -> Self {
        QueueBounds {
            messages: 10_000,
            bytes: 16 << 20,
            user_messages: 2_500,
            user_bytes: 4 << 20,
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
    /// The user that is charged for it, if there is one.
    uid: Option<u32>,
    pub(crate) parcel: QueuedMessage,
    /// The number of failures caused by the message itself, not by its peer.
    failures: u32,
    /// The earliest time of the next attempt.
    due: Option<Instant>,
    /// The size that counts against the bounds.
    size: usize,
}

impl QueueEntry {
    fn new(id: Option<i64>, accepted: u64, uid: Option<u32>, parcel: QueuedMessage) -> QueueEntry {
        QueueEntry {
            id,
            accepted,
            uid,
            size: parcel.size(),
            parcel,
            failures: 0,
            due: None,
        }
    }
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
    /// Messages of each user. Users without any are removed.
    entries: BTreeMap<Option<u32>, VecDeque<QueueEntry>>,
    /// User of the message that was taken last. The user after it is next.
    last_user: Option<Option<u32>>,
    /// Holdings of each user. Users without any are removed.
    users: BTreeMap<u32, UserLoad>,
    /// Number of refusals because of the share of a user.
    refusals: BTreeMap<u32, u64>,
    pauses: Pauses,
    /// Number of messages that are queued, being written to the store, or being delivered.
    messages: usize,
    bytes: usize,
    /// The time at which the queue ends, once it is closed.
    until: Option<Instant>,
    /// True after the worker has ended.
    is_done: bool,
}

/// Messages of one user that are queued, being written to the store, or being delivered.
#[derive(Clone, Copy, Default, Debug)]
struct UserLoad {
    messages: usize,
    bytes: usize,
}

/// Place of a message in a queue: its user, and its number among the messages of this user.
#[derive(Clone, Copy, Debug)]
struct EntryPlace {
    user: Option<u32>,
    at: usize,
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

    /// Accepts a message for which this user is charged. When this returns, it is in the store, if
    /// there is one.
    pub(crate) fn accept(
        &self,
        uid: Option<u32>,
        parcel: QueuedMessage,
        gauge: &SharedHealth,
    ) -> Result<(), SinkWriteError> {
        let size = parcel.size();
        // Reserve before the write: several callers could otherwise pass the bound together.
        let outbox = self.reserve(uid, size)?;
        let accepted = now();
        // The lock is not held during the write, so that other callers are not delayed.
        let kept = outbox
            .map(|outbox| outbox.add(accepted, uid, &parcel.head, &parcel.body))
            .transpose();
        let mut state = self.lock();
        let id = kept.map_err(|source| {
            state.release(uid, size);
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
            .get(&uid)
            .and_then(VecDeque::back)
            .is_some_and(|last| last.parcel.peer == parcel.peer)
            && state.pauses.contains_key(&parcel.peer);
        state.append(QueueEntry::new(id, accepted, uid, parcel));
        state.update_health(gauge);
        if !is_known {
            self.changed.notify_all();
        }
        Ok(())
    }

    fn reserve(&self, uid: Option<u32>, size: usize) -> Result<Option<SinkQueue>, SinkWriteError> {
        let mut state = self.lock();
        if state.until.is_some() {
            return Err(self.closed());
        }
        let QueueBounds {
            messages,
            bytes,
            user_messages,
            user_bytes,
        } = self.bounds;
        if let Some(uid) = uid {
            let own = state.users.get(&uid).copied().unwrap_or_default();
            if own.messages >= user_messages || own.bytes.saturating_add(size) > user_bytes {
                state.count_refusal(uid);
                return Err(SinkWriteError::UserFull {
                    name: self.name.clone(),
                    messages: user_messages,
                    bytes: user_bytes,
                });
            }
        }
        if state.messages >= messages || state.bytes.saturating_add(size) > bytes {
            return Err(SinkWriteError::Full {
                name: self.name.clone(),
                messages,
                bytes,
            });
        }
        state.charge(uid, size);
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
            let entry = QueueEntry::new(Some(message.id), message.accepted, message.uid, parcel);
            state.charge(entry.uid, entry.size);
            state.append(entry);
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
                && let Some(entry) = at.and_then(|at| state.take(at))
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
        state.release(entry.uid, entry.size);
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
        self.put_first(entry);
    }

    /// Queues a message as the first one of its user.
    pub(crate) fn put_first(&self, entry: QueueEntry) {
        let mut state = self.lock();
        let own = state.entries.entry(entry.uid).or_default();
        own.push_front(entry);
    }

    /// Returns what each user holds in the queue, and how often each was refused.
    pub(crate) fn use_by_user(&self) -> BTreeMap<u32, SinkUse> {
        let state = self.lock();
        let mut users: BTreeMap<u32, SinkUse> = BTreeMap::new();
        for (uid, load) in &state.users {
            let user = users.entry(*uid).or_default();
            (user.messages, user.bytes) = (load.messages, load.bytes);
        }
        for (uid, count) in &state.refusals {
            users.entry(*uid).or_default().refused = *count;
        }
        users
    }

    pub(crate) fn bounds(&self) -> QueueBounds {
        self.bounds
    }

    /// Pauses all messages of a peer that is unreachable, or that asks to wait at least for this
    /// long. No pause is longer than the longest one of the settings.
    pub(crate) fn pause(&self, peer: &str, at_least: Duration) {
        let mut state = self.lock();
        let failures = state
            .pauses
            .get(peer)
            .map_or(0, |pause| pause.0)
            .saturating_add(1);
        let pause = self.retry.pause(failures);
        let pause = pause.max(at_least).min(self.retry.longest);
        if let Some(until) = Instant::now().checked_add(pause) {
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
            QueueDurability::Memory => state.entries.values().map(VecDeque::len).sum(),
            QueueDurability::Store => 0,
        };
        // The last user of the outbox gives up the lock by which its messages count as held.
        state.outbox = None;
        state.entries.clear();
        state.users.clear();
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
    /// Queues a message as the last one of its user.
    fn append(&mut self, entry: QueueEntry) {
        let own = self.entries.entry(entry.uid).or_default();
        own.push_back(entry);
    }

    /// Returns the first message to become due and the time until then. Of several due ones, the
    /// oldest of the user whose turn it is.
    fn earliest(&self, now: Instant) -> (Option<EntryPlace>, Duration) {
        let mut found = (None, EVER);
        let after = self.last_user.map_or(Bound::Unbounded, Bound::Excluded);
        let until = self.last_user.map_or(Bound::Unbounded, Bound::Included);
        let next = self.entries.range((after, Bound::Unbounded));
        let wrapped = self
            .last_user
            .map(|_| self.entries.range((Bound::Unbounded, until)));
        for (user, entries) in next.chain(wrapped.into_iter().flatten()) {
            for (at, entry) in entries.iter().enumerate() {
                let paused = self.pauses.get(&entry.parcel.peer).map(|pause| pause.1);
                // A pause of the peer delays all of its messages, so that an absent peer is tried
                // once for all of them.
                let due = entry.due.into_iter().chain(paused).max();
                let wait = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
                if found.0.is_none() || wait < found.1 {
                    found = (Some(EntryPlace { user: *user, at }), wait);
                }
                if wait.is_zero() {
                    return found;
                }
            }
        }
        found
    }

    /// Takes a message out. The next turn is that of another user, if there is one.
    fn take(&mut self, place: EntryPlace) -> Option<QueueEntry> {
        let EntryPlace { user, at } = place;
        let own = self.entries.get_mut(&user)?;
        let entry = own.remove(at);
        if own.is_empty() {
            self.entries.remove(&user);
        }
        self.last_user = Some(user);
        entry
    }

    fn charge(&mut self, uid: Option<u32>, size: usize) {
        self.messages = self.messages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
        if let Some(uid) = uid {
            let own = self.users.entry(uid).or_default();
            own.messages = own.messages.saturating_add(1);
            own.bytes = own.bytes.saturating_add(size);
        }
    }

    fn release(&mut self, uid: Option<u32>, size: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        if let Some(uid) = uid
            && let Some(own) = self.users.get_mut(&uid)
        {
            own.messages = own.messages.saturating_sub(1);
            own.bytes = own.bytes.saturating_sub(size);
            if own.messages == 0 {
                self.users.remove(&uid);
            }
        }
    }

    fn count_refusal(&mut self, uid: u32) {
        if self.refusals.len() < MAX_COUNTED_USERS || self.refusals.contains_key(&uid) {
            let count = self.refusals.entry(uid).or_default();
            *count = count.saturating_add(1);
        }
    }

    fn update_health(&self, gauge: &SharedHealth) {
        self.write_health(&mut gauge.lock());
    }

    fn write_health(&self, health: &mut SinkHealth) {
        (health.queued, health.queued_bytes) = (self.messages as u64, self.bytes as u64);
    }
}

/// Returns a new id of a message for this sink, by which a receiver recognizes a copy.
pub(crate) fn unique_id(sink: &str) -> Result<String, SinkWriteError> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty()).map_err(|error| SinkWriteError::Random {
        name: sink.to_owned(),
        source: error.into(),
    })?;
    Ok(format!("{:032x}", u128::from_ne_bytes(random)))
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
    use proptest::{collection, prelude::*};

    const BOUNDS: QueueBounds = QueueBounds {
        messages: 12,
        bytes: 200,
        user_messages: 5,
        user_bytes: 90,
    };

    fn queue() -> DeliveryQueue {
        DeliveryQueue::new("mail".to_owned(), BOUNDS, Retry::default(), None)
    }

    fn message(body: Vec<u8>) -> QueuedMessage {
        QueuedMessage {
            peer: "peer".to_owned(),
            head: String::new(),
            body,
        }
    }

    fn taken(queue: &DeliveryQueue) -> Option<Box<QueueEntry>> {
        match queue.next(Duration::ZERO) {
            WorkerStep::Deliver(entry) => Some(entry),
            WorkerStep::Nothing | WorkerStep::End => None,
        }
    }

    proptest! {
        /// Messages of three users and of the site: each user has at most its share, and each
        /// message goes to the user whose last turn is the longest ago.
        #[test]
        fn queue_agrees_with_list_of_messages(
            steps in collection::vec((0..4_u32, 0..60_usize, any::<bool>()), 1..150)
        ) {
            let (queue, gauge) = (queue(), SharedHealth::default());
            let mut list: Vec<(Option<u32>, usize, usize)> = Vec::new();
            let mut last: Option<Option<u32>> = None;
            for (number, (user, bytes, adds)) in steps.into_iter().enumerate() {
                let uid = (user > 0).then_some(user);
                if adds {
                    let own: Vec<usize> = list.iter().filter(|entry| entry.0 == uid).map(|entry| entry.2).collect();
                    let all: usize = list.iter().map(|entry| entry.2).sum();
                    let is_over = uid.is_some()
                        && (own.len() >= BOUNDS.user_messages || own.iter().sum::<usize>() + bytes > BOUNDS.user_bytes);
                    let is_full = list.len() >= BOUNDS.messages || all + bytes > BOUNDS.bytes;
                    let mut body = vec![0; bytes];
                    if let Some(first) = body.first_mut() {
                        *first = u8::try_from(number).unwrap();
                    }
                    match queue.accept(uid, message(body), &gauge) {
                        Ok(()) => {
                            prop_assert!(!is_over && !is_full);
                            list.push((uid, number, bytes));
                        }
                        Err(SinkWriteError::UserFull { .. }) => prop_assert!(is_over),
                        Err(SinkWriteError::Full { .. }) => prop_assert!(is_full && !is_over),
                        Err(other) => panic!("{other}"),
                    }
                } else {
                    let users: std::collections::BTreeSet<Option<u32>> = list.iter().map(|entry| entry.0).collect();
                    let next = users.iter().find(|user| last.is_none_or(|last| **user > last)).or(users.first()).copied();
                    let wanted = next.and_then(|next| list.iter().position(|entry| entry.0 == next)).map(|at| list.remove(at));
                    let entry = taken(&queue);
                    prop_assert_eq!(entry.is_some(), wanted.is_some());
                    if let (Some(entry), Some((uid, number, bytes))) = (entry, wanted) {
                        prop_assert_eq!((entry.uid, entry.parcel.body.len()), (uid, bytes));
                        if let Some(first) = entry.parcel.body.first() {
                            prop_assert_eq!(usize::from(*first), number);
                        }
                        last = Some(uid);
                        queue.finish(&entry, &gauge, |_| {});
                    }
                }
                for (uid, held) in queue.use_by_user() {
                    let own = list.iter().filter(|entry| entry.0 == Some(uid));
                    prop_assert_eq!((held.messages, held.bytes), (own.clone().count(), own.map(|entry| entry.2).sum()));
                }
            }
        }
    }

    #[test]
    fn message_that_is_tried_again_stays_with_its_user() {
        let (queue, gauge) = (queue(), SharedHealth::default());
        for (uid, body) in [(1, b"a"), (1, b"b"), (2, b"c")] {
            queue
                .accept(Some(uid), message(body.to_vec()), &gauge)
                .unwrap();
        }
        let first = taken(&queue).unwrap();
        assert_eq!(first.parcel.body, b"a");
        queue.put_first(*first);
        let next: Vec<Vec<u8>> = (0..3).map(|_| taken(&queue).unwrap().parcel.body).collect();
        assert_eq!(next, [b"c", b"a", b"b"]);
        assert_eq!(
            queue.use_by_user()[&1].messages,
            2,
            "they are not delivered yet"
        );
    }

    #[test]
    fn requested_pause_is_kept_up_to_the_longest() {
        let queue = queue();
        let Retry { first, longest, .. } = Retry::default();
        for (asked, pause) in [
            (Duration::ZERO, first),
            (longest / 2, longest / 2),
            (longest * 2, longest),
        ] {
            queue.reached("peer");
            let before = Instant::now();
            queue.pause("peer", asked);
            let until = queue.lock().pauses["peer"].1;
            assert!(
                until >= before + pause && until <= Instant::now() + pause,
                "{asked:?}"
            );
        }
    }

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
