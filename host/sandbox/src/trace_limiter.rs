//! Limit on the lines that a module may write to the trace: its own messages and the reports of its
//! failures. All its instances share the limit, so that a module cannot flood the trace. Lines that
//! are left out are counted.
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a burst, in multiples of those of one second.
const BURST: u32 = 2;

/// Limiter of the lines by and about one module.
pub(crate) struct TraceLimiter {
    module: Arc<str>,
    bucket: Mutex<TokenBucket>,
}

impl TraceLimiter {
    /// Makes the limiter of a module.
    pub(crate) fn new(module: Arc<str>, per_second: u32) -> TraceLimiter {
        TraceLimiter {
            module,
            bucket: Mutex::new(TokenBucket::new(Instant::now(), per_second)),
        }
    }

    /// Returns the name of the module.
    pub(crate) fn module(&self) -> &Arc<str> {
        &self.module
    }

    /// Returns true if one more line may be written. Before the first line after a gap, it logs how
    /// many were left out.
    pub(crate) fn allow(&self) -> bool {
        // The lock is released before the warning is written, which may block.
        let admitted = self
            .bucket
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .admit(Instant::now());
        if let Some(left_out @ 1..) = admitted {
            tracing::warn!(
                target: "peal::guest",
                module = &**self.module(),
                left_out,
                "trace lines of module left out, more than its limit per second"
            );
        }
        admitted.is_some()
    }
}

/// Token bucket measured in time: each line costs one interval, and the cost expires as time
/// passes.
struct TokenBucket {
    interval: Duration,
    per_second: u32,
    spent: Duration,
    at: Instant,
    left_out: u64,
}

impl TokenBucket {
    fn new(now: Instant, per_second: u32) -> TokenBucket {
        let per_second = per_second.max(1);
        TokenBucket {
            interval: Duration::from_secs(1) / per_second,
            per_second,
            spent: Duration::ZERO,
            at: now,
            left_out: 0,
        }
    }

    fn admit(&mut self, now: Instant) -> Option<u64> {
        self.spent = self
            .spent
            .saturating_sub(now.saturating_duration_since(self.at));
        self.at = now;
        let spent = self.spent + self.interval;
        if spent
            > self
                .interval
                .saturating_mul(self.per_second.saturating_mul(BURST))
        {
            // A line that is left out costs nothing.
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.spent = spent;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_passes_then_fifty_per_second_and_dropped_are_counted() {
        let start = Instant::now();
        let mut allowance = TokenBucket::new(start, 50);
        let mut passed = |at: Instant, tries: u32| {
            (0..tries)
                .filter_map(|_| allowance.admit(at))
                .collect::<Vec<_>>()
        };
        assert_eq!(passed(start, 250).len(), 100);
        let later = passed(start + Duration::from_secs(1), 60);
        assert_eq!(
            (later.len(), later[0], later[1]),
            (50, 150, 0),
            "the first of them says how many were left out"
        );
        assert_eq!(
            passed(start + Duration::from_secs(60), 250).len(),
            100,
            "never more than a burst"
        );
    }
}
