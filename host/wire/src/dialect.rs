//! Differences between releases and between encodings, one table each.
use crate::{Quoted, Version, WireError};
use peal_model::{CommandCode, DataType, UnknownNumber};
use std::{fmt, str::FromStr};

/// Encodings (`bfrops` modules of OpenPMIx). Older ones have fixed-width integers and are not
/// supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// Encoding of release 4.0.
    V4,
    /// Encoding of releases 4.1 to 5.0; all later ones read it.
    V41,
    /// Encoding of release 6.
    V51,
    /// Encoding of releases 6 and 7.
    V61,
}

impl Encoding {
    /// All encodings, each with its name and its newest data type.
    const TABLE: [(Encoding, &'static str, DataType); 4] = [
        (Encoding::V4, "v4", DataType(59)),
        (Encoding::V41, "v41", DataType(69)),
        (Encoding::V51, "v51", DataType(72)),
        (Encoding::V61, "v61", DataType(75)),
    ];

    fn row(self) -> (Encoding, &'static str, DataType) {
        // The pattern and the match keep enumeration and table in step: a missing row does not
        // compile.
        let [v4, v41, v51, v61] = Self::TABLE;
        match self {
            Encoding::V4 => v4,
            Encoding::V41 => v41,
            Encoding::V51 => v51,
            Encoding::V61 => v61,
        }
    }

    /// Returns the name in the handshake.
    pub fn name(self) -> &'static str {
        self.row().1
    }
}

impl FromStr for Encoding {
    type Err = WireError;
    fn from_str(name: &str) -> Result<Encoding, WireError> {
        let found = Self::TABLE
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0);
        found.ok_or_else(|| WireError::Encoding {
            name: Quoted::new(name),
        })
    }
}

/// Presence of types in packed fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferType {
    /// Fields without types, as in release builds.
    NonDescribed,
    /// Fields with types, as in debug builds.
    Described,
}

impl BufferType {
    /// Returns the number on the wire.
    pub fn number(self) -> u8 {
        match self {
            BufferType::NonDescribed => 1,
            BufferType::Described => 2,
        }
    }

    /// Returns the name by which a server requests it from its clients, in
    /// [`crate::variable::BUFFER_TYPE`].
    pub fn name(self) -> &'static str {
        match self {
            BufferType::NonDescribed => "PMIX_BFROP_BUFFER_NON_DESC",
            BufferType::Described => "PMIX_BFROP_BUFFER_FULLY_DESC",
        }
    }
}

impl TryFrom<u8> for BufferType {
    type Error = UnknownNumber;
    fn try_from(number: u8) -> Result<BufferType, UnknownNumber> {
        match number {
            1 => Ok(BufferType::NonDescribed),
            2 => Ok(BufferType::Described),
            _ => Err(UnknownNumber {
                kind: "buffer type",
                number: u32::from(number),
            }),
        }
    }
}

/// Parts that follow the status in the reply to a group construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupReply {
    /// The context id.
    Id,
    /// The members, then the context id.
    MembersId,
    /// The members, the context id, and the job data of foreign namespaces.
    MembersIdJobs,
    /// The members, a flag for the context id, that id, and infos.
    MembersIdInfos,
}

/// Arguments of a request to destruct a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupDestruct {
    /// The group and directives.
    Short,
    /// The group, its members and directives.
    Members,
}

/// Form of the answer to a singleton's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingletonReply {
    /// The form for a tool that has its own identifier.
    Tool,
    /// The form for a client.
    Client,
}

/// Source of the job data of a singleton that is connected to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingletonJobData {
    /// The singleton itself.
    Own,
    /// The server.
    Requested,
}

/// Encoding of an array whose elements have no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntypedArray {
    /// The type and a count of zero.
    Counted,
    /// The type alone. An array of arrays ends after its first element without a type; the
    /// remaining elements are read as equal to it.
    TypeAlone,
}

/// Row of the release table. It holds for a release and all later ones up to the next row.
#[derive(PartialEq, Eq)]
struct ReleaseRow {
    since: Version,
    /// True if a client sends a zero byte after its handshake.
    stray_byte: bool,
    group_reply: GroupReply,
    group_destruct: GroupDestruct,
    singleton_reply: SingletonReply,
    singleton_job_data: SingletonJobData,
    untyped_array: UntypedArray,
    newest_type: DataType,
    retired_types: &'static [DataType],
}

/// The oldest release that is supported.
const RELEASE_4: ReleaseRow = ReleaseRow {
    // Clients older than 4.0 have encodings that are refused, so this row need not exclude them.
    since: Version::new(0, 0, 0),
    stray_byte: true,
    group_reply: GroupReply::Id,
    group_destruct: GroupDestruct::Short,
    singleton_reply: SingletonReply::Tool,
    singleton_job_data: SingletonJobData::Own,
    untyped_array: UntypedArray::Counted,
    newest_type: DataType(69),
    retired_types: &[],
};

