//! The pace of requests of a running server, with the time for which its threads are busy.
use crate::{
    client_writer::Behind,
    request_pace::{PacedUser, RequestPace, RequestTime},
};
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// Pace of the requests of a server's users.
pub struct RequestPacer {
    pace: Mutex<RequestPace>,
    /// Function that returns the time for which a thread of the server has been busy.
    busy: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl RequestPacer {
    /// Creates the pace of a server that may be busy for this part of the time in percent.
    pub(crate) fn new(
        max_busy_percent: u32,
        busy: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> RequestPacer {
        RequestPacer {
            pace: Mutex::new(RequestPace::new(max_busy_percent, Instant::now())),
            busy: Box::new(busy),
        }
    }

    /// Returns the time at which a request of this user may be executed.
    pub(crate) fn time_of(&self, user: PacedUser, now: Instant) -> RequestTime {
        self.pace().time_of(user, now)
    }

    /// Notes a request of this user. Returns the time at which the next one may be executed.
    pub(crate) fn note(&self, user: PacedUser, behind: Behind, now: Instant) -> RequestTime {
        let mut pace = self.pace();
        pace.note(user, behind, now);
        if pace.is_window_over(now) {
            pace.end_window((self.busy)(), now);
        }
        pace.time_of(user, now)
    }

    fn pace(&self) -> MutexGuard<'_, RequestPace> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RequestPacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestPacer").finish_non_exhaustive()
    }
}

/// Returns a function that returns the time for which a thread of the current runtime has been busy
/// since the runtime's start.
pub(crate) fn runtime_busy() -> impl Fn() -> Duration + Send + Sync + 'static {
    let runtime = Handle::current().metrics();
    move || {
        let threads = runtime.num_workers();
        let all: Duration = (0..threads)
            .map(|thread| runtime.worker_total_busy_duration(thread))
            .sum();
        all / u32::try_from(threads).unwrap_or(u32::MAX).max(1)
    }
}
