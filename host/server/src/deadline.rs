//! Waiting for the deadlines of state machines, which know no clock.
use peal_core::MonotonicTime;
use std::time::{Duration, Instant};

/// Waits until the state machine's next deadline; for ever if it has none.
pub(crate) async fn until(started: Instant, deadline: Option<MonotonicTime>) {
    match deadline {
        Some(at) => tokio::time::sleep_until((started + Duration::from_millis(at.0)).into()).await,
        None => std::future::pending().await,
    }
}
