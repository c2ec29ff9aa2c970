//! Quarantine of modules: a module that fails too often is not called any more until it is reset.
use crate::{CallFailure, Digest, FailureKind, LimitKind, ModuleLimits};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Health of a module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ModuleHealth {
    /// Time at which the module was quarantined, if it is.
    pub quarantined: Option<SystemTime>,
    /// Failures within the window; constant once the module is quarantined.
    pub failures: usize,
    /// Time and failure of the last failed call.
    pub last: Option<(SystemTime, CallFailure)>,
}

/// Report of a quarantine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Quarantined {
    /// Name of the module.
    pub module: Arc<str>,
    /// Digest of the component.
    pub digest: Digest,
    /// Failures within the window.
    pub failures: usize,
    /// Length of the window.
    pub window: Duration,
    /// Last of these failures.
    pub last: CallFailure,
}

/// Callback for a quarantine, called at once on the thread of the call that failed.
pub type OnQuarantine = Arc<dyn Fn(&Quarantined) + Send + Sync>;

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quarantined {
            module,
            failures,
            window,
            last,
            ..
        } = self;
        write!(
            f,
            "module {module} is quarantined: it failed {failures} times within {window:?}; the last failure: {last}"
        )
    }
}

/// Counter of failures within a window of time.
#[derive(Debug)]
pub(crate) struct FailureWindow {
    most: usize,
    window: Duration,
    failures: VecDeque<Instant>,
    is_full: bool,
}

impl FailureWindow {
    /// Makes a counter that is full after `most` failures within `window`; never full if `most` is
    /// 0.
    pub(crate) fn new(most: usize, window: Duration) -> FailureWindow {
        FailureWindow {
            most,
            window,
            failures: VecDeque::new(),
            is_full: false,
        }
    }

    /// Counts a failure. Returns true if it makes the window full.
    pub(crate) fn fail(&mut self, now: Instant) -> bool {
        // Calls that ran when the window became full may still fail. They change nothing.
        if self.is_full || self.most == 0 {
            return false;
        }
        self.forget(now);
        self.failures.push_back(now);
        self.is_full = self.failures.len() >= self.most;
        self.is_full
    }

    /// Returns the number of failures in the window now.
    pub(crate) fn count(&mut self, now: Instant) -> usize {
        self.forget(now);
        self.failures.len()
    }

    /// Removes all failures.
    pub(crate) fn clear(&mut self) {
        self.failures.clear();
        self.is_full = false;
    }

    /// Removes the failures that are as old as the window, unless it is full.
    fn forget(&mut self, now: Instant) {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) >= self.window;
        while !self.is_full && self.failures.front().is_some_and(is_old) {
            self.failures.pop_front();
        }
    }
}

/// Failure record of one module, and whether the module may be called.
pub(crate) struct Quarantine {
    /// Read before every call, without the lock.
    is_on: AtomicBool,
    limits: ModuleLimits,
    record: Mutex<FailureRecord>,
}

struct FailureRecord {
    window: FailureWindow,
    since: Option<SystemTime>,
    last: Option<(SystemTime, CallFailure)>,
}

impl Quarantine {
    pub(crate) fn new(limits: ModuleLimits) -> Quarantine {
        let most = usize::try_from(limits.failures).unwrap_or(usize::MAX);
        let window = FailureWindow::new(most, limits.failure_window);
        let record = Mutex::new(FailureRecord {
            window,
            since: None,
            last: None,
        });
        Quarantine {
            is_on: AtomicBool::new(false),
            limits,
            record,
        }
    }

    /// Returns an error if the module is quarantined.
    pub(crate) fn check(&self) -> Result<(), CallFailure> {
        if !self.is_on.load(Ordering::Acquire) {
            return Ok(());
        }
        let ModuleLimits {
            failures,
            failure_window,
            ..
        } = self.limits;
        let limit = LimitKind::Failures;
        let reason = format!(
            "module is quarantined: it failed {failures} times within {failure_window:?} ({limit})"
        );
        Err(CallFailure::new(
            FailureKind::Quarantined,
            Some(limit),
            reason,
        ))
    }

    /// Counts a failure. Returns the number of failures if the module is quarantined because of it.
    pub(crate) fn fail(&self, failure: &CallFailure) -> Option<usize> {
        let now = Instant::now();
        let wall = SystemTime::now();
        let mut record = self.record();
        record.last = Some((wall, failure.clone()));
        // Failures caused by other modules or by the host do not count.
        if !failure.is_caused_by_module() || !record.window.fail(now) {
            return None;
        }
        // The flag changes under the lock, so that a reset at the same time cannot leave flag and
        // record in disagreement.
        record.since = Some(wall);
        self.is_on.store(true, Ordering::Release);
        Some(record.window.count(now))
    }

    pub(crate) fn health(&self) -> ModuleHealth {
        let mut record = self.record();
        let failures = record.window.count(Instant::now());
        ModuleHealth {
            quarantined: record.since,
            failures,
            last: record.last.clone(),
        }
    }

    /// Takes over the quarantine of another module, unless this module is never quarantined. Returns
    /// true if it did.
    pub(crate) fn take_over(&self, other: &ModuleHealth) -> bool {
        if other.quarantined.is_none() || self.limits.failures == 0 {
            return false;
        }
        let mut record = self.record();
        (record.since, record.last) = (other.quarantined, other.last.clone());
        // A full window forgets nothing, so the times of its failures have no effect.
        let most = usize::try_from(self.limits.failures).unwrap_or(usize::MAX);
        let now = Instant::now();
        record.window.failures = std::iter::repeat_n(now, other.failures.min(most)).collect();
        record.window.is_full = true;
        self.is_on.store(true, Ordering::Release);
        true
    }

    pub(crate) fn reset(&self) {
        let mut record = self.record();
        record.window.clear();
        record.since = None;
        self.is_on.store(false, Ordering::Release);
    }

    fn record(&self) -> MutexGuard<'_, FailureRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::FailureWindow;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    /// Model of the window: returns the first failure since the last reset at which `most` failures
    /// lie within the window before it.
    fn full_at(failures: &[u64], most: usize, window: u64) -> Option<usize> {
        (0..failures.len()).find(|last| {
            let within = failures[..=*last]
                .iter()
                .filter(|at| failures[*last] - **at < window);
            most > 0 && within.count() >= most
        })
    }

    proptest! {
        #[test]
        fn quarantine_starts_at_the_last_failure_allowed_in_window(
            most in 0usize..6,
            window in 1u64..50,
            pauses in prop::collection::vec((0u64..20, prop::bool::weighted(0.05)), 0..80),
        ) {
            let start = Instant::now();
            let mut tested = FailureWindow::new(most, Duration::from_millis(window));
            let mut now = 0;
            let mut since = Vec::new();
            for (pause, is_reset) in pauses {
                now += pause;
                if is_reset {
                    tested.clear();
                    since.clear();
                }
                since.push(now);
                let at = start + Duration::from_millis(now);
                let expected = full_at(&since, most, window) == Some(since.len() - 1);
                prop_assert_eq!(tested.fail(at), expected);
                let counted = since.iter().filter(|at| now - **at < window).count();
                if full_at(&since, most, window).is_none() {
                    prop_assert_eq!(tested.count(at), if most == 0 { 0 } else { counted });
                }
                prop_assert!(tested.failures.len() <= most);
            }
        }
    }
}
