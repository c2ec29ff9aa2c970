//! Bounds on what a peer may make this process read and keep.
use crate::WireError;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Bounds on decoded messages. The same bounds apply to encoded ones, so that two peers of Peal
/// understand each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest body of a handshake, in bytes. `libpmix` refuses more than the default, 131072.
    pub max_handshake: usize,
    /// Longest payload of a message, in bytes.
    pub max_message: usize,
    /// Largest number of elements of one list or array.
    pub max_count: usize,
    /// Largest number of levels of nested values. An array of infos has three: array, info, value.
    pub max_depth: usize,
    /// Longest string, in bytes with its NUL.
    pub max_string: usize,
    /// Largest memory of one decoded message, in bytes, approximately. An array of booleans, for
    /// example, takes far more in memory than on the wire. Only elements that were read are
    /// counted; lists may have reserved up to twice as much.
    pub max_memory: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        DecodeLimits {
            max_handshake: 128 * KIB,
            max_message: 64 * MIB,
            max_count: MIB,
            max_depth: 16,
            max_string: 16 * MIB,
            max_memory: 256 * MIB,
        }
    }
}

impl DecodeLimits {
    pub(crate) fn check(
        &self,
        part: &'static str,
        len: u64,
        limit: usize,
    ) -> Result<(), WireError> {
        let limit = limit as u64;
        if len > limit {
            Err(WireError::TooLong { part, len, limit })
        } else {
            Ok(())
        }
    }
}
