//! The user that is charged for a spilled event.
use serde::{Deserialize, Serialize};

/// The user that is charged once an event is spilled, if any. As small as a number, because each
/// retained event has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SpillOwner(u32);

impl SpillOwner {
    /// No user has this id, because `setuid` and similar calls reserve it.
    pub(super) const UNKNOWN: SpillOwner = SpillOwner(u32::MAX);

    /// Returns the owner of an event that is for the procs of this user alone.
    pub(super) fn of(uid: Option<u32>) -> SpillOwner {
        uid.map_or(SpillOwner::UNKNOWN, SpillOwner)
    }

    /// Returns the user.
    pub(super) fn uid(self) -> Option<u32> {
        Some(self.0).filter(|_| self != SpillOwner::UNKNOWN)
    }
}
