//! What differs from release to release and from encoding to encoding: one table each.
use crate::{Quoted, Version, WireError};
use peal_model::{CommandCode, DataType, UnknownNumber};
use std::{fmt, str::FromStr};

/// The names of the encodings (`bfrops` modules). Older ones have fixed-width integers and are not spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encoding {
    /// Release 4.0.
    V4,
    /// Releases 4.1 to 5.0, and understood by all later ones.
    V41,
    /// Release 6.
    V51,
    /// Releases 6 and 7.
    V61,
}

impl Encoding {
    /// Every encoding with its name and its newest data type.
    const TABLE: [(Encoding, &'static str, DataType); 4] = [
        (Encoding::V4, "v4", DataType(59)),
        (Encoding::V41, "v41", DataType(69)),
        (Encoding::V51, "v51", DataType(72)),
        (Encoding::V61, "v61", DataType(75)),
    ];

    fn row(self) -> (Encoding, &'static str, DataType) {
        let [v4, v41, v51, v61] = Self::TABLE;
        match self {
            Encoding::V4 => v4,
            Encoding::V41 => v41,
            Encoding::V51 => v51,
            Encoding::V61 => v61,
        }
    }

    /// Its name in the handshake.
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

/// Whether packed fields say which type they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferType {
    /// They do not: release builds.
    NonDescribed,
    /// They do: debug builds.
    Described,
}

impl BufferType {
    /// Its number on the wire.
    pub fn number(self) -> u8 {
        match self {
            BufferType::NonDescribed => 1,
            BufferType::Described => 2,
        }
    }

    /// The name by which a server asks its clients for it, in [`crate::variable::BUFFER_TYPE`].
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

/// What follows the status in the reply to a group construct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupReply {
    /// The context id.
    Id,
    /// The members, then the context id.
    MembersId,
    /// The members, the context id, and the job data of foreign namespaces.
    MembersIdJobs,
    /// The members, whether there is a context id, that id, and infos.
    MembersIdInfos,
}

/// What a request to destruct a group holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupDestruct {
    /// The group and directives.
    Short,
    /// The group, its members and directives.
    Members,
}

/// In which form a singleton is answered in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingletonReply {
    /// As a tool that has its own identifier.
    Tool,
    /// As a client.
    Client,
}

/// From whom a singleton that is connected to a server has the data of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingletonJobData {
    /// From itself.
    Own,
    /// From the server.
    Requested,
}

/// What is written of an array whose elements have no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UntypedArray {
    /// The type and a count, which is zero.
    Counted,
    /// The type alone. Of an array of arrays nothing is written behind the first that has no type, and the rest is read as such.
    TypeAlone,
}

/// What the releases from one on have in common, until the next row.
#[derive(PartialEq, Eq)]
struct ReleaseRow {
    since: Version,
    /// A zero byte follows the handshake of a client.
    stray_byte: bool,
    group_reply: GroupReply,
    group_destruct: GroupDestruct,
    singleton_reply: SingletonReply,
    singleton_job_data: SingletonJobData,
    untyped_array: UntypedArray,
    newest_type: DataType,
    retired_types: &'static [DataType],
}

/// The oldest release spoken.
const RELEASE_4: ReleaseRow = ReleaseRow {
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
    ..RELEASE_5
};

/// Every release that differs from the one before it, oldest first. A later release is a further row.
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

/// The commands that the oldest release lacks, and since when they exist.
const NEWER_COMMANDS: [(CommandCode, Version); 5] = [
    (CommandCode::RefreshCache, Version::new(5, 0, 0)),
    (CommandCode::ResourceBlock, Version::new(6, 0, 0)),
    (CommandCode::SessionControl, Version::new(6, 0, 0)),
    (CommandCode::ResolvePeers, Version::new(5, 0, 7)),
    (CommandCode::ResolveNode, Version::new(5, 0, 7)),
];

/// Types that travel outside of values or that Peal does not carry: buffers, regular expressions, statistics of procs,
/// and two numbers that were never given.
///
/// A regular expression (49) does not say how long it is. Statistics of a proc (61) are written without the largest size
/// that it had, by every release that has them, and read with it: whoever got them would lose the whole message. It is
/// better that their sender is told.
const NOT_IN_VALUES: [u16; 6] = [26, 29, 44, 49, 61, 74];

/// How one peer speaks: its release and the encoding it announced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    version: Version,
    encoding: Encoding,
    row: &'static ReleaseRow,
}

impl Dialect {
    /// The dialect of a release in an encoding.
    pub fn new(version: Version, encoding: Encoding) -> Dialect {
        let row = RELEASES
            .iter()
            .rev()
            .find(|row| row.since <= version)
            .unwrap_or(&RELEASE_4);
        Dialect {
            version,
            encoding,
            row,
        }
    }

    /// The release.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The encoding.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Whether a zero byte follows the handshake.
    pub fn has_stray_byte(&self) -> bool {
        self.row.stray_byte
    }

    /// What the reply to a group construct holds.
    pub fn group_reply(&self) -> GroupReply {
        self.row.group_reply
    }

    /// What a request to destruct a group holds.
    pub fn group_destruct(&self) -> GroupDestruct {
        self.row.group_destruct
    }

    /// How a singleton is answered.
    pub fn singleton_reply(&self) -> SingletonReply {
        self.row.singleton_reply
    }

    /// From whom a singleton has the data of its job.
    pub fn singleton_job_data(&self) -> SingletonJobData {
        self.row.singleton_job_data
    }

    /// What is written of an array whose elements have no type.
    pub fn untyped_array(&self) -> UntypedArray {
        self.row.untyped_array
    }

    /// Whether the release has that command.
    pub fn has_command(&self, command: CommandCode) -> bool {
        let too_new = |newer: &(CommandCode, Version)| newer.0 == command && self.version < newer.1;
        !NEWER_COMMANDS.iter().any(too_new)
    }

    /// Whether values of that type may travel.
    pub fn has_type(&self, data_type: DataType) -> bool {
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
    fn groups_are_told_in_four_forms() {
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
    fn singletons_ask_for_job_data_from_6_1() {
        let from: Vec<_> = ["4.2.2", "5.0.11", "6.0.0", "6.1.0", "7.0.0"]
            .map(|text| of(text).singleton_job_data())
            .into();
        let (own, requested) = (SingletonJobData::Own, SingletonJobData::Requested);
        assert_eq!(from, [own, own, own, requested, requested]);
    }

    #[test]
    fn untyped_arrays_lose_their_count_in_6_1() {
        let counted: Vec<_> = ["4.2.2", "5.0.11", "6.0.1", "6.1.0", "7.0.0"]
            .map(|text| of(text).untyped_array())
            .into();
        let (with, without) = (UntypedArray::Counted, UntypedArray::TypeAlone);
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
