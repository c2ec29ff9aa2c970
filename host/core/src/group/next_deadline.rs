//! When there is something to do next: known at once, however much there is to wait for.
use crate::MonotonicTime;

/// The earliest of many times, or one before it: what came to an end before its time is only forgotten when that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Earliest(Option<MonotonicTime>);

impl Earliest {
    /// There is something to do then.
    pub(super) fn lower(&mut self, at: MonotonicTime) {
        self.0 = self.0.into_iter().chain([at]).min();
    }

    /// When to look what there is to do, if there is anything.
    pub(super) fn at(self) -> Option<MonotonicTime> {
        self.0
    }
}

impl FromIterator<MonotonicTime> for Earliest {
    fn from_iter<I: IntoIterator<Item = MonotonicTime>>(times: I) -> Earliest {
        Earliest(times.into_iter().min())
    }
}
