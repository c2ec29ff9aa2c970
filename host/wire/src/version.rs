//! Release of a peer, as stated in the handshake.
use crate::{Quoted, WireError};
use std::{fmt, str::FromStr};

/// A release of `libpmix`, by its three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u16,
    /// Second number.
    pub minor: u16,
    /// Third number.
    pub release: u16,
}

impl Version {
    /// Makes a release of its numbers.
    pub const fn new(major: u16, minor: u16, release: u16) -> Version {
        Version {
            major,
            minor,
            release,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.release)
    }
}

impl FromStr for Version {
    type Err = WireError;

    /// Parses `4.2.2`, `v4.2.2` and `4.2.2rc2`. Absent second and third numbers are zero.
    fn from_str(text: &str) -> Result<Version, WireError> {
        let wrong = || WireError::Version {
            text: Quoted::new(text),
        };
        let digits = text.strip_prefix('v').unwrap_or(text);
        // A suffix such as `rc2` ends the third number and is ignored.
        let mut numbers = digits.split(|c: char| !c.is_ascii_digit());
        let major = numbers
            .next()
            .unwrap_or_default()
            .parse()
            .map_err(|_| wrong())?;
        let mut next = || match numbers.next() {
            // Two separators in a row, as in `7.rc1`, leave an empty part.
            None | Some("") => Ok(0),
            Some(number) => number.parse().map_err(|_| wrong()),
        };
        Ok(Version {
            major,
            minor: next()?,
            release: next()?,
        })
    }
}

/// A release with its text, which may have a suffix (`4.2.2rc2`).
#[derive(Clone, PartialEq, Eq)]
pub struct Release {
    text: Box<str>,
    version: Version,
}

impl Release {
    /// Suffix of the release text of a server that adapts to the release of each client, as Peal's
    /// does.
    pub const ADAPTS: &str = "peal";

    /// Returns true if the server adapts to the release of each client.
    pub fn adapts(&self) -> bool {
        self.text.ends_with(Release::ADAPTS)
    }

    /// Returns the text as sent.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the three numbers.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl FromStr for Release {
    type Err = WireError;

    /// Parses any text that begins with a version and contains no NUL.
    fn from_str(text: &str) -> Result<Release, WireError> {
        let version = text.parse()?;
        // The handshake has the text as a C string, which a NUL would end early.
        if text.contains('\0') {
            return Err(WireError::Version {
                text: Quoted::new(text),
            });
        }
        Ok(Release {
            text: text.into(),
            version,
        })
    }
}

impl From<Version> for Release {
    fn from(version: Version) -> Release {
        Release {
            text: version.to_string().into(),
            version,
        }
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_all_their_texts() {
        for (text, version) in [
            ("4.2.2rc2", Version::new(4, 2, 2)),
            ("v4.2.2", Version::new(4, 2, 2)),
            ("5.0.11rc1", Version::new(5, 0, 11)),
            ("7.0", Version::new(7, 0, 0)),
            ("6.1.0a1-dirty", Version::new(6, 1, 0)),
        ] {
            assert_eq!(text.parse(), Ok(version), "{text}");
        }
        for (text, adapts) in [("4.2.2peal", true), ("4.2.2", false), ("4.2.2rc2", false)] {
            let release: Release = text.parse().unwrap();
            assert_eq!(
                (release.version(), release.adapts()),
                (Version::new(4, 2, 2), adapts),
                "{text}"
            );
        }
        for text in ["", "rc2", "99999999.0.0", "4.99999999"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
        assert!(Version::new(5, 0, 9) < Version::new(5, 0, 11));
    }
}
