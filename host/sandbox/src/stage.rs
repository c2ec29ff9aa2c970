//! What stands in for the time and the trace where a module is tried out, so that the same comes out every time.

/// What a module knows the time by, what it says, and what it uses.
pub trait Stage: Send + Sync {
    /// Milliseconds since the epoch.
    fn now(&self) -> u64;
    /// Takes a message that the module logs, made plain; it is not traced.
    fn say(&self, level: tracing::Level, message: &str);
    /// Is told, after each call of an instance (its init among them), what that took.
    fn used(&self, usage: Usage);
}

/// What a call took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// How many instructions it ran, roughly; none where the engine does not count them.
    pub fuel: Option<u64>,
    /// Bytes of the instance's memories and tables, which never shrink.
    pub memory: usize,
}
