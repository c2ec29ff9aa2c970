//! Digest that identifies a component in the trace, in pinned versions and in the audit trail.
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// SHA-256 of a component's bytes. The text form has 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Returns the digest of bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = NoDigest;
    fn from_str(text: &str) -> Result<Digest, NoDigest> {
        let wrong = || NoDigest {
            text: text.chars().take(80).collect(),
        };
        let digits: Vec<u8> = text
            .chars()
            .map(|digit| {
                digit
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            })
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        let bytes: Vec<u8> = digits
            .chunks_exact(2)
            .filter_map(|pair| Some(pair.first()? << 4 | pair.get(1)?))
            .collect();
        // `chunks_exact` leaves out an odd digit, so 65 digits would give 32 bytes, too.
        let fits = digits.len() == 64;
        bytes
            .try_into()
            .ok()
            .filter(|_| fits)
            .map(Digest)
            .ok_or_else(wrong)
    }
}

/// Error for a text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a digest: 64 hexadecimal digits are expected")]
pub struct NoDigest {
    /// The text, cut to 80 characters.
    pub text: String,
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
