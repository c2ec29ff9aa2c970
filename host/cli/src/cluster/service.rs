//! Service of `peal serve` for the other nodes of its cluster.
use super::requests::{NodeReply, NodeRequest, TrailState};
use crate::error_text;
use anyhow::{Context, Result};
use peal_audit::{AuditTrail, SealPublicKey, TrailSource, verify_sealed};
use peal_model::NodeName;
use peal_nats::{ClusterAccess, NatsLink, NodeAnswerFuture, NodeService, read_seals};
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
    /// Time at which the next verification may begin.
    next_verification: Mutex<Instant>,
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
    ) -> ServedRequests {
        let trail = path.zip(trail).map(|(path, trail)| ServedTrail {
            path,
            key: trail.public_key(),
        });
        ServedRequests(Arc::new(ServedParts {
            access,
            trail,
            next_verification: Mutex::new(Instant::now()),
        }))
    }
}

impl NodeService for ServedRequests {
    fn answer(&self, from: NodeName, request: Vec<u8>) -> NodeAnswerFuture {
        let parts = self.0.clone();
        Box::pin(async move {
            let request = NodeRequest::parse(&request)?;
            tracing::debug!(%from, ?request, "request of another node");
            let reply = match request {
                NodeRequest::VerifyTrail { since } => parts.verify_trail(since).await?,
            };
            serde_json::to_vec(&reply).map_err(|error| error.to_string())
        })
    }
}

impl ServedParts {
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
