//! How much a peer may make this process read and remember.
use crate::WireError;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Bounds on what is decoded, and the same bounds on what is encoded, so that two peers of Peal understand each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// The longest body of a handshake, in bytes. `libpmix` refuses more than the default, 131072.
    pub max_handshake: usize,
    /// The longest payload of a message, in bytes.
    pub max_message: usize,
    /// The most elements of one list or array.
    pub max_count: usize,
    /// The most levels of values inside of values. An array of infos is three: array, info, value.
    pub max_depth: usize,
    /// The longest string, in bytes with its NUL.
    pub max_string: usize,
    /// The most memory that one decoded message may take, approximately, in bytes. An array of booleans, for one, takes
    /// far more in memory than on the wire. What is counted is what was read: lists may have reserved up to twice as much.
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
        what: &'static str,
        len: u64,
        limit: usize,
    ) -> Result<(), WireError> {
        let limit = limit as u64;
        if len > limit {
            Err(WireError::TooLong { what, len, limit })
        } else {
            Ok(())
        }
    }
}
