//! Capability `sink`: writes to what the admin named and opened for this module.
use crate::bindings::sink;

/// The names of the sinks that this module may write to, in their order.
pub fn names() -> Vec<String> {
    sink::names()
}

/// Writes all of this for the request being logged, at once: what was written before a call fails stays written.
///
/// # Errors
/// The status with which it was refused: [`crate::status::PMIX_ERR_NOT_FOUND`] where no sink has this name,
/// [`crate::status::PMIX_ERR_NOT_AVAILABLE`] where nothing is being logged, else what the sink says.
pub fn write(sink: &str, bytes: impl AsRef<[u8]>) -> Result<(), i32> {
    sink::write(sink, bytes.as_ref())
}
