//! Capability `state`: a small key-value store of this module that survives restarts. Operations
//! take effect immediately, also if the call then fails.
//!
//! All are refused with [`crate::status::PMIX_ERR_NOT_AVAILABLE`] if the host keeps no state for
//! this module, and with [`crate::status::PMIX_ERR_BAD_PARAM`] for a key that is empty or longer
//! than 256 bytes.
use crate::bindings::state;

/// Returns the value of a key, if the key exists.
///
/// # Errors
/// The status of the refusal.
pub fn get(key: &str) -> Result<Option<Vec<u8>>, i32> {
    state::get(key)
}

/// Sets a key.
///
/// # Errors
/// The status of the refusal: [`crate::status::PMIX_ERR_BAD_PARAM`] for a value longer than 65536
/// bytes, [`crate::status::PMIX_ERR_OUT_OF_RESOURCE`] beyond the quota of the module. The key then
/// keeps its value.
pub fn set(key: &str, value: &[u8]) -> Result<(), i32> {
    state::set(key, value)
}

/// Deletes a key, if it exists.
///
/// # Errors
/// The status of the refusal.
pub fn delete(key: &str) -> Result<(), i32> {
    state::delete(key)
}

/// Returns all keys with a prefix, sorted; with the empty prefix all keys.
///
/// # Errors
/// The status of the refusal.
pub fn keys(prefix: &str) -> Result<Vec<String>, i32> {
    state::keys(prefix)
}
