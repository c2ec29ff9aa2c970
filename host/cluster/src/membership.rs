//! The servers of a cluster, from the one sequence of their joins and leaves.
use crate::{ProtocolVersion, ServerKind};
use peal_core::group::ServerId;
use peal_model::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Service for the others.
    pub kind: ServerKind,
    /// Number that the process has chosen at random, by which it knows its own record.
    pub run: u64,
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
    /// Servers of other nodes are declared gone. The network keeps the last verdict of each writer
    /// alone, so that this one repeats those of its earlier ones that still count.
    Gone(BTreeSet<ServerId>),
}

/// Change of the servers of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MembershipChange {
    /// A server has joined, and is a member now.
    Joined {
        /// Its number.
        id: ServerId,
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
}

/// A server of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterMember {
    /// Its node.
    pub node: NodeName,
    /// Its data.
    pub server: JoiningServer,
}

/// The servers of a cluster at one position of its sequence. All servers that have applied the records
/// up to a position have the same membership, also if they never saw records whose writers have written
/// later ones.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    last: RecordPosition,
    members: BTreeMap<ServerId, ClusterMember>,
    of_nodes: BTreeMap<NodeName, ServerId>,
    /// Nodes whose last server was declared gone and that have written no record since.
    gone: BTreeMap<NodeName, Verdict>,
}

/// Decision that the server of a node is gone.
#[derive(Clone, Debug)]
struct Verdict {
    writer: NodeName,
    of: ServerId,
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
    /// Fails if the record may not be applied. The membership is then unchanged.
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
                self.gone.remove(&writer);
                // A node has one server: an earlier one has ended without a word.
                let mut changes: Vec<MembershipChange> =
                    self.remove_of(&writer).into_iter().collect();
                self.of_nodes.insert(writer.clone(), id);
                let node = writer;
                self.members.insert(id, ClusterMember { node, server });
                changes.push(MembershipChange::Joined { id });
                Ok(changes)
            }
            MembershipRecord::Left => {
                self.gone.remove(&writer);
                Ok(self.remove_of(&writer).into_iter().collect())
            }
            MembershipRecord::Gone(servers) => {
                let gone = servers.into_iter().filter_map(|of| {
                    // One that has left already was declared gone by a writer that did not know it.
                    let node = self.members.get(&of)?.node.clone();
                    let writer = writer.clone();
                    self.gone.insert(node.clone(), Verdict { writer, of });
                    self.remove_of(&node)
                });
                Ok(gone.collect())
            }
        }
    }

    /// Passes over a record that is none.
    pub fn skip(&mut self, at: RecordPosition) {
        self.last = self.last.max(at);
    }

    /// Returns the record by which a node declares servers gone.
    pub fn verdict(&self, writer: &NodeName, servers: &[ServerId]) -> MembershipRecord {
        let earlier = self.gone.values();
        let earlier = earlier.filter(|verdict| verdict.writer == *writer);
        let all = earlier
            .map(|verdict| verdict.of)
            .chain(servers.iter().copied());
        MembershipRecord::Gone(all.collect())
    }

    fn remove_of(&mut self, node: &NodeName) -> Option<MembershipChange> {
        let id = self.of_nodes.remove(node)?;
        self.members.remove(&id);
        let node = node.clone();
        Some(MembershipChange::Left { id, node })
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
