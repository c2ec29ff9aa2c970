//! Passing of events from owner to owner, through queues that are bounded in number and bytes, also
//! in the bytes of all queues of one user. Owners may be added and removed while events are on their
//! way.
use super::{ChainSettings, EventInFlight, SharedChain, chain_modules::ChainModule};
use peal_core::{owner::Owner, quota::Quota};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use thiserror::Error;
use tokio::sync::{mpsc, watch};

/// Owners with a chain, in their order.
type Owners = BTreeMap<Owner, ChainQueueSender>;

/// Queues of all owners.
#[derive(Clone, Default)]
pub(super) struct Route {
    owners: Arc<RwLock<Owners>>,
    charges: QueueCharges,
}

/// Limit that leaves no room for an event in a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
enum QueueLimit {
    #[error("server.max_chain_queue_events")]
    Events,
    #[error("server.max_chain_queue_bytes")]
    Bytes,
    #[error("server.max_chain_queue_bytes_per_user")]
    UserBytes,
    #[error("server.max_chain_queue_bytes_total")]
    TotalBytes,
}

/// Event that found no room in a queue.
struct RefusedEvent {
    passing: EventInFlight,
    limit: QueueLimit,
}

/// Charges for the events that wait in the queues of each user and its namespaces.
#[derive(Clone, Debug, Default)]
struct QueueCharges(Arc<Mutex<ChargedBytes>>);

/// Bytes that are charged to users.
#[derive(Debug, Default)]
struct ChargedBytes {
    /// Bytes of each user. Users without any are removed.
    users: BTreeMap<u32, usize>,
    /// Sum over all users. It is kept, so that the cost of an event does not grow with the users.
    total: usize,
}

/// Charge for a waiting event, until it is dropped.
#[derive(Debug)]
pub(super) struct QueueCharge {
    charges: QueueCharges,
    uid: u32,
    bytes: usize,
}

struct ChainQueueSender {
    send: mpsc::Sender<EventInFlight>,
    waiting: Arc<AtomicUsize>,
    max_bytes: usize,
    max_user_bytes: usize,
    max_total_bytes: usize,
    modules: watch::Sender<Arc<[ChainModule]>>,
}

/// Receiving end of a queue: events for a worker, and the modules of its chain.
pub(super) struct ChainQueue {
    receive: mpsc::Receiver<EventInFlight>,
    waiting: Arc<AtomicUsize>,
    modules: watch::Receiver<Arc<[ChainModule]>>,
}

/// Next work of a worker.
pub(super) enum ChainWork {
    /// Replaces the modules of the chain.
    ReplaceModules(Arc<[ChainModule]>),
    /// Handles an event.
    Event(EventInFlight),
}

impl Route {
    /// Sets the modules of an owner's chain. If the owner had no chain, returns the queue for a new
    /// worker.
    pub(super) fn set_modules(
        &self,
        owner: &Owner,
        modules: Arc<[ChainModule]>,
        settings: &ChainSettings,
    ) -> Option<ChainQueue> {
        let mut owners = self.write();
        if let Some(entry) = owners.get(owner) {
            entry.modules.send_replace(modules);
            return None;
        }
        // Bounded, and never waited for: a slow owner misses events and delays no other.
        let (send, receive) = mpsc::channel(settings.queue);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (module_sender, mut module_receiver) = watch::channel(modules);
        // The first set counts as a change, so that the worker takes it before its first event.
        module_receiver.mark_changed();
        let entry = ChainQueueSender {
            send,
            waiting: waiting.clone(),
            max_bytes: settings.queue_bytes,
            max_user_bytes: settings.user_queue_bytes,
            max_total_bytes: settings.total_queue_bytes,
            modules: module_sender,
        };
        owners.insert(owner.clone(), entry);
        Some(ChainQueue {
            receive,
            waiting,
            modules: module_receiver,
        })
    }

    /// Closes the queue of an owner. Its worker ends after the events that are already in it.
    pub(super) fn close(&self, owner: &Owner) {
        self.write().remove(owner);
    }

    /// Returns the owners with a chain, in their order.
    pub(super) fn owners(&self) -> Vec<Owner> {
        self.read().keys().cloned().collect()
    }

    /// Returns the bytes of the events that wait in the queues of each user and its namespaces.
    pub(super) fn bytes_by_user(&self) -> Vec<(u32, usize)> {
        let charges = self.charges.lock();
        let users = charges.users.iter();
        users.map(|(uid, bytes)| (*uid, *bytes)).collect()
    }

    /// Passes an event to the first owners, or to those that follow one, that see it. Owners whose
    /// queue has no space miss it.
    pub(super) fn pass(&self, after: Option<&Owner>, passing: EventInFlight, shared: &SharedChain) {
        let owners = self.read();
        let next = passing.entered.next_owners(after, owners.keys());
        if next.is_empty() {
            // Release the lock first: listeners are notified without it.
            drop(owners);
            return shared.passed(passing);
        }
        let mut ended = Vec::new();
        self.spread(&owners, &next, passing, shared, &mut ended);
        drop(owners);
        ended.into_iter().for_each(|branch| shared.passed(branch));
    }

