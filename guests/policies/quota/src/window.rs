//! Sliding window: the times of the requests in the last minute, and whether another is allowed.

/// Length of the window, in milliseconds.
pub const MINUTE: u64 = 60_000;

/// Times of the requests within the window, oldest first, in milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Window(Vec<u64>);

impl Window {
    /// Reads a window from state; an invalid one counts as empty.
    pub fn from_bytes(bytes: &[u8]) -> Window {
        let (times, _) = bytes.as_chunks::<8>();
        Window(times.iter().map(|time| u64::from_le_bytes(*time)).collect())
    }

    /// Converts the window for the state.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|time| time.to_le_bytes()).collect()
    }

    /// Returns whether all requests have expired.
    pub fn is_over(&self, now: u64) -> bool {
        !self.0.iter().any(|time| counts(*time, now))
    }

    /// Counts a request, or returns the milliseconds until it is allowed: at least one, at most a
    /// minute.
    pub fn admit(&mut self, now: u64, most: usize) -> Result<(), u64> {
        self.0.retain(|time| counts(*time, now));
        if self.0.len() < most {
            self.0.push(now);
            return Ok(());
        }
        // Where the number was lowered since, more than one has to go.
        let last = self.0.len().saturating_sub(most.max(1));
        let free = self
            .0
            .get(last)
            .map_or(MINUTE, |time| (time + MINUTE).saturating_sub(now));
        Err(free.clamp(1, MINUTE))
    }
}

/// Drops times in the future, which are from before the clock was set back: they would lock a user
/// out.
fn counts(time: u64, now: u64) -> bool {
    time <= now && now - time < MINUTE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_minute_later_there_is_room_again() {
        let mut window = Window::default();
        assert_eq!(
            (window.admit(0, 2), window.admit(10_000, 2)),
            (Ok(()), Ok(()))
        );
        assert_eq!(window.admit(20_000, 2), Err(40_000));
        assert_eq!(window.admit(59_999, 2), Err(1));
        assert_eq!(
            (window.admit(60_000, 2), window.admit(60_001, 2)),
            (Ok(()), Err(9_999))
        );
        assert!(!window.is_over(119_999) && window.is_over(120_000));
    }

    #[test]
    fn clock_set_back_or_lower_limit_locks_out_no_user() {
        let mut window = Window::default();
        assert_eq!(window.admit(1_000_000, 1), Ok(()));
        assert_eq!(window.admit(5, 1), Ok(()));
        let mut many = Window(vec![0, 1000, 2000]);
        assert_eq!(many.admit(3000, 1), Err(59_000));
        assert_eq!(
            (many.admit(3000, 0), Window::from_bytes(b"junk")),
            (Err(59_000), Window::default())
        );
    }

    proptest! {
        /// No minute has more requests than allowed, and a user who waits the reported time is
        /// admitted, for any sequence.
        #[test]
        fn no_minute_has_more_than_it_may(steps in prop::collection::vec(0u64..30_000, 1..200), most in 1usize..8) {
            let mut window = Window::default();
            let mut now = 0;
            let mut admitted = Vec::new();
            for step in steps {
                now += step;
                match window.admit(now, most) {
                    Ok(()) => admitted.push(now),
                    Err(wait) => prop_assert!(window.clone().admit(now + wait, most).is_ok()),
                }
                prop_assert!(admitted.iter().filter(|time| now - **time < MINUTE).count() <= most);
                prop_assert_eq!(&Window::from_bytes(&window.to_bytes()), &window);
            }
        }
    }
}
