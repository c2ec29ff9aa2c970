//! Capability `logging`: writes to the trace of the host.
use crate::bindings::logging::{Level, log};

/// Writes a message about a failure.
pub fn error(message: impl AsRef<str>) {
    log(Level::Error, message.as_ref());
}

/// Writes a message about a suspicious condition.
pub fn warn(message: impl AsRef<str>) {
    log(Level::Warn, message.as_ref());
}

/// Writes a message about a notable fact.
pub fn info(message: impl AsRef<str>) {
    log(Level::Info, message.as_ref());
}

/// Writes a message for fault finding.
pub fn debug(message: impl AsRef<str>) {
    log(Level::Debug, message.as_ref());
}

/// Writes a message of the most detailed level.
pub fn trace(message: impl AsRef<str>) {
    log(Level::Trace, message.as_ref());
}
