//! Capability `clock`: reads the clock.
use crate::bindings::clock;
use std::time::Duration;

/// Returns the time since the epoch, in whole milliseconds; the same value throughout one call.
pub fn now() -> Duration {
    Duration::from_millis(clock::now())
}
