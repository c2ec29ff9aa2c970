//! View of a cluster from one of its servers, for those who show it.
use crate::{check::ServerProblem, network::Shared};
use peal_core::group::ServerId;
use peal_model::NodeName;
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

/// Relation of a server to its cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusterStanding {
    /// No NATS server is reached, for this reason.
    Away(String),
    /// The NATS server is not fit, for this reason.
    Unfit(ServerProblem),
    /// The NATS server is fit, and the server is about to join.
    Joining,
    /// The server is a member with this number.
    Member(ServerId),
    /// Another process has joined for the same node, and this one stays away.
    Superseded,
}

/// View of a cluster, which follows it. It shows nothing before the server has begun to join.
#[derive(Clone, Default)]
pub struct ClusterView(Arc<OnceLock<Arc<Shared>>>);

impl ClusterView {
    /// Shows the cluster of this server, unless it shows one already.
    pub(crate) fn follow(&self, shared: Arc<Shared>) {
        // An error means that it does: a network has one server.
        let _ = self.0.set(shared);
    }

    /// Returns the relation of the server to the cluster.
    pub fn standing(&self) -> ClusterStanding {
        self.0
            .get()
            .map_or(ClusterStanding::Joining, |shared| shared.standing())
    }

    /// Returns the number of servers in the cluster, as far as this one knows.
    pub fn servers(&self) -> usize {
        self.0.get().map_or(0, |shared| shared.servers())
    }

    /// Returns the nodes of the cluster; none unless this server is a member.
    pub fn nodes(&self) -> BTreeSet<NodeName> {
        self.0
            .get()
            .map(|shared| shared.nodes())
            .unwrap_or_default()
    }
}
