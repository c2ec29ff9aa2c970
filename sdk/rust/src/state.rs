//! Capability `state`: a small store of keys and values of this module's own, which survives restarts. Whatever is done takes
//! effect at once, also if the call then fails.
//!
//! Everything is refused with [`crate::status::PMIX_ERR_NOT_AVAILABLE`] where the host keeps no state for this module, and
//! with [`crate::status::PMIX_ERR_BAD_PARAM`] for a key that is empty or longer than 256 bytes.
use crate::bindings::state;

/// The value of a key, if there is one.
///
/// # Errors
/// The status with which it was refused.
pub fn get(key: &str) -> Result<Option<Vec<u8>>, i32> {
    state::get(key)
}

/// Sets a key.
///
/// # Errors
/// The status with which it was refused: [`crate::status::PMIX_ERR_BAD_PARAM`] for a value longer than 65536 bytes,
/// [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] where the module's quota does not allow it. Then nothing changes.
pub fn set(key: &str, value: &[u8]) -> Result<(), i32> {
    state::set(key, value)
}

/// Drops a key, if it is there.
///
/// # Errors
/// The status with which it was refused.
pub fn delete(key: &str) -> Result<(), i32> {
    state::delete(key)
}

/// All keys that begin with this, in their order; with the empty prefix all there are.
///
/// # Errors
/// The status with which it was refused.
pub fn keys(prefix: &str) -> Result<Vec<String>, i32> {
    state::keys(prefix)
}
