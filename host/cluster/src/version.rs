//! Version of the protocol between servers.
use std::fmt;

/// Version of the protocol between servers. It begins every frame.
///
/// A new kind of message or an additional field is a new minor version: older servers drop messages
/// of kinds that they do not know, and ignore additional fields. Everything else is a new major
/// version, of which older servers take nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ProtocolVersion {
    /// Changed by what older servers cannot understand.
    pub major: u8,
    /// Changed by what older servers can leave out.
    pub minor: u8,
}

/// Contents of a frame, and its version.
pub(crate) struct VersionedContents<'a> {
    pub(crate) version: ProtocolVersion,
    pub(crate) contents: &'a [u8],
}

impl ProtocolVersion {
    /// Version of this server.
    pub const CURRENT: ProtocolVersion = ProtocolVersion { major: 1, minor: 4 };

    /// Returns the first bytes of a frame of this version: the mark of its kind, and the version.
    pub(crate) fn header(self, mark: [u8; 2]) -> Vec<u8> {
        let [first, second] = mark;
        vec![first, second, self.major, self.minor]
    }

    /// Reads the first bytes of a frame with this mark. Returns `None` for other bytes.
    pub(crate) fn read(mark: [u8; 2], bytes: &[u8]) -> Option<VersionedContents<'_>> {
        let contents = bytes.strip_prefix(&mark)?;
        let (&[major, minor], contents) = contents.split_first_chunk()?;
        let version = ProtocolVersion { major, minor };
        Some(VersionedContents { version, contents })
    }

    /// Returns true if a server of this version understands frames of the other version.
    pub fn understands(self, other: ProtocolVersion) -> bool {
        self.major == other.major
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
