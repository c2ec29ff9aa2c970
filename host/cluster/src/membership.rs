//! The servers of a cluster, from the one sequence of their joins and leaves.
use crate::ProtocolVersion;
use peal_core::group::ServerId;
use peal_model::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Position of a record in the sequence of a cluster. Positions ascend, and none is used twice.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct RecordPosition(pub u64);

/// Data of a server that joins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JoiningServer {
    /// Major version of its protocol.
    pub major: u8,
    /// Minor version of its protocol.
    pub minor: u8,
    /// Version of its software, to be shown.
    pub software: String,
    /// True if it writes to log channels for the others (`PMIX_SERVER_GATEWAY`).
    pub is_gateway: bool,
}

impl JoiningServer {
    /// Returns the version of its protocol.
    pub fn protocol(&self) -> ProtocolVersion {
        ProtocolVersion {
            major: self.major,
            minor: self.minor,
        }
    }
}

/// Record of the sequence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MembershipRecord {
    /// The server of the writer's node joins. The position of the record is its number.
    Joined(JoiningServer),
    /// The server of the writer's node leaves.
    Left,
    /// The server of another node is declared gone.
    Gone(ServerId),
}

/// Change of the servers of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MembershipChange {
    /// A server has joined.
    Joined {
        /// Its number.
        id: ServerId,
        /// Its node.
        node: NodeName,
        /// Its data.
        server: JoiningServer,
    },
    /// A server has left or was declared gone.
    Left {
        /// Its number.
        id: ServerId,
        /// Its node.
        node: NodeName,
    },
}

/// Reason for which a record changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordRefusal {
    /// A later record was applied before.
    #[error("record {at} follows record {last}, which comes later", at = at.0, last = last.0)]
    Late {
        /// Position of the record.
        at: RecordPosition,
        /// Position of the last record.
        last: RecordPosition,
    },
    /// The position is greater than a server's number can be.
    #[error("record {at} is beyond the greatest number of a server, {}", u32::MAX, at = at.0)]
    Number {
        /// Position of the record.
        at: RecordPosition,
    },
    /// The writer has no server in the cluster, so it may not decide about others.
    #[error("node {writer} declares server {of} gone, but has no server in the cluster", of = of.0)]
    NoMember {
        /// The writer.
        writer: NodeName,
        /// The server that it declares gone.
        of: ServerId,
    },
}

/// A server of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterMember {
    /// Its node.
    pub node: NodeName,
    /// Its data.
    pub server: JoiningServer,
}

/// The servers of a cluster at one position of its sequence. All servers that have applied the same
/// records have the same membership.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    last: RecordPosition,
    members: BTreeMap<ServerId, ClusterMember>,
    of_nodes: BTreeMap<NodeName, ServerId>,
}

impl Membership {
    /// Returns the membership before the first record.
    pub fn new() -> Membership {
        Membership::default()
    }

    /// Applies the next record, which this node has written, and returns the changes.
    ///
    /// # Errors
    ///
    /// Fails if the record may not be applied. The membership is then unchanged, but for a record of
    /// a node that may not write it: later ones follow that one.
    pub fn apply(
        &mut self,
        at: RecordPosition,
        writer: NodeName,
        record: MembershipRecord,
    ) -> Result<Vec<MembershipChange>, RecordRefusal> {
        let last = self.last;
        if at <= last {
            return Err(RecordRefusal::Late { at, last });
        }
        self.last = at;
        match record {
            MembershipRecord::Joined(server) => {
                let id = u32::try_from(at.0)
                    .map(ServerId)
                    .map_err(|_| RecordRefusal::Number { at })?;
                // A node has one server: an earlier one has ended without a word.
                let mut changes = self.remove_of(&writer);
                self.of_nodes.insert(writer.clone(), id);
                let member = ClusterMember {
                    node: writer.clone(),
                    server: server.clone(),
                };
                self.members.insert(id, member);
                changes.push(MembershipChange::Joined {
                    id,
                    node: writer,
                    server,
                });
                Ok(changes)
            }
            MembershipRecord::Left => Ok(self.remove_of(&writer)),
            MembershipRecord::Gone(of) if !self.of_nodes.contains_key(&writer) => {
                Err(RecordRefusal::NoMember { writer, of })
            }
            MembershipRecord::Gone(of) => {
                // A server that has left already is declared gone by a writer that did not know it.
                let node = self.members.get(&of).map(|member| member.node.clone());
                Ok(node.map_or_else(Vec::new, |node| self.remove_of(&node)))
            }
        }
    }

    fn remove_of(&mut self, node: &NodeName) -> Vec<MembershipChange> {
        let Some(id) = self.of_nodes.remove(node) else {
            return Vec::new();
        };
        self.members.remove(&id);
        let node = node.clone();
        vec![MembershipChange::Left { id, node }]
    }

    /// Returns the position of the last record.
    pub fn last(&self) -> RecordPosition {
        self.last
    }

    /// Returns a member.
    pub fn member(&self, id: ServerId) -> Option<&ClusterMember> {
        self.members.get(&id)
    }

    /// Returns the server of a node.
    pub fn server_of(&self, node: &NodeName) -> Option<ServerId> {
        self.of_nodes.get(node).copied()
    }

    /// Returns the members by their numbers.
    pub fn members(&self) -> impl DoubleEndedIterator<Item = (ServerId, &ClusterMember)> {
        self.members.iter().map(|(id, member)| (*id, member))
    }
}
