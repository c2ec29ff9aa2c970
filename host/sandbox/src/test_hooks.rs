//! Replacements of the time and the trace in module tests and replays, so that each run has the
//! same result.
use crate::CallUsage;

/// Time, trace and usage of a module under test. With hooks, the time of calls is measured by the
/// processor clock.
pub trait TestHooks: Send + Sync {
    /// Returns the time in milliseconds since the epoch.
    fn now(&self) -> u64;
    /// Takes a message that the module logs, escaped for a terminal. It is not traced.
    fn trace(&self, level: tracing::Level, message: &str);
    /// Takes the usage of each call of an instance (its init among them), and the bytes of the
    /// instance's memories and tables, which never shrink.
    fn used(&self, usage: &CallUsage, memory: usize);
}
