//! Small enumerations of the Standard, and the type numbers of values.
use crate::names::{DATA_TYPE_NAMES, number};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Error for a number without a member in an enumeration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{number} is not a {kind}")]
pub struct UnknownNumber {
    /// Name of the enumeration in the Standard.
    pub kind: &'static str,
    /// The number.
    pub number: u32,
}

/// Type number of a value (`pmix_data_type_t`); the known ones are in [`crate::data_type`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataType(pub u16);

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DATA_TYPE_NAMES.iter().find(|entry| entry.0 == self.0) {
            Some((_, name)) => write!(f, "{name} ({})", self.0),
            None => write!(f, "data type {}", self.0),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! enumeration {
    ($(#[$doc:meta])* $name:ident, $standard:literal, $($(#[$vdoc:meta])* $variant:ident = $number:expr, $text:literal;)+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All members, in the order of their numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Returns the number in the Standard.
            pub fn number(self) -> u8 {
                // These enumerations take one byte on the wire, so the cast loses nothing.
                match self { $($name::$variant => $number as u8,)+ }
            }

            /// Returns the name in the Standard.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl TryFrom<u8> for $name {
            type Error = UnknownNumber;
            fn try_from(given: u8) -> Result<$name, UnknownNumber> {
                let found = Self::ALL.iter().find(|member| member.number() == given);
                found.copied().ok_or(UnknownNumber { kind: $standard, number: u32::from(given) })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} ({})", self.name(), self.number())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

enumeration! {
    /// Range of an event (`pmix_data_range_t`). RFC 0002, "Client-Based Notifications".
    Range, "pmix_data_range_t",
    /// Undefined.
    Undef = crate::names::range::PMIX_RANGE_UNDEF, "PMIX_RANGE_UNDEF";
    /// The host environment only.
    Rm = crate::names::range::PMIX_RANGE_RM, "PMIX_RANGE_RM";
    /// Procs of the same node.
    Local = crate::names::range::PMIX_RANGE_LOCAL, "PMIX_RANGE_LOCAL";
    /// Procs of the source's namespace.
    Namespace = crate::names::range::PMIX_RANGE_NAMESPACE, "PMIX_RANGE_NAMESPACE";
    /// Procs of the session.
    Session = crate::names::range::PMIX_RANGE_SESSION, "PMIX_RANGE_SESSION";
    /// All procs.
    Global = crate::names::range::PMIX_RANGE_GLOBAL, "PMIX_RANGE_GLOBAL";
    /// The procs named in `PMIX_EVENT_CUSTOM_RANGE`.
    Custom = crate::names::range::PMIX_RANGE_CUSTOM, "PMIX_RANGE_CUSTOM";
    /// The source itself; the event never leaves its process.
    ProcLocal = crate::names::range::PMIX_RANGE_PROC_LOCAL, "PMIX_RANGE_PROC_LOCAL";
}

enumeration! {
    /// Scope of a value that a proc put (`pmix_scope_t`).
    Scope, "pmix_scope_t",
    /// Undefined.
    Undef = 0, "PMIX_SCOPE_UNDEF";
    /// Procs of the same node.
    Local = number::PMIX_LOCAL, "PMIX_LOCAL";
    /// Procs of other nodes.
    Remote = number::PMIX_REMOTE, "PMIX_REMOTE";
    /// All procs.
    Global = number::PMIX_GLOBAL, "PMIX_GLOBAL";
    /// The proc itself.
    Internal = number::PMIX_INTERNAL, "PMIX_INTERNAL";
}

enumeration! {
    /// Persistence of published data (`pmix_persistence_t`).
    Persistence, "pmix_persistence_t",
    /// Until deleted.
    Indefinite = 0, "PMIX_PERSIST_INDEF";
    /// Until first read.
    FirstRead = number::PMIX_PERSIST_FIRST_READ, "PMIX_PERSIST_FIRST_READ";
    /// As long as the publishing proc.
    Proc = number::PMIX_PERSIST_PROC, "PMIX_PERSIST_PROC";
    /// As long as its application.
    App = number::PMIX_PERSIST_APP, "PMIX_PERSIST_APP";
    /// As long as the session.
    Session = number::PMIX_PERSIST_SESSION, "PMIX_PERSIST_SESSION";
    /// Not a valid request.
    Invalid = 255, "PMIX_PERSIST_INVALID";
}

/// State of a proc (`pmix_proc_state_t`), passed on unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ProcState(pub u8);

impl ProcState {
    /// Unknown.
    pub const UNDEF: ProcState = ProcState(number::PMIX_PROC_STATE_UNDEF as u8);
    /// Running.
    pub const RUNNING: ProcState = ProcState(number::PMIX_PROC_STATE_RUNNING as u8);
    /// Terminated.
    pub const TERMINATED: ProcState = ProcState(number::PMIX_PROC_STATE_TERMINATED as u8);
    /// Terminated on request.
    pub const KILLED_BY_CMD: ProcState = ProcState(number::PMIX_PROC_STATE_KILLED_BY_CMD as u8);
    /// Terminated by a signal.
    pub const ABORTED_BY_SIG: ProcState = ProcState(number::PMIX_PROC_STATE_ABORTED_BY_SIG as u8);
    /// Terminated without finalizing.
    pub const TERM_WO_SYNC: ProcState = ProcState(number::PMIX_PROC_STATE_TERM_WO_SYNC as u8);
    /// Aborted its job.
    pub const CALLED_ABORT: ProcState = ProcState(number::PMIX_PROC_STATE_CALLED_ABORT as u8);
    /// Terminated with a status other than zero.
    pub const TERM_NON_ZERO: ProcState = ProcState(number::PMIX_PROC_STATE_TERM_NON_ZERO as u8);
}

/// State of a job (`pmix_job_state_t`), passed on unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct JobState(pub u8);

/// State of a fabric link (`pmix_link_state_t`), passed on unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LinkState(pub u8);

/// A set of input and output channels (`pmix_iof_channel_t`): stdin 1, stdout 2, stderr 4, stddiag
/// 8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct IofChannel(pub u16);

impl IofChannel {
    /// Standard input.
    pub const STDIN: IofChannel = IofChannel(number::PMIX_FWD_STDIN_CHANNEL as u16);
    /// Standard output.
    pub const STDOUT: IofChannel = IofChannel(number::PMIX_FWD_STDOUT_CHANNEL as u16);
    /// Standard error.
    pub const STDERR: IofChannel = IofChannel(number::PMIX_FWD_STDERR_CHANNEL as u16);
}

impl DataType {
    /// Compressed string, which 7.x retired and the registry therefore lacks.
    pub const COMPRESSED_STRING: DataType = DataType(42);
    /// Statistics of a disk, which 6.1 retired together with the other two.
    pub const DISK_STATS: DataType = DataType(62);
    /// Statistics of a network interface.
    pub const NET_STATS: DataType = DataType(63);
    /// Statistics of a node.
    pub const NODE_STATS: DataType = DataType(64);
}
