//! Errors of refused connections.
use super::Denial;
use peal_model::{Nspace, Proc, UserIdentity};
use thiserror::Error;

/// The reason for a refused connection.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConnectionRefusal {
    /// The namespace is not registered.
    #[error("namespace {0:?} is not registered here")]
    UnknownNspace(Nspace),
    /// The rank is not in the job.
    #[error("{proc} does not exist: ranks go from 0 to {}", .size.saturating_sub(1))]
    UnknownRank {
        /// The proc that the peer claims to be.
        proc: Proc,
        /// The number of procs of the job.
        size: u32,
    },
    /// The user or group differs from the job's.
    #[error("{proc} belongs to {expected}, the connection to {found}")]
    WrongUser {
        /// The proc that the peer claims to be.
        proc: Proc,
        /// The registered user.
        expected: UserIdentity,
        /// The claimed user.
        found: UserIdentity,
    },
    /// A policy or the default of the hook denies the connection.
    #[error("{0}")]
    Denied(Box<Denial>),
    /// The proc has ended.
    #[error("{0} has ended")]
    Ended(Proc),
    /// The proc has as many connections as are allowed.
    #[error("{proc} has {max} connections; the limit is {max}")]
    TooManyClones {
        /// The proc that the peer claims to be.
        proc: Proc,
        /// The limit.
        max: u32,
    },
    /// The name of a tool belongs to a job or another tool.
    #[error("the name {0} is taken; choose another one")]
    NameTaken(Proc),
    /// The number of tools has reached the limit.
    #[error(
        "{max} tools are connected; the limit is tools.max_connections, an eighth of it reserved for root and the server's user"
    )]
    TooManyTools {
        /// The limit.
        max: usize,
    },
    /// The number of a user's tools has reached the limit for one user.
    #[error("user {uid} has {max} tools; the limit is {max} (tools.max_connections_per_user)")]
    TooManyToolsOfUser {
        /// The user.
        uid: u32,
        /// The limit.
        max: usize,
    },
}
