//! Seals of an audit trail on their way into the stream of their cluster.
//!
//! A seal covers all records before it, so a later one can stand for earlier ones. The stream is never
//! emptied: seals are sent at a limited rate, and the network may be away for long.
use peal_core::MonotonicTime;
use std::{collections::VecDeque, time::Duration};

/// Seal of an audit trail, for the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrailSeal {
    /// Identity of the seal. The stream drops a repeated one.
    pub id: String,
    /// Line of text that the seal is outside of its trail.
    pub line: String,
}

/// Rate and number of the seals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SealLimits {
    /// Maximum number of seals that wait, and of those that are sent one after the other.
    pub burst: usize,
    /// Time after which one more may be sent.
    pub interval: Duration,
}

impl Default for SealLimits {
    /// Two a minute: those of a year fit into the stream.
    fn default() -> SealLimits {
        SealLimits {
            burst: 16,
            interval: Duration::from_secs(30),
        }
    }
}

/// Numbers of seals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SealCounts {
    /// Seals that the stream has.
    pub stored: u64,
    /// Seals for which a later one stands.
    pub superseded: u64,
    /// Seals that wait.
    pub waiting: usize,
}

/// Seals that wait for the stream, the oldest first.
#[derive(Clone, Debug)]
pub struct SealOutbox {
    limits: SealLimits,
    waiting: VecDeque<TrailSeal>,
    /// Number of seals that may be sent before time passes.
    allowance: usize,
    /// Time since which the allowance grows; `None` while it is whole.
    growing_since: Option<MonotonicTime>,
    stored: u64,
    superseded: u64,
    is_closed: bool,
}

impl SealOutbox {
    /// Creates an empty outbox.
    pub fn new(limits: SealLimits) -> SealOutbox {
        SealOutbox {
            limits,
            waiting: VecDeque::new(),
            allowance: limits.burst,
            growing_since: None,
            stored: 0,
            superseded: 0,
            is_closed: false,
        }
    }

    /// Adds a seal that is later than all others.
    pub fn add(&mut self, seal: TrailSeal) {
        self.waiting.push_back(seal);
        self.keep_latest(self.limits.burst.max(1));
    }

    /// Returns the seal to send now. It is returned again until it is stored, unless a later one stands
    /// for it.
    pub fn next(&mut self, now: MonotonicTime) -> Option<&TrailSeal> {
        self.grow(now);
        if self.allowance == 0 && !self.is_closed {
            return None;
        }
        // What is left of the allowance is for the latest ones.
        self.keep_latest(self.allowance.max(1));
        self.waiting.front()
    }

    /// Returns the time from which on a waiting seal may be sent.
    pub fn due_at(&self) -> Option<MonotonicTime> {
        self.waiting.front()?;
        if self.allowance > 0 || self.is_closed {
            return Some(MonotonicTime::default());
        }
        Some(self.growing_since? + self.limits.interval)
    }

    /// Notes that the stream has a seal.
    pub fn stored(&mut self, id: &str, now: MonotonicTime) {
        self.grow(now);
        let Some(place) = self.waiting.iter().position(|seal| seal.id == id) else {
            return;
        };
        self.waiting.remove(place);
        self.stored += 1;
        self.allowance = self.allowance.saturating_sub(1);
        self.growing_since.get_or_insert(now);
    }

