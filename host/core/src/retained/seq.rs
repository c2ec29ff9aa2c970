//! Sequence numbers of distributed events.
use serde::{Deserialize, Serialize};

/// The sequence number of an event that a server distributed. Later events have greater numbers,
/// and none is reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Seq(pub u64);

impl Seq {
    pub(crate) const FIRST: Seq = Seq(0);

    /// Returns the next number.
    pub(crate) fn next(self) -> Seq {
        Seq(self.0.saturating_add(1))
    }

    /// Returns true if `other` is the next number.
    pub(crate) fn precedes(self, other: Seq) -> bool {
        self.0.checked_add(1) == Some(other.0)
    }
}