/// Release 5.0.0.
const RELEASE_5: ReleaseRow = ReleaseRow {
    since: Version::new(5, 0, 0),
    stray_byte: false,
    group_reply: GroupReply::MembersIdJobs,
    group_destruct: GroupDestruct::Members,
    ..RELEASE_4
};

/// Release 6.0.0.
const RELEASE_6: ReleaseRow = ReleaseRow {
    since: Version::new(6, 0, 0),
    group_reply: GroupReply::MembersIdInfos,
    newest_type: DataType(73),
    // 6.0 lacks the later change of 5.0.9, so this row continues 5.0.0.
    ..RELEASE_5
};

/// All releases that differ from the one before, oldest first. A later release gets a further row.
static RELEASES: [ReleaseRow; 8] = [
    RELEASE_4,
    ReleaseRow {
        since: Version::new(4, 2, 3),
        stray_byte: false,
        ..RELEASE_4
    },
    ReleaseRow {
        since: Version::new(4, 2, 4),
        stray_byte: false,
        group_reply: GroupReply::MembersId,
        group_destruct: GroupDestruct::Members,
        ..RELEASE_4
    },
    RELEASE_5,
    ReleaseRow {
        since: Version::new(5, 0, 9),
        singleton_reply: SingletonReply::Client,
        ..RELEASE_5
    },
    RELEASE_6,
    ReleaseRow {
        since: Version::new(6, 1, 0),
        singleton_reply: SingletonReply::Client,
        singleton_job_data: SingletonJobData::Requested,
        untyped_array: UntypedArray::TypeAlone,
        retired_types: &[
            DataType::DISK_STATS,
            DataType::NET_STATS,
            DataType::NODE_STATS,
        ],
        ..RELEASE_6
    },
    ReleaseRow {
        since: Version::new(7, 0, 0),
        singleton_reply: SingletonReply::Client,
        singleton_job_data: SingletonJobData::Requested,
        untyped_array: UntypedArray::TypeAlone,
        newest_type: DataType(75),
        retired_types: &[
            DataType::DISK_STATS,
            DataType::NET_STATS,
            DataType::NODE_STATS,
            DataType::COMPRESSED_STRING,
        ],
        ..RELEASE_6
    },
];

/// Commands that the oldest release lacks, each with its first release.
const NEWER_COMMANDS: [(CommandCode, Version); 5] = [
    (CommandCode::RefreshCache, Version::new(5, 0, 0)),
    (CommandCode::ResourceBlock, Version::new(6, 0, 0)),
    (CommandCode::SessionControl, Version::new(6, 0, 0)),
    (CommandCode::ResolvePeers, Version::new(5, 0, 7)),
    (CommandCode::ResolveNode, Version::new(5, 0, 7)),
];

/// Types that occur only outside of values or that Peal does not carry: buffers, regular
/// expressions, proc statistics, and two numbers that were never assigned.
///
/// A regular expression (49) does not carry its length. Proc statistics (61) are written without
/// the largest size of the proc, by every release that has them, but read with it: the receiver
/// would lose the whole message. An error to the sender is better.
const NOT_IN_VALUES: [u16; 6] = [26, 29, 44, 49, 61, 74];

/// Dialect of a peer: its release and the encoding that it announced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    version: Version,
    encoding: Encoding,
    row: &'static ReleaseRow,
}

impl Dialect {
    /// Returns the dialect of a release in an encoding.
    pub fn new(version: Version, encoding: Encoding) -> Dialect {
        let row = RELEASES
            .iter()
            .rev()
            .find(|row| row.since <= version)
            // The first row begins at 0.0.0, so every release has a row.
            .unwrap_or(&RELEASE_4);
        Dialect {
            version,
            encoding,
            row,
        }
    }

    /// Returns the release.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns true if a zero byte follows the handshake.
    pub fn has_stray_byte(&self) -> bool {
        self.row.stray_byte
    }

    /// Returns the parts of the reply to a group construct.
    pub fn group_reply(&self) -> GroupReply {
        self.row.group_reply
    }

    /// Returns the arguments of a request to destruct a group.
    pub fn group_destruct(&self) -> GroupDestruct {
        self.row.group_destruct
    }

    /// Returns the form of the answer to a singleton's handshake.
    pub fn singleton_reply(&self) -> SingletonReply {
        self.row.singleton_reply
    }

    /// Returns the source of a singleton's job data.
    pub fn singleton_job_data(&self) -> SingletonJobData {
        self.row.singleton_job_data
    }

    /// Returns the encoding of an array whose elements have no type.
    pub fn untyped_array(&self) -> UntypedArray {
        self.row.untyped_array
    }

    /// Returns true if the release has a command.
    pub fn has_command(&self, command: CommandCode) -> bool {
        let too_new = |newer: &(CommandCode, Version)| newer.0 == command && self.version < newer.1;
        !NEWER_COMMANDS.iter().any(too_new)
    }

