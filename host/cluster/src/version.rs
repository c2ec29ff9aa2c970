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

impl ProtocolVersion {
    /// Version of this server.
    pub const CURRENT: ProtocolVersion = ProtocolVersion { major: 1, minor: 2 };

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
