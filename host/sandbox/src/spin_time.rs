//! Bounded time in which a thread looks for something instead of sleeping.
use std::{
    thread,
    time::{Duration, Instant},
};

/// Time that a yield takes at most if no other thread wants the processor.
const FREE_YIELD: Duration = Duration::from_micros(5);

/// Time in which a thread looks again and again for what another thread is about to do. It ends early when
/// another thread wants the processor.
#[derive(Debug)]
pub struct SpinTime {
    /// End, or `None` if the thread is not to spin.
    until: Option<Instant>,
}

impl SpinTime {
    /// Starts a time of this length.
    pub fn start(length: Duration) -> SpinTime {
        let until = (!length.is_zero()).then(|| Instant::now().checked_add(length));
        SpinTime {
            until: until.flatten(),
        }
    }

    /// Lets another thread have the processor. Returns false if one had it, or if the time is over.
    pub fn goes_on(&mut self) -> bool {
        let Some(until) = self.until else {
            return false;
        };
        let before = Instant::now();
        thread::yield_now();
        let now = Instant::now();
        if now >= until || now.saturating_duration_since(before) > FREE_YIELD {
            self.until = None;
        }
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_bounded() {
        let begun = Instant::now();
        let mut time = SpinTime::start(Duration::from_millis(2));
        while time.goes_on() {}
        // Another thread may have wanted the processor, but then it ends early.
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(!time.goes_on());
        assert!(!SpinTime::start(Duration::ZERO).goes_on());
    }
}
