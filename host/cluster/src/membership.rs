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
    /// The server of the writer's node repeats its join, of which the record may be lost: the network
    /// keeps the last records of each writer alone, and some may be none of Peal.
    Repeated {
        /// The number that it has.
        id: ServerId,
        /// Its data.
        server: JoiningServer,
    },
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
    /// The record repeats the join of another server, or of none.
    #[error("record {at} repeats the join of server {id}, which is not one of that node", at = at.0, id = id.0)]
    Repeated {
        /// Position of the record.
        at: RecordPosition,
        /// Number of the server.
        id: ServerId,
    },
    /// The position is greater than a server's number can be.
    #[error("record {at} is beyond the greatest number of a server, {}", u32::MAX, at = at.0)]
    Number {
        /// Position of the record.
        at: RecordPosition,
    },
}

/// A server of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterMember {
    /// Its node.
    pub node: NodeName,
    /// Its data.
    pub server: JoiningServer,
}

/// The servers of a cluster at one position of its sequence. All servers that have applied the records
/// up to a position have the same membership, also if they never saw records whose writers have written
/// later ones.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Membership {
    last: RecordPosition,
    /// Position from which on all records up to the last were seen.
    seen_since: RecordPosition,
    members: BTreeMap<ServerId, ClusterMember>,
    of_nodes: BTreeMap<NodeName, ServerId>,
    /// Nodes whose last server was declared gone and that have written no record since.
    gone: BTreeMap<NodeName, Verdict>,
    /// Servers in the last verdict of each writer whose joins were not seen.
    gone_unseen: BTreeMap<NodeName, BTreeSet<ServerId>>,
}

/// Decision that the server of a node is gone.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
        self.see(at);
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
            MembershipRecord::Repeated { id, server } => self.repeat(at, writer, id, server),
            MembershipRecord::Left => {
                self.gone.remove(&writer);
                Ok(self.remove_of(&writer).into_iter().collect())
            }
            MembershipRecord::Gone(servers) => {
                self.judge_unseen(&writer, &servers);
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

    /// Applies a repeated join. It is news only to those that have not seen the join: others know what
    /// became of that server.
    fn repeat(
        &mut self,
        at: RecordPosition,
        writer: NodeName,
        id: ServerId,
        server: JoiningServer,
    ) -> Result<Vec<MembershipChange>, RecordRefusal> {
        let refusal = Err(RecordRefusal::Repeated { at, id });
        if u64::from(id.0) >= at.0 {
            return refusal;
        }
        let present = self.server_of(&writer);
        let holder = self.members.get(&id).map(|holder| &holder.node);
        match (present, holder) {
            (Some(present), _) if present == id => return Ok(Vec::new()),
            (_, Some(_)) => return refusal,
            // It was on its way when a later server of the node joined.
            (Some(_), None) => return Ok(Vec::new()),
            (None, None) => {}
        }
        // A verdict may be about an earlier server of the node.
        let verdict = self.gone.get(&writer);
        let is_gone = verdict.is_some_and(|verdict| verdict.of >= id)
            || self.gone_unseen.values().any(|gone| gone.contains(&id));
        if is_gone || self.has_seen_join(id) {
            return Ok(Vec::new());
        }
        self.gone.remove(&writer);
        self.of_nodes.insert(writer.clone(), id);
        let node = writer;
        self.members.insert(id, ClusterMember { node, server });
        Ok(vec![MembershipChange::Joined { id }])
    }

    /// Notes the servers in a verdict whose joins were not seen, and may be repeated.
    fn judge_unseen(&mut self, writer: &NodeName, servers: &BTreeSet<ServerId>) {
        let unseen = servers
            .iter()
            .copied()
            .filter(|of| !self.has_seen_join(*of) && !self.members.contains_key(of))
            .filter(|of| !self.gone.values().any(|verdict| verdict.of == *of));
        let unseen: BTreeSet<ServerId> = unseen.collect();
        if unseen.is_empty() {
            self.gone_unseen.remove(writer);
        } else {
            self.gone_unseen.insert(writer.clone(), unseen);
        }
    }

    /// Returns true if the record of a server's join was seen.
    fn has_seen_join(&self, id: ServerId) -> bool {
        u64::from(id.0) >= self.seen_since.0
    }

    fn see(&mut self, at: RecordPosition) {
        if at.0 > self.last.0.saturating_add(1) {
            self.seen_since = at;
        }
        self.last = self.last.max(at);
    }

    /// Passes over a record that is none.
    pub fn skip(&mut self, at: RecordPosition) {
        self.see(at);
    }

    /// Returns the record by which a node declares servers gone.
    pub fn verdict(&self, writer: &NodeName, servers: &[ServerId]) -> MembershipRecord {
        let earlier = self.gone.values();
        let earlier = earlier.filter(|verdict| verdict.writer == *writer);
        let unseen = self.gone_unseen.get(writer).into_iter().flatten();
        let all = earlier
            .map(|verdict| verdict.of)
            .chain(unseen.copied())
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

    /// Returns the nodes of the members, ordered by their numbers.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeName> {
        self.members.values().map(|member| &member.node)
    }
}
