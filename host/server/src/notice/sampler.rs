//! Choice of the events and decisions that are measured for traces: one of a number, and not more than
//! some in a second.
use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

/// Sampler of events and decisions.
#[derive(Debug)]
pub struct TraceSampler {
    interval: NonZeroU32,
    max_per_second: u32,
    began: Instant,
    seen: AtomicU64,
    /// Second since `began` in the upper half, and the number of samples in it in the lower half.
    window: AtomicU64,
    skipped: AtomicU64,
}

impl TraceSampler {
    /// Creates a sampler that selects about one of `interval`, and at most `max_per_second`.
    pub fn new(interval: NonZeroU32, max_per_second: u32) -> TraceSampler {
        TraceSampler {
            interval,
            max_per_second,
            began: Instant::now(),
            seen: AtomicU64::new(0),
            window: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// Returns the number of events and decisions that were selected and then skipped because of the
    /// limit for a second.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Returns true if the next event or decision is to be measured.
    pub(crate) fn take(&self) -> bool {
        self.take_at(|| self.began.elapsed().as_secs())
    }

    /// Returns true if the next one is to be measured. The second is needed of those that are selected.
    fn take_at(&self, second: impl FnOnce() -> u64) -> bool {
        let number = self.seen.fetch_add(1, Ordering::Relaxed);
        if !scattered(number).is_multiple_of(u64::from(self.interval.get())) {
            return false;
        }
        let second = second() << 32;
        let next = |window: u64| {
            let used = if window & !u64::from(u32::MAX) == second {
                window & u64::from(u32::MAX)
            } else {
                0
            };
            (used < u64::from(self.max_per_second)).then(|| second | (used + 1))
        };
        let is_within = self
            .window
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok();
        if !is_within {
            self.skipped.fetch_add(1, Ordering::Relaxed);
        }
        is_within
    }
}

/// Scatters a counter (SplitMix64), so that events that alternate are selected alike.
fn scattered(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(interval: u32, max_per_second: u32) -> TraceSampler {
        TraceSampler::new(NonZeroU32::new(interval).unwrap(), max_per_second)
    }

    #[test]
    fn about_one_of_the_interval_is_taken_also_of_alternating_ones() {
        let sampler = sampler(10, u32::MAX);
        let mut taken = [0, 0];
        for number in 0..20_000 {
            taken[number % 2] += usize::from(sampler.take_at(|| 0));
        }
        assert!(
            taken.iter().all(|taken| (800..1200).contains(taken)),
            "{taken:?}"
        );
        assert_eq!(sampler.skipped(), 0);
    }

    #[test]
    fn samples_of_a_second_are_bounded_and_others_counted() {
        let sampler = sampler(1, 3);
        for second in [0, 1, 7] {
            let taken = (0..10).filter(|_| sampler.take_at(|| second)).count();
            assert_eq!(taken, 3, "second {second}");
        }
        assert_eq!(sampler.skipped(), 21);
    }
}
