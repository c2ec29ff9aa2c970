//! The numbers of events in the order in which a server spread them.

/// The number of an event that a server spread; later ones have greater numbers, and none is used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seq(pub u64);

impl Seq {
    pub(crate) const FIRST: Seq = Seq(0);

    /// The one after it.
    pub(crate) fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }

    /// Whether `other` is the one after it.
    pub(crate) fn precedes(self, other: Seq) -> bool {
        self.0.checked_add(1) == Some(other.0)
    }
}
