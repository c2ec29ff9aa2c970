//! Shares of users in what is spilled.
use std::collections::BTreeMap;

/// The user whose share an event takes once it is spilled, if any. As small as a number: there is one for each event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpillOwner(u32);

impl SpillOwner {
    /// No user has this number: `setuid` takes it for no change.
    pub(super) const NOBODY: SpillOwner = SpillOwner(u32::MAX);

    /// The owner of an event that is for the procs of this user alone.
    pub(super) fn of(uid: Option<u32>) -> SpillOwner {
        uid.map_or(SpillOwner::NOBODY, SpillOwner)
    }

    /// The user.
    pub(super) fn uid(self) -> Option<u32> {
        Some(self.0).filter(|_| self != SpillOwner::NOBODY)
    }
}

/// Bytes of spilled events, by the user who raised them. What has no user, or is for everybody, has no share.
#[derive(Debug)]
pub(super) struct SpillShares {
    limit: usize,
    bytes: BTreeMap<u32, usize>,
}

impl SpillShares {
    pub(super) fn new(limit: usize) -> SpillShares {
        SpillShares { limit, bytes: BTreeMap::new() }
    }

    /// Takes the room for an event. False if that would be more than its user may have.
    pub(super) fn take(&mut self, uid: u32, bytes: u32) -> bool {
        let taken = self.bytes.get(&uid).copied().unwrap_or_default().saturating_add(bytes as usize);
        if taken > self.limit {
            return false;
        }
        self.bytes.insert(uid, taken);
        true
    }

    /// Gives the room of an event back.
    pub(super) fn give(&mut self, uid: u32, bytes: u32) {
        let Some(taken) = self.bytes.get_mut(&uid) else { return };
        *taken = taken.saturating_sub(bytes as usize);
        if *taken == 0 {
            self.bytes.remove(&uid);
        }
    }

    /// What one user's events take.
    #[cfg(test)]
    pub(super) fn of(&self, uid: u32) -> usize {
        self.bytes.get(&uid).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}
