//! Why connections, and values that procs put, are refused.
use super::Denial;
use peal_model::{Nspace, Proc, UserIdentity};
use thiserror::Error;

/// Why a connection is refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConnectionRefusal {
    /// No job of that name is registered.
    #[error("namespace {0:?} is not registered here")]
    UnknownNspace(Nspace),
    /// The job has no such rank.
    #[error("{proc} does not exist: ranks go from 0 to {}", .size.saturating_sub(1))]
    UnknownRank {
        /// The proc that the peer claims to be.
        proc: Proc,
        /// How many procs the job has.
        size: u32,
    },
    /// The user or group is another than the job's.
    #[error("{proc} belongs to {wanted}, the connection to {found}")]
    WrongUser {
        /// The proc that the peer claims to be.
        proc: Proc,
        /// As registered.
        wanted: UserIdentity,
        /// As claimed.
        found: UserIdentity,
    },
    /// Policies, or the site's configuration, do not want it.
    #[error("{0}")]
    Denied(Box<Denial>),
    /// The proc has ended.
    #[error("{0} has ended")]
    Ended(Proc),
    /// The proc has as many connections as it may.
    #[error("{proc} has {max} connections, more are not allowed")]
    TooManyClones {
        /// The proc that the peer claims to be.
        proc: Proc,
        /// How many are allowed.
        max: u32,
    },
    /// A tool calls itself what somebody else is called.
    #[error("{0} is the name of somebody else")]
    NameTaken(Proc),
    /// There are as many tools as there may be.
    #[error(
        "there are {max} tools, more are not allowed (tools.max_connections, of which an eighth is for root and the server's user)"
    )]
    TooManyTools {
        /// How many are allowed.
        max: usize,
    },
    /// A user has as many tools as one user may have.
    #[error("user {uid} has {max} tools, more are not allowed (tools.max_connections_per_user)")]
    TooManyToolsOfUser {
        /// The user.
        uid: u32,
        /// How many are allowed.
        max: usize,
    },
}

/// Why a proc may not put values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PutRefusal {
    /// There are too many values of one key that differ by their qualifiers.
    #[error("there are too many values of one key with different qualifiers")]
    Qualified,
    /// The values of the proc take too much memory.
    #[error("the values of one proc may take {max} bytes (server.max_put_bytes)")]
    Proc {
        /// The bytes that they may take.
        max: usize,
    },
    /// The values of the user take too much memory.
    #[error("the values of user {uid} may take {max} bytes (server.max_put_bytes_per_user)")]
    User {
        /// The user.
        uid: u32,
        /// The bytes that they may take.
        max: usize,
    },
}
