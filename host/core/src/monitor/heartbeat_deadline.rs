//! How long somebody may be silent.
use crate::MonotonicTime;
use std::time::Duration;

/// When it is told that somebody is silent whose last sign of life was then: each is due a `time` after the one before, and
/// `drops` may be missed.
///
/// That is not before d + 1 times and not after d + 2 times the `time`. In between is the middle, so that neither a sign that
/// was long on its way nor a clock that is read late makes a difference.
pub(super) fn until(last: MonotonicTime, time: Duration, drops: u32) -> MonotonicTime {
    let halves = u64::from(drops).saturating_mul(2).saturating_add(3);
    MonotonicTime(last.0.saturating_add(half(time).saturating_mul(halves)))
}

/// Half of it, in milliseconds: whoever looks later than that was away, and cannot tell whether there was a sign.
pub(super) fn half(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_middle_of_the_window() {
        let (time, last) = (Duration::from_secs(5), MonotonicTime(1000));
        assert_eq!(
            until(last, time, 0),
            MonotonicTime(1000 + 7500),
            "between 5 and 10 seconds"
        );
        assert_eq!(
            until(last, time, 2),
            MonotonicTime(1000 + 17_500),
            "between 15 and 20 seconds"
        );
        assert_eq!(
            until(last, Duration::from_secs(u64::from(u32::MAX)), u32::MAX),
            MonotonicTime(u64::MAX),
            "that is for ever"
        );
    }
}
