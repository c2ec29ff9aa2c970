//! First messages of a connection: what each side must know of the other.
use crate::UpcallKind;
use peal_model::{Info, Proc};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of the protocol. A stub and a server of different versions do not work together, since a
/// message of one may be unknown to the other.
pub const PROTOCOL: u16 = 1;

/// First message of a stub.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StubHello {
    /// Version of the protocol of the stub.
    pub protocol: u16,
    /// Release of the stub's library.
    pub release: String,
    /// Name of the host environment's process (`PMIX_SERVER_NSPACE`, `PMIX_SERVER_RANK`), if it has
    /// one.
    pub name: Option<Proc>,
    /// Infos of `PMIx_server_init`.
    pub infos: Vec<Info>,
    /// Upcalls that the host environment offers. Each is named once.
    pub offered: Vec<UpcallKind>,
}

/// Answer of a server that accepts the stub.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerWelcome {
    /// Name of the stub, by which it may connect as a tool.
    pub name: Proc,
    /// URI at which clients and tools find the server.
    pub uri: String,
    /// Variables by which procs find the server, except for their names and ranks.
    pub environment: Vec<EnvironmentVariable>,
}

/// Variable of the environment of a proc.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EnvironmentVariable {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable.
    pub value: String,
}

/// Reason why a server refuses a stub.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, Error)]
pub enum StubRefusal {
    /// The versions of the protocol differ.
    #[error(
        "the library speaks version {stub} of the protocol, the server version {server}: install library and server of the same release"
    )]
    Protocol {
        /// Version of the stub.
        stub: u16,
        /// Version of the server.
        server: u16,
    },
    /// Only root and the server's user may register jobs.
    #[error("user {uid} may not register jobs: the server takes them from {allowed}")]
    User {
        /// The user of the stub's process, as the kernel says.
        uid: u32,
        /// Users that may register jobs.
        allowed: String,
    },
    /// Too many stubs are connected.
    #[error("{max} host environments are connected already (`hosts.max_stubs`)")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// The server is about to end.
    #[error("the server drains: it takes no more jobs")]
    Draining,
}
