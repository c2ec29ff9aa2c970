//! Deadline of heartbeats.
use crate::MonotonicTime;
use std::time::Duration;

/// Returns the time at which a proc counts as silent after its last heartbeat. A heartbeat is due
/// each `time`, and `drops` of them may be missed.
///
/// The proc must not count as silent before d + 1 times and must after d + 2 times the `time`,
/// where d is `drops`. The deadline is in the middle, so that delayed heartbeats and late checks
/// make no difference.
pub(super) fn until(last: MonotonicTime, time: Duration, drops: u32) -> MonotonicTime {
    let halves = u64::from(drops).saturating_mul(2).saturating_add(3);
    MonotonicTime(last.0.saturating_add(half(time).saturating_mul(halves)))
}

/// Returns half of a time, in milliseconds. A check that is later than that cannot tell whether a
/// heartbeat came.
pub(super) fn half(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_middle_of_the_window() {
        let time = Duration::from_secs(5);
        let last = MonotonicTime(1000);
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