    /// Queues an event for these owners. Branches without an owner go to `ended`.
    fn spread(
        &self,
        owners: &Owners,
        next: &[&Owner],
        passing: EventInFlight,
        shared: &SharedChain,
        ended: &mut Vec<EventInFlight>,
    ) {
        match next {
            [] => ended.push(passing),
            [owner] => self.queue(owners, owner, passing, shared, ended),
            owners_beside => {
                let branches = passing.split(owners_beside);
                for (owner, branch) in owners_beside.iter().zip(branches) {
                    self.queue(owners, owner, branch, shared, ended);
                }
            }
        }
    }

    fn queue(
        &self,
        owners: &Owners,
        owner: &Owner,
        passing: EventInFlight,
        shared: &SharedChain,
        ended: &mut Vec<EventInFlight>,
    ) {
        let uid = match owner {
            Owner::Site => None,
            Owner::User(uid) => Some(*uid),
            Owner::Namespace(nspace) => passing.entered.user_of(nspace),
        };
        let Some(entry) = owners.get(owner) else {
            return ended.push(passing);
        };
        let Err(refused) = entry.offer(passing, uid, &self.charges) else {
            return;
        };
        let RefusedEvent { passing, limit } = *refused;
        shared.metrics.counters().chain_events_dropped.count();
        if let Some(uid) = uid {
            shared.metrics.refuse(uid, Quota::ChainQueueBytes);
        }
        tracing::error!(%owner, %limit, code = %passing.entered.event.code, "chain queue full; event dropped");
        // The owner misses the event, and those after it do not.
        let next = passing.entered.next_owners(Some(owner), owners.keys());
        self.spread(owners, &next, passing, shared, ended);
    }

