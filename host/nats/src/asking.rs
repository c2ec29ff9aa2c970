//! Requests of this node to others, with a deadline.
use crate::{
    link::NatsLink,
    subjects::{ClusterSubject, ClusterSubjects},
};
use async_nats::{Client, Message, StatusCode};
use futures_util::StreamExt;
use peal_cluster::{AnswerParts, AskFailure, AskFrame};
use peal_model::NodeName;
use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    time::Duration,
};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

/// Maximum number of bytes of answers that have begun to come.
const MAX_UNFINISHED: usize = 64 << 20;
/// Answers that wait for their reader.
const MAX_QUEUED: usize = 64;

/// Error of asking.
#[derive(Debug, Error)]
pub enum AskError {
    /// The request is too long.
    #[error("request not sent: {0}")]
    Request(String),
    /// The network did not take it.
    #[error("NATS servers not asked: {0}")]
    Network(String),
}

/// Answer of one node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeAnswer {
    /// The node.
    pub node: NodeName,
    /// Its answer.
    pub answer: Result<Vec<u8>, AskFailure>,
}

/// Requester of this node. Cheap to clone.
#[derive(Clone)]
pub struct NodeAsker {
    client: Client,
    subjects: ClusterSubjects,
    node: NodeName,
}

impl NodeAsker {
    /// Returns the requester at a connection.
    pub fn new(link: &NatsLink) -> NodeAsker {
        NodeAsker {
            client: link.client.clone(),
            subjects: link.subjects.clone(),
            node: link.node.clone(),
        }
    }

    /// Asks nodes. Each of them has one answer, as it comes; at the limit those without one fail.
    ///
    /// # Errors
    ///
    /// Fails if nobody can be asked.
    pub async fn ask(
        &self,
        nodes: Vec<NodeName>,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<mpsc::Receiver<NodeAnswer>, AskError> {
        let deadline = Instant::now() + limit;
        let network = |error: &dyn std::fmt::Display| AskError::Network(error.to_string());
        // A number that is not used: several processes ask in the name of this node.
        let request = RandomState::new().hash_one(std::time::SystemTime::now());
        let frame = AskFrame { request, body };
        let bytes = frame
            .encode()
            .map_err(|error| AskError::Request(error.to_string()))?;
        let answers = self.subjects.answers_to(&self.node, request);
        let answers = self
            .client
            .subscribe(answers)
            .await
            .map_err(|error| network(&error))?;
        for to in &nodes {
            let ask = ClusterSubject::Ask {
                to: to.clone(),
                from: self.node.clone(),
            };
            // A NATS server tells at this subject if there is nobody to ask.
            let reply = ClusterSubject::Answer {
                to: self.node.clone(),
                from: to.clone(),
                request,
            };
            let (ask, reply) = (self.subjects.text(&ask), self.subjects.text(&reply));
            self.client
                .publish_with_reply(ask, reply, bytes.clone().into())
                .await
                .map_err(|error| network(&error))?;
        }
        let (sender, receiver) = mpsc::channel(MAX_QUEUED);
        let waiting = nodes
            .into_iter()
            .map(|node| (node, AnswerParts::default()))
            .collect();
        let gathering = Gathering {
            subjects: self.subjects.clone(),
            waiting,
            limit,
        };
        tokio::spawn(gathering.run(answers, deadline, sender));
        Ok(receiver)
    }
}

/// Answers to one request.
struct Gathering {
    subjects: ClusterSubjects,
    /// Nodes without an answer.
    waiting: BTreeMap<NodeName, AnswerParts>,
    limit: Duration,
}

impl Gathering {
    async fn run(
        mut self,
        mut answers: async_nats::Subscriber,
        deadline: Instant,
        sender: mpsc::Sender<NodeAnswer>,
    ) {
        while !self.waiting.is_empty() {
            let message = tokio::select! {
                message = answers.next() => message,
                () = sleep_until(deadline) => None,
                () = sender.closed() => return,
            };
            let Some(message) = message else {
                break;
            };
            if let Some(answer) = self.take(&message)
                && sender.send(answer).await.is_err()
            {
                return;
            }
        }
        for node in self.waiting.into_keys() {
            let answer = Err(AskFailure::Silent(self.limit));
            // The reader may be gone.
            let _ = sender.send(NodeAnswer { node, answer }).await;
        }
    }

    /// Takes a message. Returns the answer of a node that is complete.
    fn take(&mut self, message: &Message) -> Option<NodeAnswer> {
        // The subject of the message says who sent it: NATS servers let no other node use it.
        let Ok(ClusterSubject::Answer { from: node, .. }) = self.subjects.parse(&message.subject)
        else {
            return None;
        };
        let unfinished: usize = self.waiting.values().map(AnswerParts::len).sum();
        let parts = self.waiting.get_mut(&node)?;
        let answer = if message.status == Some(StatusCode::NO_RESPONDERS) {
            Err(AskFailure::NoServer)
        } else if unfinished.saturating_add(message.payload.len()) > MAX_UNFINISHED {
            Err(AskFailure::TooLong {
                limit: MAX_UNFINISHED,
            })
        } else {
            parts.take(&message.payload)?
        };
        self.waiting.remove(&node);
        Some(NodeAnswer { node, answer })
    }
}
