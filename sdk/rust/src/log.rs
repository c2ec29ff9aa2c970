//! Capability `logging`: writes to the host's trace.
use crate::bindings::logging::{Level, log};

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
