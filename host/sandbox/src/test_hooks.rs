//! What stands in for the time and the trace where a module is tried out, so that the same comes out every time.
use crate::CallUsage;

/// What a module knows the time by, what it says, and what it uses. Where there is one, the time of calls is that of the processor.
pub trait TestHooks: Send + Sync {
    /// Milliseconds since the epoch.
    fn now(&self) -> u64;
    /// Takes a message that the module logs, made plain; it is not traced.
    fn trace(&self, level: tracing::Level, message: &str);
    /// Is told, after each call of an instance (its init among them), what that took, and how many bytes the instance's memories
    /// and tables have, which never shrink.
    fn used(&self, usage: &CallUsage, memory: usize);
}
