//! Capability `logging`: writes to the host's trace.
use crate::bindings::logging::{Level, log};
use std::sync::Once;

/// Something failed.
pub fn error(message: impl AsRef<str>) {
    log(Level::Error, message.as_ref());
}

/// Something looks wrong.
pub fn warn(message: impl AsRef<str>) {
    log(Level::Warn, message.as_ref());
}

/// Worth knowing.
pub fn info(message: impl AsRef<str>) {
    log(Level::Info, message.as_ref());
}

/// For whoever looks for a fault.
pub fn debug(message: impl AsRef<str>) {
    log(Level::Debug, message.as_ref());
}

/// Everything.
pub fn trace(message: impl AsRef<str>) {
    log(Level::Trace, message.as_ref());
}

/// From now on a panic is logged, as an error, before it becomes a trap. Cheap to call each time. Not done by itself,
/// because a module that never logs need not ask for `logging`.
pub fn panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| std::panic::set_hook(Box::new(|panic| error(panic.to_string()))));
}
