//! Waiting for the deadlines of state machines, which have no clock.
use peal_core::MonotonicTime;
use std::time::{Duration, Instant};

/// Waits until the next deadline of the state machine, or for ever if it has none.
pub(crate) async fn until(started: Instant, deadline: Option<MonotonicTime>) {
    match deadline {
        Some(at) => tokio::time::sleep_until((started + Duration::from_millis(at.0)).into()).await,
        None => std::future::pending().await,
    }
}
