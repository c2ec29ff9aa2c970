//! A bucket of lines for each user, which fills up evenly: full after a minute.

/// A minute, in milliseconds. In so many parts a line is counted, so that each millisecond adds a whole number of them.
const MINUTE: u64 = 60_000;

/// What a user may still log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// When it was last looked at, in milliseconds since the epoch.
    at: u64,
    /// What was in it then, in parts of lines.
    parts: u64,
}

impl Bucket {
    /// A full one, for so many lines.
    pub fn full(now: u64, lines: u64) -> Bucket {
        Bucket {
            at: now,
            parts: lines.saturating_mul(MINUTE),
        }
    }

    /// That of a state; what makes no sense is as good as nothing.
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

    /// For a state.
    pub fn to_bytes(self) -> Vec<u8> {
        [self.at, self.parts]
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// The same later, where it holds so many lines. A clock that was set back adds nothing.
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

    /// Whether it is full again, and as good as forgotten.
    pub fn is_full(self, now: u64, most: u64) -> bool {
        self.later(now, most) == Bucket::full(now, most)
    }

    /// Takes so many lines out, where it holds `most`, or says in how many milliseconds they are there: never, if that is none.
    pub fn take(self, now: u64, lines: u64, most: u64) -> Result<Bucket, Option<u64>> {
        let (there, wanted) = (self.later(now, most), lines.saturating_mul(MINUTE));
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
            wishes in proptest::collection::vec((0u64..20_000, 1u64..60), 1..60),
        ) {
            let (mut bucket, mut now) = (Bucket::full(0, most), 0);
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (after, lines) in wishes {
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
