//! The digest by which a component is known: in the trace, in pins and in the audit trail.
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Digest as _;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The SHA-256 of a component's bytes. Written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
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
        let fits = digits.len() == 64;
        bytes
            .try_into()
            .ok()
            .filter(|_| fits)
            .map(Digest)
            .ok_or_else(wrong)
    }
}

/// A text that is no digest.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is no digest: those have 64 hexadecimal digits")]
pub struct NoDigest {
    /// The text, or how it begins.
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
