//! Capability `clock`: knows the time.
use crate::bindings::clock;
use std::time::Duration;

/// The time since the epoch, in whole milliseconds; the same throughout one call.
pub fn now() -> Duration {
    Duration::from_millis(clock::now())
}
