//! Counts over time in a fixed number of intervals, whose length grows with the covered time.
use std::collections::BTreeMap;

/// Maximum number of intervals.
const MAX_INTERVALS: u64 = 60;
/// Initial length of an interval in milliseconds.
const SHORTEST: u64 = 1000;

/// Counts of one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Granted requests.
    pub granted: u64,
    /// Denied requests.
    pub denied: u64,
    /// Calls of modules.
    pub calls: u64,
    /// Failed calls.
    pub failures: u64,
}

impl Counts {
    fn with(self, other: Counts) -> Counts {
        Counts {
            granted: self.granted + other.granted,
            denied: self.denied + other.denied,
            calls: self.calls + other.calls,
            failures: self.failures + other.failures,
        }
    }
}

/// Counts in consecutive intervals of equal length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timeline {
    begin: Option<u64>,
    width: u64,
    /// Intervals with counts, by number.
    stretches: BTreeMap<u64, Counts>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            begin: None,
            width: SHORTEST,
            stretches: BTreeMap::new(),
        }
    }
}

impl Timeline {
    /// Returns the counts of the interval at time `at`. A time before the first one, after a clock
    /// change, belongs to the first interval.
    pub(super) fn at(&mut self, at: u64) -> &mut Counts {
        let begin = *self.begin.get_or_insert(at - at % SHORTEST);
        let since = at.saturating_sub(begin);
        while since / self.width >= MAX_INTERVALS {
            // Doubling joins neighbours in pairs, so no interval has to be divided.
            self.width = self.width.saturating_mul(2);
            let mut wider: BTreeMap<u64, Counts> = BTreeMap::new();
            for (number, counts) in &self.stretches {
                let sum = wider.entry(number / 2).or_default();
                *sum = sum.with(*counts);
            }
            self.stretches = wider;
        }
        self.stretches.entry(since / self.width).or_default()
    }

    /// Returns the length of an interval in milliseconds.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Returns all intervals, including empty ones, with their beginnings.
    pub fn stretches(&self) -> impl Iterator<Item = (u64, Counts)> + Clone {
        let begin = self.begin.unwrap_or_default();
        let when = move |number| begin.saturating_add(self.width.saturating_mul(number));
        (0..self.count()).map(move |number| {
            (
                when(number),
                self.stretches.get(&number).copied().unwrap_or_default(),
            )
        })
    }

    /// Returns the number of intervals.
    pub fn count(&self) -> u64 {
        self.stretches.keys().next_back().map_or(0, |last| last + 1)
    }

    /// Returns the sum over all intervals.
    pub fn sum(&self) -> Counts {
        self.stretches
            .values()
            .fold(Counts::default(), |sum, counts| sum.with(*counts))
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_INTERVALS, Timeline};

    #[test]
    fn stretches_grow_and_nothing_is_lost() {
        let mut line = Timeline::default();
        let times = [
            5_500,
            5_600,
            6_000,
            64_999,
            65_000,
            1_000,
            3_600_000,
            90_000_000_000,
        ];
        for (count, time) in (1..).zip(times) {
            line.at(time).calls += 1;
            assert!(line.count() <= MAX_INTERVALS);
            assert_eq!(
                (
                    line.sum().calls,
                    line.stretches().map(|(_, counts)| counts.calls).sum()
                ),
                (count, count)
            );
        }
        let (begin, _) = line.stretches().next().unwrap();
        assert_eq!(begin, 5_000);
        let last = line.stretches().last().unwrap();
        assert!(
            last.0 <= 90_000_000_000 && 90_000_000_000 < last.0 + line.width() && last.1.calls == 1,
            "{last:?}"
        );
        line.at(u64::MAX).calls += 1;
        assert!(line.count() <= MAX_INTERVALS);
    }
}
