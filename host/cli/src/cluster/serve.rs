//! Cluster of `peal serve`: its network, and what the server shows of it.
use crate::node;
use peal_nats::{ClusterAccess, ClusterServerSettings, ClusterStanding, ClusterView, NatsNetwork};
use peal_server::{
    InProcessNetwork, Metrics, ServerNetwork,
    admin::ClusterPlace,
    metrics::{MetricFamily, MetricKind},
};
use std::sync::Arc;

/// Cluster of a server, for what shows it.
#[derive(Clone)]
pub struct ServedCluster {
    pub(super) access: Arc<ClusterAccess>,
    pub(super) view: ClusterView,
}

/// Returns the network of a server, with its cluster if it has one. A server without a cluster is alone.
pub fn network(access: Option<ClusterAccess>) -> (Arc<dyn ServerNetwork>, Option<ServedCluster>) {
    let Some(access) = access else {
        return (InProcessNetwork::new(), None);
    };
    let network = NatsNetwork::new(
        access.clone(),
        ClusterServerSettings::default(),
        env!("CARGO_PKG_VERSION").to_owned(),
        node::random(),
    );
    let view = network.view();
    let access = Arc::new(access);
    (Arc::new(network), Some(ServedCluster { access, view }))
}

/// Adds the numbers of a cluster to those of its server.
pub fn show(metrics: &Metrics, cluster: Option<ServedCluster>) {
    let Some(ServedCluster { view, .. }) = cluster else {
        return;
    };
    metrics.show(move || {
        let is_member = matches!(view.standing(), ClusterStanding::Member(_));
        vec![
            MetricFamily::single(
                "peal_cluster_member",
                "Whether this server is a member of its cluster and meets the others.",
                MetricKind::Gauge,
                u64::from(is_member),
            ),
            MetricFamily::single(
                "peal_cluster_servers",
                "Servers of the cluster, as far as this one knows.",
                MetricKind::Gauge,
                count(view.servers()),
            ),
        ]
    });
}

/// Returns the place of a server in its cluster, as `peal status` shows it.
pub fn status_of(cluster: &ServedCluster) -> ClusterPlace {
    let ServedCluster { access, view } = cluster;
    let id = match view.standing() {
        ClusterStanding::Member(id) => Some(id.0),
        _ => None,
    };
    ClusterPlace {
        cluster: access.cluster.to_string(),
        node: access.node.to_string(),
        id,
        servers: count(view.servers()),
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

impl ServedCluster {
    /// Returns the reason why the server does not meet the others; `None` if it does.
    pub fn trouble(&self) -> Option<String> {
        let reason = match self.view.standing() {
            ClusterStanding::Joining | ClusterStanding::Member(_) => return None,
            ClusterStanding::Away(reason) => reason,
            ClusterStanding::Unfit(problem) => problem.to_string(),
            ClusterStanding::Superseded => format!(
                "another process has joined as node {}; a node has one server, so end one of them",
                self.access.node
            ),
        };
        Some(format!("this server does not meet the others: {reason}"))
    }
}
