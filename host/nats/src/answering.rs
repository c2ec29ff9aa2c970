//! Answers of this node to the requests of others.
use crate::subjects::{ClusterSubject, ClusterSubjects};
use async_nats::{Client, Message};
use peal_cluster::{AskFrame, RefusedSender, answer_frames};
use peal_model::NodeName;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Maximum number of requests that are answered at the same time, and of those of one node.
const MAX_REQUESTS: usize = 16;
const MAX_REQUESTS_OF_NODE: usize = 4;

/// Answer, or the reason for which there is none.
pub type NodeAnswerFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, String>> + Send>>;

/// Service of a node for the others of its cluster.
pub trait NodeService: Send + Sync + 'static {
    /// Answers a request of another node.
    fn answer(&self, from: NodeName, request: Vec<u8>) -> NodeAnswerFuture;
}

/// Place of the service of a node, which begins after the node has joined.
#[derive(Clone, Default)]
pub struct NodeServiceSlot(Arc<OnceLock<Arc<dyn NodeService>>>);

impl NodeServiceSlot {
    /// Begins the service, unless there is one.
    pub fn begin(&self, service: Arc<dyn NodeService>) {
        // An error means that there is one: a server has one service.
        let _ = self.0.set(service);
    }
}

/// Answering of the requests that come at one connection.
#[derive(Clone)]
pub(crate) struct Answering {
    pub(crate) client: Client,
    pub(crate) subjects: ClusterSubjects,
    pub(crate) node: NodeName,
    pub(crate) service: NodeServiceSlot,
    pub(crate) open: OpenRequests,
}

/// Requests that are being answered, by the nodes that made them.
#[derive(Clone, Default)]
pub(crate) struct OpenRequests(Arc<Mutex<BTreeMap<NodeName, usize>>>);

/// One of these requests, until it is dropped.
struct OpenRequest {
    of: NodeName,
    all: OpenRequests,
}

impl OpenRequests {
    /// Adds a request, if there are not too many.
    fn begin(&self, of: &NodeName) -> Option<OpenRequest> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().sum::<usize>() >= MAX_REQUESTS {
            return None;
        }
        let count = open.entry(of.clone()).or_default();
        if *count >= MAX_REQUESTS_OF_NODE {
            return None;
        }
        *count += 1;
        Some(OpenRequest {
            of: of.clone(),
            all: self.clone(),
        })
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}

/// Request that is none.
pub(crate) struct RefusedAsk {
    pub(crate) from: RefusedSender,
    pub(crate) reason: String,
}

impl Answering {
    /// Answers a request in a task of its own.
    pub(crate) fn take(&self, message: &Message) -> Result<(), RefusedAsk> {
        // The subject says who asks, and where the answer goes: NATS servers let no other node use it.
        let Ok(ClusterSubject::Ask { from, .. }) = self.subjects.parse(&message.subject) else {
            return Err(RefusedAsk {
                from: RefusedSender::Unknown,
                reason: format!("request under subject {}", message.subject),
            });
        };
        let AskFrame { request, body } =
            AskFrame::decode(&message.payload).map_err(|error| RefusedAsk {
                from: RefusedSender::Node(from.clone()),
                reason: format!("request: {error}"),
            })?;
        let answering = self.clone();
        let open = self.open.begin(&from);
        tokio::spawn(async move {
            let answer = match (&open, answering.service.0.get()) {
                (None, _) => Err(format!(
                    "it answers {MAX_REQUESTS} requests at the same time at most, and {MAX_REQUESTS_OF_NODE} of one node"
                )),
                (Some(_), None) => Err("its server is starting".to_owned()),
                (Some(_), Some(service)) => service.answer(from.clone(), body).await,
            };
            answering.send(from, request, answer).await;
        });
        Ok(())
    }

    async fn send(&self, to: NodeName, request: u64, answer: Result<Vec<u8>, String>) {
        let subject = self.subjects.text(&ClusterSubject::Answer {
            to,
            from: self.node.clone(),
            request,
        });
        for frame in answer_frames(answer) {
            let sent = match frame.encode() {
                Ok(bytes) => self
                    .client
                    .publish(subject.clone(), bytes.into())
                    .await
                    .map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = sent {
                return tracing::debug!(error, subject, "answer to another node not sent");
            }
        }
    }
}
