//! Room for the messages of other servers that wait for the actor, charged to the server that sent
//! them.
use peal_core::group::ServerId;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Limits of the memory of messages of other servers that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InboxLimits {
    /// Bytes of the messages of one server. The same number bounds the events that wait at that
    /// server for room here.
    pub server: usize,
    /// Bytes of the messages of all servers.
    pub total: usize,
}

impl Default for InboxLimits {
    fn default() -> Self {
        InboxLimits {
            server: 64 << 20,
            total: 512 << 20,
        }
    }
}

/// Memory that the waiting messages of other servers take.
#[derive(Clone, Debug)]
pub(crate) struct ServerInbox {
    limits: InboxLimits,
    held: Arc<Mutex<HeldBytes>>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    total: usize,
    /// Bytes of each server that has a message waiting.
    by_server: BTreeMap<ServerId, usize>,
    /// Servers of which a message found no room since they were last told of some.
    refused: BTreeSet<ServerId>,
}

/// Charge for a waiting message, until it is dropped.
#[derive(Debug)]
pub(crate) struct InboxCharge {
    inbox: ServerInbox,
    from: ServerId,
    bytes: usize,
}

/// State of a sender after one of its messages was processed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SenderWait {
    /// None of its messages was refused.
    NoneRefused,
    /// A message was refused, and there is room now.
    RoomAgain,
}

impl ServerInbox {
    pub(crate) fn new(limits: InboxLimits) -> ServerInbox {
        ServerInbox {
            limits,
            held: Arc::default(),
        }
    }

    /// Returns the limits.
    pub(crate) fn limits(&self) -> InboxLimits {
        self.limits
    }

    /// Charges a message to its sender if there is room for it. A sender of which no message waits
    /// always has room for one: no server can keep another one out, and a large message gets through.
    pub(crate) fn reserve(&self, from: ServerId, bytes: usize) -> Option<InboxCharge> {
        let mut held = self.lock();
        if let Some(own) = held.by_server.get(&from) {
            let is_full = own.saturating_add(bytes) > self.limits.server
                || held.total.saturating_add(bytes) > self.limits.total;
            if is_full {
                held.refused.insert(from);
                return None;
            }
        }
        Some(self.charge_held(held, from, bytes))
    }

    /// Charges a message to its sender, also beyond the limits: the last ones of a server that has
    /// left.
    pub(crate) fn charge(&self, from: ServerId, bytes: usize) -> InboxCharge {
        self.charge_held(self.lock(), from, bytes)
    }

    fn charge_held(
        &self,
        mut held: MutexGuard<'_, HeldBytes>,
        from: ServerId,
        bytes: usize,
    ) -> InboxCharge {
        *held.by_server.entry(from).or_default() += bytes;
        held.total += bytes;
        InboxCharge {
            inbox: self.clone(),
            from,
            bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HeldBytes> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboxCharge {
    /// Releases the charge of a message that was processed. Returns whether its sender waits for
    /// room, of which half must be free: otherwise each message would wake it.
    pub(crate) fn release(self) -> SenderWait {
        let (inbox, from) = (self.inbox.clone(), self.from);
        drop(self);
        let mut held = inbox.lock();
        let own = held.by_server.get(&from).copied().unwrap_or_default();
        if own <= inbox.limits.server / 2 && held.refused.remove(&from) {
            SenderWait::RoomAgain
        } else {
            SenderWait::NoneRefused
        }
    }
}

impl Drop for InboxCharge {
    fn drop(&mut self) {
        let mut held = self.inbox.lock();
        held.total = held.total.saturating_sub(self.bytes);
        if let Some(own) = held.by_server.get_mut(&self.from) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                held.by_server.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_share_the_total_and_each_has_room_for_one_message() {
        let inbox = ServerInbox::new(InboxLimits {
            server: 100,
            total: 150,
        });
        let [one, other] = [ServerId(1), ServerId(2)];
        let first = inbox.reserve(one, 60).unwrap();
        assert!(inbox.reserve(one, 60).is_none(), "share of the server");
        let second = inbox.reserve(one, 40).unwrap();
        let large = inbox.reserve(other, 1000).unwrap();
        assert!(inbox.reserve(other, 1).is_none(), "total");
        assert_eq!(
            second.release(),
            SenderWait::NoneRefused,
            "half is not free"
        );
        assert_eq!(first.release(), SenderWait::RoomAgain);
        assert_eq!(large.release(), SenderWait::RoomAgain);
        let late = inbox.charge(one, 1000);
        assert!(inbox.reserve(one, 1).is_none());
        drop(late);
        assert!(inbox.reserve(one, 1).is_some());
    }
}
