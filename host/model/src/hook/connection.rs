//! The hook of connections: a proc of a job, or a tool, connects.
use super::{BuiltInRule, Hook, HookSubject, replace};
use crate::{Amendment, Info};
use serde::{Deserialize, Serialize};

/// A connection, as its policies see it. The targets of the request are the client's own proc, or
/// the jobs of the tool's user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConnectionSubject {
    /// Kind of the peer.
    pub kind: ConnectionKind,
    /// The peer.
    pub peer: PeerInfo,
    /// Infos that a tool sends.
    pub infos: Vec<Info>,
}

/// Kind of a connecting peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConnectionKind {
    /// A proc of a job.
    Client,
    /// A tool, or a launcher.
    Tool,
}

/// Peer of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Process id as the kernel reports it; `None` if it is unknown.
    pub pid: Option<u32>,
    /// Release of its library, as the peer states it.
    pub release: String,
}

impl HookSubject for ConnectionSubject {
    fn hook(&self) -> Hook {
        Hook::Connection
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::OwnConnection(self.kind)
    }

    fn summary(&self, _targets: usize) -> String {
        "connection".to_owned()
    }

    fn infos(&self) -> &[Info] {
        &self.infos
    }

    fn granted(&self) -> &[Info] {
        // A connection has no directives: its infos are what continues.
        &self.infos
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.infos, amendment.infos);
    }
}
