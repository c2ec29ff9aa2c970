//! Capability `random`: random numbers, as good as those of the host's system.
use crate::bindings::random;

/// The most bytes that the host gives at once.
const AT_ONCE: usize = 65_536;

/// A number; each is as likely as any other.
pub fn number() -> u64 {
    random::number()
}

/// Fills this with random bytes.
///
/// # Errors
/// The status with which it was refused.
pub fn fill(bytes: &mut [u8]) -> Result<(), i32> {
    for part in bytes.chunks_mut(AT_ONCE) {
        let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
        part.copy_from_slice(&random::bytes(len)?);
    }
    Ok(())
}
