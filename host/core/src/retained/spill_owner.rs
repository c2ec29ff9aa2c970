//! The user whose share of what is spilled an event takes.

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