    /// Has the latest seal sent without regard to the rate: the trail has ended.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.keep_latest(1);
    }

    /// Returns the numbers of seals.
    pub fn counts(&self) -> SealCounts {
        SealCounts {
            stored: self.stored,
            superseded: self.superseded,
            waiting: self.waiting.len(),
        }
    }

    fn keep_latest(&mut self, count: usize) {
        let extra = self.waiting.len().saturating_sub(count);
        self.waiting.drain(..extra);
        self.superseded += extra as u64;
    }

    /// Adds to the allowance what has become due since it began to grow.
    fn grow(&mut self, now: MonotonicTime) {
        while let Some(since) = self.growing_since {
            let next = since + self.limits.interval;
            if next > now {
                return;
            }
            self.allowance += 1;
            self.growing_since = (self.allowance < self.limits.burst).then_some(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal(number: u64) -> TrailSeal {
        TrailSeal {
            id: number.to_string(),
            line: format!("seal {number}"),
        }
    }

    fn limits() -> SealLimits {
        SealLimits {
            burst: 3,
            interval: Duration::from_millis(10),
        }
    }

    /// Sends what may be sent now, and returns the ids.
    fn send_all(outbox: &mut SealOutbox, now: MonotonicTime) -> Vec<u64> {
        let mut sent = Vec::new();
        while let Some(seal) = outbox.next(now) {
            let id = seal.id.clone();
            outbox.stored(&id, now);
            sent.push(id.parse().unwrap());
        }
        sent
    }

    #[test]
    fn seal_is_sent_again_until_it_is_stored() {
        let mut outbox = SealOutbox::new(limits());
        outbox.add(seal(1));
        let now = MonotonicTime(5);
        assert_eq!(outbox.next(now), Some(&seal(1)));
        assert_eq!(outbox.next(now), Some(&seal(1)));
        outbox.stored("2", now);
        assert_eq!(outbox.next(now), Some(&seal(1)));
        outbox.stored("1", now);
        assert_eq!(outbox.next(now), None);
        let counts = SealCounts {
            stored: 1,
            superseded: 0,
            waiting: 0,
        };
        assert_eq!(outbox.counts(), counts);
    }

    #[test]
    fn latest_seal_stands_for_those_beyond_the_rate() {
        let mut outbox = SealOutbox::new(limits());
        (1..=3).for_each(|number| outbox.add(seal(number)));
        assert_eq!(send_all(&mut outbox, MonotonicTime(0)), [1, 2, 3]);
        outbox.add(seal(4));
        outbox.add(seal(5));
        assert_eq!(outbox.due_at(), Some(MonotonicTime(10)));
        assert_eq!(outbox.next(MonotonicTime(9)), None);
        assert_eq!(send_all(&mut outbox, MonotonicTime(10)), [5]);
        assert_eq!(outbox.counts().superseded, 1);
        // The last one of a trail waits for no allowance.
        outbox.add(seal(6));
        outbox.add(seal(7));
        assert_eq!(outbox.next(MonotonicTime(11)), None);
        outbox.close();
        assert_eq!(outbox.next(MonotonicTime(11)), Some(&seal(7)));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add,
        Wait(u64),
        Send,
        /// Sends, without an answer.
        Lose,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => Just(Step::Add),
            2 => (0u64..40).prop_map(Step::Wait),
            2 => Just(Step::Send),
            1 => Just(Step::Lose),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Seals are stored in order, within the rate, and the latest one is in the end.
        #[test]
        fn stored_seals_are_bounded_ordered_and_end_with_the_latest(steps in steps()) {
            let mut outbox = SealOutbox::new(limits());
            let (mut now, mut added) = (MonotonicTime(0), 0);
            let mut stored: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Add => {
                        added += 1;
                        outbox.add(seal(added));
                    }
                    Step::Wait(time) => now = MonotonicTime(now.0 + time),
                    Step::Send => {
                        if let Some(seal) = outbox.next(now).cloned() {
                            outbox.stored(&seal.id, now);
                            stored.push((seal.id.parse().unwrap(), now.0));
                        }
                    }
                    Step::Lose => drop(outbox.next(now).cloned()),
                }
                prop_assert!(outbox.counts().waiting <= 3);
            }
            now = MonotonicTime(now.0 + 100);
            while let Some(seal) = outbox.next(now).cloned() {
                outbox.stored(&seal.id, now);
                stored.push((seal.id.parse().unwrap(), now.0));
            }
            prop_assert!(stored.is_sorted_by(|one, next| one.0 < next.0));
            prop_assert_eq!(stored.last().map_or(0, |last| last.0), added);
            let counts = outbox.counts();
            prop_assert_eq!(counts.stored + counts.superseded, added);
            // In any time there are no more than the burst and those of the intervals in it.
            for (place, (_, from)) in stored.iter().enumerate() {
                for (count, (_, to)) in stored.iter().skip(place).enumerate() {
                    let most = 3 + (to - from) / 10 + 1;
                    prop_assert!((count as u64) < most, "{:?}", stored);
                }
            }
        }
    }
}
