//! Token bucket of lines for each user, which refills evenly within a minute.

/// Minute, in milliseconds. A line is counted in this many parts, so that each millisecond adds a
/// whole number of them.
const MINUTE: u64 = 60_000;

/// Lines that a user may still log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// Time of the last update, in milliseconds since the epoch.
    at: u64,
    /// Content at that time, in parts of lines.
    parts: u64,
}

impl Bucket {
    /// Creates a full bucket for this many lines.
    pub fn full(now: u64, lines: u64) -> Bucket {
        Bucket {
            at: now,
            parts: lines.saturating_mul(MINUTE),
        }
    }

    /// Reads a bucket from state; an invalid one counts as none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Bucket> {
        let (numbers, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let [at, parts] = numbers else { return None };
        Some(Bucket {
            at: u64::from_le_bytes(*at),
            parts: u64::from_le_bytes(*parts),
        })
    }

    /// Converts the bucket for the state.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.at, self.parts]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Returns the bucket at a later time, with a capacity of `most` lines. A clock that was set
    /// back adds nothing.
    fn later(self, now: u64, most: u64) -> Bucket {
        let come = now.saturating_sub(self.at).saturating_mul(most);
        Bucket {
            at: now,
            parts: self
                .parts
                .saturating_add(come)
                .min(most.saturating_mul(MINUTE)),
        }
    }

    /// Returns whether the bucket is full and can be dropped.
    pub fn is_full(self, now: u64, most: u64) -> bool {
        self.later(now, most) == Bucket::full(now, most)
    }

    /// Takes lines out of a bucket with a capacity of `most`, or returns the milliseconds until
    /// they are available; none: never.
    pub fn take(self, now: u64, lines: u64, most: u64) -> Result<Bucket, Option<u64>> {
        let there = self.later(now, most);
        let wanted = lines.saturating_mul(MINUTE);
        match there.parts.checked_sub(wanted) {
            Some(parts) => Ok(Bucket { parts, ..there }),
            None if lines > most => Err(None),
            None => Err(Some((wanted - there.parts).div_ceil(most.max(1)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn taken_tokens_come_back_within_a_minute() {
        let full = Bucket::full(0, 10);
        let half = full.take(0, 5, 10).unwrap();
        let empty = half.take(0, 5, 10).unwrap();
        assert_eq!(empty.take(0, 1, 10), Err(Some(6000)));
        assert_eq!(empty.take(5999, 1, 10), Err(Some(1)));
        assert!(empty.take(6000, 1, 10).is_ok());
        assert_eq!(empty.take(0, 11, 10), Err(None));
        assert!(
            !empty.is_full(59_999, 10) && empty.is_full(60_000, 10) && empty.is_full(u64::MAX, 10)
        );
        assert_eq!(half.later(0, 10), half);
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let bucket = Bucket {
            at: 7,
            parts: u64::MAX,
        };
        assert_eq!(Bucket::from_bytes(&bucket.to_bytes()), Some(bucket));
        for bytes in [&b""[..], b"12345678", b"123456789", &[0; 24]] {
            assert_eq!(Bucket::from_bytes(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn minute_has_at_most_twice_the_limit_and_waiting_requests_pass(
            most in 1u64..50,
            requests in proptest::collection::vec((0u64..20_000, 1u64..60), 1..60),
        ) {
            let mut bucket = Bucket::full(0, most);
            let mut now = 0;
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (after, lines) in requests {
                now += after;
                match bucket.take(now, lines, most) {
                    Ok(less) => {
                        bucket = less;
                        taken.push((now, lines));
                    }
                    Err(None) => prop_assert!(lines > most),
                    Err(Some(wait)) => {
                        prop_assert!(bucket.take(now + wait, lines, most).is_ok());
                        prop_assert!(bucket.take(now + wait - 1, lines, most).is_err());
                    }
                }
                let lately = taken.iter().filter(|(at, _)| now - at < MINUTE).map(|(_, lines)| lines);
                prop_assert!(lately.sum::<u64>() <= 2 * most);
            }
        }
    }
}