    /// Returns true if values of a type can be sent.
    pub fn has_type(&self, data_type: DataType) -> bool {
        // A newer library that talks in an older encoding keeps to the types of that encoding.
        let newest = self.row.newest_type.min(self.encoding.row().2);
        data_type <= newest
            && !self.row.retired_types.contains(&data_type)
            && !NOT_IN_VALUES.contains(&data_type.0)
    }

    pub(crate) fn check_type(&self, data_type: DataType) -> Result<(), WireError> {
        if self.has_type(data_type) {
            Ok(())
        } else {
            Err(WireError::TypeUnknown {
                data_type,
                version: self.version,
            })
        }
    }

    pub(crate) fn check_command(&self, command: CommandCode) -> Result<(), WireError> {
        let known = self.has_command(command);
        if known {
            Ok(())
        } else {
            Err(WireError::CommandNotInRelease {
                command,
                version: self.version,
            })
        }
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.encoding.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: &str) -> Dialect {
        Dialect::new(version.parse().unwrap(), Encoding::V41)
    }

    #[test]
    fn the_stray_byte_ends_with_4_2_2() {
        let with: Vec<_> = ["4.1.4", "4.2.2", "4.2.3", "5.0.0"]
            .map(|text| of(text).has_stray_byte())
            .into();
        assert_eq!(with, [true, true, false, false]);
    }

    #[test]
    fn groups_have_four_forms() {
        for (version, reply, destruct) in [
            ("4.2.3", GroupReply::Id, GroupDestruct::Short),
            ("4.2.4", GroupReply::MembersId, GroupDestruct::Members),
            ("5.0.11", GroupReply::MembersIdJobs, GroupDestruct::Members),
            ("6.0.0", GroupReply::MembersIdInfos, GroupDestruct::Members),
            ("7.0.0", GroupReply::MembersIdInfos, GroupDestruct::Members),
        ] {
            assert_eq!(
                (of(version).group_reply(), of(version).group_destruct()),
                (reply, destruct),
                "{version}"
            );
        }
    }

    #[test]
    fn singletons_are_tools_until_a_late_5_and_again_in_6_0() {
        for (version, form) in [
            ("4.2.2", SingletonReply::Tool),
            ("5.0.8", SingletonReply::Tool),
            ("5.0.9", SingletonReply::Client),
            ("6.0.0", SingletonReply::Tool),
            ("6.1.0", SingletonReply::Client),
            ("8.0.0", SingletonReply::Client),
        ] {
            assert_eq!(of(version).singleton_reply(), form, "{version}");
        }
    }

    #[test]
    fn singletons_request_job_data_from_6_1() {
        let from: Vec<_> = ["4.2.2", "5.0.11", "6.0.0", "6.1.0", "7.0.0"]
            .map(|text| of(text).singleton_job_data())
            .into();
        let own = SingletonJobData::Own;
        let requested = SingletonJobData::Requested;
        assert_eq!(from, [own, own, own, requested, requested]);
    }

    #[test]
    fn untyped_arrays_lose_their_count_in_6_1() {
        let counted: Vec<_> = ["4.2.2", "5.0.11", "6.0.1", "6.1.0", "7.0.0"]
            .map(|text| of(text).untyped_array())
            .into();
        let with = UntypedArray::Counted;
        let without = UntypedArray::TypeAlone;
        assert_eq!(counted, [with, with, with, without, without]);
    }

    #[test]
    fn commands_and_types_come_and_go_with_releases() {
        let has = |version, command| of(version).has_command(command);
        assert!(
            !has("4.2.9", CommandCode::RefreshCache) && has("5.0.0", CommandCode::RefreshCache)
        );
        assert!(
            !has("5.0.6", CommandCode::ResolvePeers) && has("5.0.7", CommandCode::ResolvePeers)
        );
        assert!(
            !has("5.0.11", CommandCode::SessionControl)
                && has("6.0.0", CommandCode::SessionControl)
        );

        let newest = |version: &str, encoding| {
            let dialect = Dialect::new(version.parse().unwrap(), encoding);
            (0..100)
                .map(DataType)
                .filter(|data_type| dialect.has_type(*data_type))
                .max()
                .unwrap()
                .0
        };
        assert_eq!(newest("5.0.11", Encoding::V4), 59);
        assert_eq!(newest("7.0.0", Encoding::V41), 69);
        assert_eq!(newest("6.0.0", Encoding::V51), 72);
        assert_eq!(newest("6.0.0", Encoding::V61), 73);
        assert_eq!(newest("7.0.0", Encoding::V61), 75);
        let has_type = |version, data_type| of(version).has_type(data_type);
        assert!(
            has_type("6.0.0", DataType::NODE_STATS) && !has_type("6.1.0", DataType::NODE_STATS)
        );
        assert!(
            has_type("6.1.0", DataType::COMPRESSED_STRING)
                && !has_type("7.0.0", DataType::COMPRESSED_STRING)
        );
    }
}
