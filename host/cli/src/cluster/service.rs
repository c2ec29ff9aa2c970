//! Service of `peal serve` for the other nodes of its cluster.
use super::{
    recent_events::RecentEvents,
    requests::{NodeReply, NodeRequest, TrailState},
};
use crate::{
    error_text,
    job::RecordedJob,
    ps::{self, HostQueries},
};
use anyhow::{Context, Result};
use peal_audit::{AuditTrail, SealPublicKey, TrailSource, verify_sealed};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{NodeName, Nspace};
use peal_nats::{ClusterAccess, NatsLink, NodeAnswerFuture, NodeService, read_seals};
use peal_server::metrics::Metrics;
use peal_store::Store;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};
use tokio::{sync::Mutex, time::Instant};

/// Ratio of the time without a verification to that of the last one, so that other nodes cannot keep this
/// one busy.
const REST: u32 = 3;

/// Service of a node.
pub struct ServedRequests(Arc<ServedParts>);

struct ServedParts {
    access: ClusterAccess,
    trail: Option<ServedTrail>,
    observed: ObservedServer,
    /// Time at which the next verification may begin.
    next_verification: Mutex<Instant>,
}

/// Parts of the server that nodes in `cluster.viewers` may see.
pub struct ObservedServer {
    /// These nodes.
    pub viewers: Vec<NodeName>,
    /// Host environment, which knows the jobs of this node.
    pub host: Arc<EmbeddedHostEnvironment>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Store with the records of jobs, if there is one.
    pub store: Option<Arc<Store>>,
    /// Events.
    pub events: RecentEvents,
}

/// Audit trail that is verified for other nodes.
struct ServedTrail {
    path: PathBuf,
    key: SealPublicKey,
}

impl ServedRequests {
    /// Returns the service of a node with this audit trail.
    pub fn new(
        access: ClusterAccess,
        path: Option<PathBuf>,
        trail: Option<&AuditTrail>,
        observed: ObservedServer,
    ) -> ServedRequests {
        let trail = path.zip(trail).map(|(path, trail)| ServedTrail {
            path,
            key: trail.public_key(),
        });
        ServedRequests(Arc::new(ServedParts {
            access,
            trail,
            observed,
            next_verification: Mutex::new(Instant::now()),
        }))
    }
}

impl NodeService for ServedRequests {
    fn answer(&self, from: NodeName, request: Vec<u8>) -> NodeAnswerFuture {
        let parts = self.0.clone();
        Box::pin(async move {
            let request = NodeRequest::parse(&request)?;
            match &request {
                // A watcher asks again and again.
                NodeRequest::Events { after: Some(_), .. } => {
                    tracing::debug!(%from, ?request, "further request of a node");
                }
                _ => tracing::info!(%from, ?request, "request of a node"),
            }
            let reply = match request {
                NodeRequest::VerifyTrail { since } => parts.verify_trail(since).await?,
                observing => {
                    parts.require_observer(&from)?;
                    parts.observed.reply(observing).await?
                }
            };
            serde_json::to_vec(&reply).map_err(|error| error.to_string())
        })
    }
}

impl ServedParts {
    /// Refuses nodes whose administrators may not see what this node does.
    fn require_observer(&self, from: &NodeName) -> Result<(), String> {
        let own = &self.access.node;
        if from == own || self.observed.viewers.contains(from) {
            return Ok(());
        }
        Err(format!(
            "cluster.viewers in its configuration does not name node {from}"
        ))
    }

    async fn verify_trail(&self, since: Option<u64>) -> Result<NodeReply, String> {
        let Some(ServedTrail { path, key }) = &self.trail else {
            return Ok(NodeReply::NoTrail);
        };
        // One after the other.
        let mut next = self.next_verification.lock().await;
        tokio::time::sleep_until(*next).await;
        let began = Instant::now();
        let verified = verified(&self.access, path, *key, since).await;
        *next = Instant::now() + began.elapsed() * REST;
        verified
            .map(NodeReply::Trail)
            .map_err(|error| format!("its audit trail cannot be verified: {}", error_text(&error)))
    }
}

/// Verifies the trail, and compares it with the seals of this node.
async fn verified(
    access: &ClusterAccess,
    path: &Path,
    key: SealPublicKey,
    since: Option<u64>,
) -> Result<TrailState> {
    let link = NatsLink::connect(access).await?;
    // Before the trail is read, which grows.
    let since = since.map(|since| UNIX_EPOCH + Duration::from_millis(since));
    let seals = read_seals(&link, &link.node, since).await?;
    let path = path.to_owned();
    let verify = move || -> Result<TrailState> {
        let source = TrailSource::open(&path)?;
        let lines = seals.iter().map(|seal| &seal.line);
        Ok(TrailState::from(&verify_sealed(&source, &key, lines)?))
    };
    tokio::task::spawn_blocking(verify)
        .await
        .context("the verification has failed")?
}

impl ObservedServer {
    async fn reply(&self, request: NodeRequest) -> Result<NodeReply, String> {
        match request {
            NodeRequest::Procs { jobs } => {
                let queries = HostQueries(self.host.clone());
                let jobs = ps::gather(&queries, &jobs).await;
                let jobs = jobs.map_err(|error| error_text(&error))?;
                Ok(NodeReply::Procs { jobs })
            }
            NodeRequest::Stats => Ok(NodeReply::Stats(self.metrics.snapshot())),
            NodeRequest::JobRecord { nspace } => {
                let record = self.job_record(nspace).await?;
                Ok(NodeReply::JobRecord { record })
            }
            NodeRequest::Events { after, codes } => Ok(self.events.after(after, &codes).await),
            other => Err(format!("{other:?} is no request of an observer")),
        }
    }

    async fn job_record(&self, nspace: Nspace) -> Result<Option<RecordedJob>, String> {
        let store = self.store.clone();
        let store = store.ok_or("it keeps no records: store.path is not set there")?;
        // The database blocks.
        let read = tokio::task::spawn_blocking(move || RecordedJob::read(&store, &nspace));
        let read = read.await.map_err(|error| error.to_string())?;
        read.map_err(|error| error.to_string())
    }
}
