//! Capability `random`: reads random data from the random source of the host system.
use crate::bindings::random;

/// Maximum number of bytes of one call of the host.
const AT_ONCE: usize = 65_536;

/// Returns a uniformly distributed number.
pub fn get_u64() -> u64 {
    random::get_random_u64()
}

/// Fills a buffer with random bytes.
///
/// # Errors
/// The status of the refusal.
pub fn fill(bytes: &mut [u8]) -> Result<(), i32> {
    for part in bytes.chunks_mut(AT_ONCE) {
        let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
        part.copy_from_slice(&random::get_random_bytes(len)?);
    }
    Ok(())
}
