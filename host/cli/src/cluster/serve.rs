//! Cluster of `peal serve`: its network, and what the server shows of it.
use super::service::{ObservedServer, ServedRequests};
use crate::node;
use peal_audit::AuditTrail;
use peal_nats::{
    ClusterAccess, ClusterServerSettings, ClusterStanding, ClusterView, ContinuedMembership,
    NatsNetwork, NodeServiceSlot, SealCounts, SealQueue,
};
use peal_server::{
    InProcessNetwork, Metrics, ServerNetwork,
    admin::ClusterPlace,
    metrics::{MetricFamily, MetricKind},
};
use std::{path::PathBuf, sync::Arc};

/// Cluster of a server, for what shows it.
#[derive(Clone)]
pub struct ServedCluster {
    pub(super) access: Arc<ClusterAccess>,
    pub(super) view: ClusterView,
    service: NodeServiceSlot,
    seals: SealQueue,
}

/// Returns the network of a server, with its cluster if it has one, for which its audit trail has these
/// seals. A server without a cluster is alone.
pub fn network(
    cluster: Option<(ClusterAccess, SealQueue)>,
    continued: Option<ContinuedMembership>,
) -> (Arc<dyn ServerNetwork>, Option<ServedCluster>) {
    let Some((access, seals)) = cluster else {
        return (InProcessNetwork::new(), None);
    };
    let network = NatsNetwork::new(
        access.clone(),
        ClusterServerSettings::default(),
        env!("CARGO_PKG_VERSION").to_owned(),
        node::random(),
    )
    .sealing(seals.clone());
    let network = match continued {
        Some(continued) => network.continuing(continued),
        None => network,
    };
    let (view, service) = (network.view(), network.service());
    let access = Arc::new(access);
    (
        Arc::new(network),
        Some(ServedCluster {
            access,
            view,
            service,
            seals,
        }),
    )
}

/// Adds the numbers of a cluster to those of its server.
pub fn show(metrics: &Metrics, cluster: Option<ServedCluster>) {
    let Some(ServedCluster { view, seals, .. }) = cluster else {
        return;
    };
    metrics.show(move || {
        let is_member = matches!(view.standing(), ClusterStanding::Member(_));
        let SealCounts {
            stored,
            superseded,
            waiting,
        } = seals.counts();
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
            MetricFamily::single(
                "peal_cluster_seals_stored",
                "Seals of the audit trail that the cluster has stored.",
                MetricKind::Counter,
                stored,
            ),
            MetricFamily::single(
                "peal_cluster_seals_superseded",
                "Seals of the audit trail for which a later one was sent.",
                MetricKind::Counter,
                superseded,
            ),
            MetricFamily::single(
                "peal_cluster_seals_waiting",
                "Seals of the audit trail that wait for the cluster.",
                MetricKind::Gauge,
                count(waiting),
            ),
        ]
    });
}

/// Returns the place of a server in its cluster, as `peal status` shows it.
pub fn status_of(cluster: &ServedCluster) -> ClusterPlace {
    let ServedCluster { access, view, .. } = cluster;
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
    /// Begins to answer requests of other nodes.
    pub fn serve(
        &self,
        trail_path: Option<PathBuf>,
        trail: Option<&AuditTrail>,
        observed: ObservedServer,
    ) {
        let access = ClusterAccess::clone(&self.access);
        let service = ServedRequests::new(access, trail_path, trail, observed);
        self.service.begin(Arc::new(service));
    }

    /// Makes a last seal of the audit trail, and waits until the cluster has stored it.
    pub async fn seal(&self, trail: Option<AuditTrail>) {
        let Some(trail) = trail else {
            return;
        };
        // An error means that the trail has failed, which is traced there.
        let _ = tokio::task::spawn_blocking(move || trail.seal()).await;
        self.seals.finish(self.access.timeout).await;
    }

    /// Returns the reason why the cluster takes no seals of the audit trail; `None` if it does.
    pub fn seal_trouble(&self) -> Option<String> {
        let reason = self.seals.refusal()?;
        Some(format!("seals of the audit trail are refused: {reason}"))
    }

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