    fn read(&self) -> RwLockReadGuard<'_, Owners> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.owners.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Owners> {
        self.owners.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueCharges {
    /// Charges bytes to a user, within its share and the total.
    fn charge(
        &self,
        uid: u32,
        bytes: usize,
        entry: &ChainQueueSender,
    ) -> Result<QueueCharge, QueueLimit> {
        let mut charges = self.lock();
        let own = charges.users.get(&uid).copied().unwrap_or_default();
        if own.saturating_add(bytes) > entry.max_user_bytes {
            return Err(QueueLimit::UserBytes);
        }
        if charges.total.saturating_add(bytes) > entry.max_total_bytes {
            return Err(QueueLimit::TotalBytes);
        }
        charges.users.insert(uid, own + bytes);
        charges.total += bytes;
        Ok(QueueCharge {
            charges: self.clone(),
            uid,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, ChargedBytes> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueCharge {
    fn drop(&mut self) {
        let mut charges = self.charges.lock();
        charges.total -= self.bytes;
        let left = charges.users.get(&self.uid).map(|own| own - self.bytes);
        match left {
            Some(left) if left > 0 => charges.users.insert(self.uid, left),
            _ => charges.users.remove(&self.uid),
        };
    }
}

impl ChainQueueSender {
    fn offer(
        &self,
        mut passing: EventInFlight,
        uid: Option<u32>,
        charges: &QueueCharges,
    ) -> Result<(), Box<RefusedEvent>> {
        let bytes = passing.bytes;
        let charge = uid.map(|uid| charges.charge(uid, bytes, self)).transpose();
        match charge {
            Ok(charge) => passing.charge = charge,
            Err(limit) => return Err(Box::new(RefusedEvent { passing, limit })),
        }
        // Count the bytes before sending, so that concurrent senders cannot exceed the bound
        // together.
        let limit = if self
            .waiting
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
            > self.max_bytes
        {
            QueueLimit::Bytes
        } else {
            match self.send.try_send(passing) {
                Ok(()) => return Ok(()),
                Err(refused) => passing = refused.into_inner(),
            }
            QueueLimit::Events
        };
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        passing.charge = None;
        Err(Box::new(RefusedEvent { passing, limit }))
    }
}

impl ChainQueue {
    /// Returns true if events can still be added.
    pub(super) fn is_open(&self) -> bool {
        !self.receive.is_closed()
    }

    /// Returns the next work; none when no event can be added any more. New modules come before
    /// waiting events.
    pub(super) async fn next(&mut self) -> Option<ChainWork> {
        tokio::select! {
            biased;
            Ok(()) = self.modules.changed() => Some(ChainWork::ReplaceModules(self.modules.borrow_and_update().clone())),
            passing = self.receive.recv() => {
                let mut passing = passing?;
                passing.charge = None;
                self.waiting.fetch_sub(passing.bytes, Ordering::Relaxed);
                Some(ChainWork::Event(passing))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chains::{ChainEvent, WholeChains};
    use peal_core::{
        server::{EventBudget, EventOrigin},
        user_scope::UserScope,
    };
    use peal_model::{Event, Nspace, Range, Status};
    use proptest::{collection, prelude::*};
    use tracing::Span;

    const SETTINGS: ChainSettings = ChainSettings {
        queue: 6,
        queue_bytes: 40,
        user_queue_bytes: 60,
        total_queue_bytes: 100,
        drain_timeout: std::time::Duration::ZERO,
    };

    /// Owners with the users that are charged.
    fn owner(number: usize) -> (Owner, Option<u32>) {
        let job = |name| Owner::Namespace(Nspace::new(name).unwrap());
        match number {
            0 => (Owner::Site, None),
            1 => (Owner::User(1), Some(1)),
            2 => (job("one"), Some(1)),
            3 => (job("two"), Some(1)),
            4 => (Owner::User(2), Some(2)),
            _ => (job("other"), Some(3)),
        }
    }

    fn in_flight(bytes: usize) -> EventInFlight {
        EventInFlight {
            entered: ChainEvent {
                number: 1,
                event: Arc::new(Event {
                    code: Status(-1),
                    source: None,
                    range: Range::Global,
                    infos: Vec::new(),
                }),
                origin: EventOrigin::ThisServer,
                whole_chains: WholeChains::All,
                reach: UserScope::Everybody,
                allowance: EventBudget::new(0),
                source: None,
                jobs: Arc::default(),
                termination_reply: None,
                awaited: None,
                span: Span::none(),
            },
            measurement: None,
            bytes,
            results: Vec::new(),
            join: None,
            charge: None,
        }
    }

    fn offer(route: &Route, number: usize, bytes: usize) -> Option<QueueLimit> {
        let (owner, uid) = owner(number);
        let owners = route.read();
        let offered = owners[&owner].offer(in_flight(bytes), uid, &route.charges);
        offered.err().map(|refused| refused.limit)
    }

    fn queues(route: &Route) -> Vec<ChainQueue> {
        let modules: Arc<[ChainModule]> = Vec::new().into();
        let queue = |number| route.set_modules(&owner(number).0, modules.clone(), &SETTINGS);
        (0..6).map(|number| queue(number).unwrap()).collect()
    }

    /// The limit by which a model, the lists of waiting events of each owner, refuses one more.
    fn wanted(lists: &[Vec<usize>], number: usize, bytes: usize) -> Option<QueueLimit> {
        let sum = |of: &dyn Fn(Option<u32>) -> bool| -> usize {
            let lists = lists.iter().enumerate();
            let theirs = lists.filter(|(number, _)| of(owner(*number).1));
            theirs.flat_map(|(_, list)| list).sum()
        };
        let uid = owner(number).1;
        match () {
            () if uid.is_some() && sum(&|other| other == uid) + bytes > 60 => {
                Some(QueueLimit::UserBytes)
            }
            () if uid.is_some() && sum(&|other| other.is_some()) + bytes > 100 => {
                Some(QueueLimit::TotalBytes)
            }
            () if lists[number].iter().sum::<usize>() + bytes > 40 => Some(QueueLimit::Bytes),
            () if lists[number].len() == 6 => Some(QueueLimit::Events),
            () => None,
        }
    }

    proptest! {
        #[test]
        fn queues_are_bounded_as_lists_of_events_are(
            steps in collection::vec((0..6_usize, 0..25_usize, any::<bool>()), 1..150)
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let route = Route::default();
            let mut queues = queues(&route);
            for queue in &mut queues {
                // The first work is the modules.
                runtime.block_on(queue.next());
            }
            let mut lists = vec![Vec::new(); 6];
            for (number, bytes, adds) in steps {
                if adds {
                    let refused = offer(&route, number, bytes);
                    prop_assert_eq!(refused, wanted(&lists, number, bytes));
                    if refused.is_none() {
                        lists[number].push(bytes);
                    }
                } else if !lists[number].is_empty() {
                    lists[number].remove(0);
                    runtime.block_on(queues[number].next());
                }
                let held: BTreeMap<u32, usize> = route.bytes_by_user().into_iter().collect();
                for uid in 1..4 {
                    let theirs = (0..6).filter(|number| owner(*number).1 == Some(uid));
                    let bytes: usize = theirs.flat_map(|number| &lists[number]).sum();
                    prop_assert_eq!(held.get(&uid).copied().unwrap_or_default(), bytes);
                }
            }
        }
    }

    #[test]
    fn user_beyond_share_misses_events_and_others_do_not() {
        let route = Route::default();
        let _queues = queues(&route);
        assert_eq!([2, 3].map(|number| offer(&route, number, 30)), [None; 2]);
        let refused = offer(&route, 1, 1);
        assert_eq!(
            refused.map(|limit| limit.to_string()).as_deref(),
            Some("server.max_chain_queue_bytes_per_user")
        );
        assert_eq!(offer(&route, 4, 40), None);
        assert_eq!(offer(&route, 5, 1), Some(QueueLimit::TotalBytes));
        assert_eq!(offer(&route, 0, 40), None, "the site has its own queue");
    }
}
