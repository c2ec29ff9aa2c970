//! Task that keeps the thread of the runtime awake for a bounded time after each work of the server, so that the next
//! message need not wake it.
use peal_sandbox::SpinTime;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};
use tokio::{sync::Notify, task::yield_now};

/// Time after work in which the server looks for more, and the task that does it.
#[derive(Debug, Default)]
pub(crate) struct Spinner {
    /// Zero if the server sleeps at once.
    length: Duration,
    /// True if there was work since the task has looked last.
    has_worked: AtomicBool,
    is_awake: AtomicBool,
    wake: Notify,
    /// Nanoseconds in which the task found nothing.
    idle: AtomicU64,
}

impl Spinner {
    pub(crate) fn new(length: Duration) -> Spinner {
        Spinner {
            length,
            ..Spinner::default()
        }
    }

    /// Notes that the server has worked.
    pub(crate) fn note_work(&self) {
        if self.length.is_zero() {
            return;
        }
        self.has_worked.store(true, Ordering::Relaxed);
        if !self.is_awake.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Returns the time in which the runtime was busy only by this.
    pub(crate) fn idle_time(&self) -> Duration {
        Duration::from_nanos(self.idle.load(Ordering::Relaxed))
    }

    /// Keeps the runtime awake after work, for as long as the calling task runs.
    pub(crate) async fn run(&self) {
        loop {
            self.wake.notified().await;
            self.spin().await;
            // Work that was noted since the last look finds the thread asleep next time.
            self.is_awake.store(false, Ordering::Relaxed);
        }
    }

    async fn spin(&self) {
        let mut time = SpinTime::start(self.length);
        let mut looked = Instant::now();
        while time.goes_on() {
            // The runtime polls its connections between two looks.
            yield_now().await;
            let now = Instant::now();
            if self.has_worked.swap(false, Ordering::Relaxed) {
                time = SpinTime::start(self.length);
            } else {
                let idle = now.saturating_duration_since(looked).as_nanos();
                let idle = u64::try_from(idle).unwrap_or(u64::MAX);
                self.idle.fetch_add(idle, Ordering::Relaxed);
            }
            looked = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn spinner_ends_its_time_after_work() {
        let spinner = Spinner::new(Duration::from_micros(200));
        spinner.note_work();
        assert!(spinner.is_awake.load(Ordering::Relaxed));
        tokio::select! {
            () = spinner.run() => {}
            () = async {
                while spinner.is_awake.load(Ordering::Relaxed) {
                    yield_now().await;
                }
            } => {}
        }
        assert!(spinner.idle_time() < Duration::from_secs(1), "{spinner:?}");
        // It is woken again.
        spinner.note_work();
        assert!(spinner.is_awake.load(Ordering::Relaxed));
    }

    #[test]
    fn server_without_time_for_it_never_wakes_the_task() {
        let spinner = Spinner::new(Duration::ZERO);
        spinner.note_work();
        assert!(!spinner.is_awake.load(Ordering::Relaxed));
    }
}
