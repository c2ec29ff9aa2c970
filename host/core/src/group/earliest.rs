//! When there is something to do next: known at once, however much there is to wait for.
use crate::Time;

/// The earliest of many times, or one before it: what came to an end before its time is only forgotten when that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Earliest(Option<Time>);

impl Earliest {
    /// There is something to do then.
    pub(super) fn lower(&mut self, at: Time) {
        self.0 = self.0.into_iter().chain([at]).min();
    }

    /// When to look what there is to do, if there is anything.
    pub(super) fn at(self) -> Option<Time> {
        self.0
    }
}

impl FromIterator<Time> for Earliest {
    fn from_iter<I: IntoIterator<Item = Time>>(times: I) -> Earliest {
        Earliest(times.into_iter().min())
    }
}
