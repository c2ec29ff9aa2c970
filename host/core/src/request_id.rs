//! Identifiers of connections and of the requests that come over them.
use serde::{Deserialize, Serialize};

/// Identifier of a client's connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PeerId(pub u64);

impl PeerId {
    /// Pseudo connection for the replies to [`ServerState::control_for`](crate::server::ServerState::control_for) and
    /// [`ServerState::log_for`](crate::server::ServerState::log_for).
    pub const MODULES: PeerId = PeerId(0);
}

/// Identifier of a request that awaits its reply: the connection and the tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RequestId {
    /// The connection.
    pub peer: PeerId,
    /// The tag that the reply carries.
    pub tag: u32,
}
