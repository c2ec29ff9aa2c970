//! Counter of repetitions within a time window, in bounded memory.
use std::collections::{BTreeMap, VecDeque};

/// Times of repetitions, by key.
#[derive(Debug)]
pub struct Tally<K> {
    /// Count that is reported.
    count: usize,
    /// Window, in milliseconds.
    window: u64,
    /// Maximum number of keys.
    max_keys: usize,
    times: BTreeMap<K, VecDeque<u64>>,
}

impl<K: Ord + Clone> Tally<K> {
    /// Creates an empty counter.
    pub fn new(count: usize, window: u64, max_keys: usize) -> Tally<K> {
        Tally {
            count: count.max(1),
            window,
            max_keys: max_keys.max(1),
            times: BTreeMap::new(),
        }
    }

    /// Counts one repetition. Returns whether the count is reached; the key then starts again.
    pub fn add(&mut self, what: &K, now: u64) -> bool {
        let times = self.times.entry(what.clone()).or_default();
        // What seems to come later was before the clock was set back.
        times.retain(|time| *time <= now && now - time < self.window);
        times.push_back(now);
        let is_too_many = times.len() >= self.count;
        if is_too_many {
            self.times.remove(what);
        }
        self.make_room();
        is_too_many
    }

    /// Drops the key whose last repetition is the oldest, if there are too many keys.
    fn make_room(&mut self) {
        while self.times.len() > self.max_keys {
            let oldest = self
                .times
                .iter()
                .min_by_key(|(_, times)| times.back().copied())
                .map(|(what, _)| what.clone());
            let Some(oldest) = oldest else { return };
            self.times.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn third_event_within_window_exceeds_limit_and_resets_count() {
        let mut tally = Tally::new(3, 1000, 8);
        let added: Vec<bool> = [0, 999, 1000, 1500, 1600, 1700]
            .iter()
            .map(|now| tally.add(&"a", *now))
            .collect();
        assert_eq!(added, [false, false, false, true, false, false]);
        assert!(!tally.add(&"b", 1700) && tally.add(&"a", 1800));
        assert!(Tally::new(1, 1000, 8).add(&"a", 0), "one is too many");
        assert!(
            !tally.add(&"c", 5000) && !tally.add(&"c", 100) && !tally.add(&"c", 101),
            "a clock that is set back"
        );
    }

    #[test]
    fn oldest_events_are_dropped_first() {
        let mut tally = Tally::new(2, 1000, 2);
        assert!(!tally.add(&"a", 0) && !tally.add(&"b", 1) && !tally.add(&"c", 2));
        assert!(!tally.add(&"a", 3) && tally.add(&"c", 4));
    }

    proptest! {
        /// Memory is bounded, and no reached count is missed while all keys fit, for any sequence.
        #[test]
        fn memory_is_bounded(events in prop::collection::vec((0u8..20, 0u64..400), 1..300), count in 1usize..5) {
            let mut tally = Tally::new(count, 1000, 4);
            let mut ample = Tally::new(count, 1000, 64);
            let mut now = 0;
            let mut since = BTreeMap::<u8, Vec<u64>>::new();
            for (what, step) in events {
                now += step;
                tally.add(&what, now);
                prop_assert!(tally.times.len() <= 4 && tally.times.values().all(|times| times.len() < count.max(2)));
                let own = since.entry(what).or_default();
                own.push(now);
                own.retain(|time| now - time < 1000);
                let is_too_many = own.len() >= count;
                if is_too_many {
                    own.clear();
                }
                prop_assert_eq!(ample.add(&what, now), is_too_many);
            }
        }
    }
}
