//! Names of the subjects of a cluster. No other file writes one.
//!
//! | subject | messages | published by |
//! |---|---|---|
//! | `peal.C.from.N.all` | beats of node N | N |
//! | `peal.C.from.N.to.M` | frames of node N for node M | N |
//! | `peal.C.members.N` | joins and leaves of node N itself, stored | N |
//! | `peal.C.verdicts.N` | verdicts of node N about others, stored | N |
//! | `peal.C.seals.N` | seals of the audit trail of node N, stored | N |
//! | `peal.C.deployments.N` | records of the deployment of modules, stored | N, a deployer |
//! | `peal.C.readiness.N` | reports of node N about module sets, stored | N |
//! | `peal.C.objects.N.D.K` | part K of the object with digest D, stored | N |
//! | `peal.C.stored.deployments.N`, `peal.C.stored.readiness.N` | what was stored | the NATS server |
//! | `peal.C.sequenced` | members and verdicts as they are stored, under their own subjects | the NATS server |
//! | `peal.C.ask.M.N` | requests of node N to node M | N |
//! | `peal.C.inbox.N.M.T` | answer of node M to request T of node N | M |
//! | `peal.C.inbox.N.>` | answers of JetStream to node N | the NATS server |
//! | `peal.C.administration.>` | answers of JetStream to the administrator | the NATS server |
use crate::{sequenced::SEQUENCED, streams::ClusterStream};
use peal_cluster::ObjectId;
use peal_model::{ClusterName, NodeName};
use std::fmt;
use thiserror::Error;

/// First part of all subjects of Peal.
const ROOT: &str = "peal";
/// First part of the subjects of JetStream's requests.
const API: &str = "$JS.API";
/// Maximum length of a subject that an error shows, in bytes.
const MAX_SHOWN: usize = 200;

/// Error for a subject that no message of a cluster has.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{subject:?} is no subject of messages in cluster {cluster}; one is peal.{cluster}.from.NODE.all or another of its subjects"
)]
pub struct SubjectError {
    subject: String,
    cluster: ClusterName,
}

/// Subject of a message between the servers of a cluster, without the name of the cluster.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ClusterSubject {
    /// Message of a node for all servers.
    Broadcast {
        /// Sender.
        from: NodeName,
    },
    /// Message of a node for one server.
    Direct {
        /// Sender.
        from: NodeName,
        /// Recipient.
        to: NodeName,
    },
    /// Join or leave of a node, on its way into the stream of members.
    Member {
        /// Node that joins or leaves.
        node: NodeName,
    },
    /// Verdict about other nodes, on its way into the stream of members.
    Verdict {
        /// Node that writes the verdict.
        by: NodeName,
    },
    /// Seal of an audit trail, on its way into the stream of seals.
    Seal {
        /// Node of the trail.
        node: NodeName,
    },
    /// Record of the deployment of modules, on its way into the stream of modules.
    Deployment {
        /// Deployer that writes the record.
        by: NodeName,
    },
    /// Report of a node about module sets, on its way into the stream of modules.
    Readiness {
        /// Node that reports about itself.
        node: NodeName,
    },
    /// Request of a node to another one.
    Ask {
        /// Node that is asked.
        to: NodeName,
        /// Node that asks.
        from: NodeName,
    },
    /// Answer to such a request.
    Answer {
        /// Node that asked.
        to: NodeName,
        /// Node that answers.
        from: NodeName,
        /// Number of the request, chosen by the node that asked.
        request: u64,
    },
}

impl ClusterSubject {
    /// Returns the node that NATS servers let publish to this subject.
    pub fn sender(&self) -> &NodeName {
        match self {
            ClusterSubject::Broadcast { from }
            | ClusterSubject::Direct { from, .. }
            | ClusterSubject::Ask { from, .. }
            | ClusterSubject::Answer { from, .. } => from,
            ClusterSubject::Member { node }
            | ClusterSubject::Seal { node }
            | ClusterSubject::Readiness { node } => node,
            ClusterSubject::Verdict { by } | ClusterSubject::Deployment { by } => by,
        }
    }
}

/// Part of a subject after the name of the cluster. `*` stands for any node.
impl fmt::Display for ClusterSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterSubject::Broadcast { from } => write!(f, "from.{from}.all"),
            ClusterSubject::Direct { from, to } => write!(f, "from.{from}.to.{to}"),
            ClusterSubject::Member { node } => write!(f, "members.{node}"),
            ClusterSubject::Verdict { by } => write!(f, "verdicts.{by}"),
            ClusterSubject::Seal { node } => write!(f, "seals.{node}"),
            ClusterSubject::Deployment { by } => write!(f, "deployments.{by}"),
            ClusterSubject::Readiness { node } => write!(f, "readiness.{node}"),
            ClusterSubject::Ask { to, from } => write!(f, "ask.{to}.{from}"),
            ClusterSubject::Answer { to, from, request } => {
                write!(f, "inbox.{to}.{from}.{request}")
            }
        }
    }
}

/// Subjects of one cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterSubjects {
    cluster: ClusterName,
}

impl ClusterSubjects {
    /// Creates the names of this cluster.
    pub fn new(cluster: ClusterName) -> ClusterSubjects {
        ClusterSubjects { cluster }
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// Returns the whole subject.
    pub fn text(&self, subject: &ClusterSubject) -> String {
        self.named(&subject.to_string())
    }

    /// Parses the subject of a received message. The subject of the message counts, and not that of
    /// the subscription: JetStream delivers stored messages to any subject under their own.
    ///
    /// # Errors
    ///
    /// Fails if messages of this cluster have no such subject.
    pub fn parse(&self, text: &str) -> Result<ClusterSubject, SubjectError> {
        self.parsed(text).ok_or_else(|| SubjectError {
            subject: text.chars().take(MAX_SHOWN).collect(),
            cluster: self.cluster.clone(),
        })
    }

    fn parsed(&self, text: &str) -> Option<ClusterSubject> {
        let rest = text.strip_prefix(ROOT)?.strip_prefix('.')?;
        let rest = rest
            .strip_prefix(self.cluster.as_str())?
            .strip_prefix('.')?;
        // One part more than any subject has.
        let parts: Vec<&str> = rest.splitn(5, '.').collect();
        let node = |text: &str| text.parse::<NodeName>().ok();
        Some(match parts.as_slice() {
            ["from", from, "all"] => ClusterSubject::Broadcast { from: node(from)? },
            ["from", from, "to", to] => ClusterSubject::Direct {
                from: node(from)?,
                to: node(to)?,
            },
            ["members", name] => ClusterSubject::Member { node: node(name)? },
            ["verdicts", by] => ClusterSubject::Verdict { by: node(by)? },
            ["seals", name] => ClusterSubject::Seal { node: node(name)? },
            ["deployments", by] => ClusterSubject::Deployment { by: node(by)? },
            ["readiness", name] => ClusterSubject::Readiness { node: node(name)? },
            ["ask", to, from] => ClusterSubject::Ask {
                to: node(to)?,
                from: node(from)?,
            },
            ["inbox", to, from, request] => {
                let number: u64 = request.parse().ok()?;
                // Leading zeros and signs would be other subjects for the same answer.
                (number.to_string() == **request).then_some(())?;
                ClusterSubject::Answer {
                    to: node(to)?,
                    from: node(from)?,
                    request: number,
                }
            }
            _ => return None,
        })
    }

    /// Returns the subjects of messages for all servers.
    pub fn broadcasts(&self) -> String {
        self.named("from.*.all")
    }

    /// Returns the subjects of messages for one server.
    pub fn messages_to(&self, node: &NodeName) -> String {
        self.named(&format!("from.*.to.{node}"))
    }

    /// Returns the subjects of messages from one server to any other.
    pub fn messages_from(&self, node: &NodeName) -> String {
        self.named(&format!("from.{node}.to.*"))
    }

    /// Returns the subject to which a consumer sends what the stream of members has stored. The messages
    /// keep their own subjects.
    pub fn sequenced(&self) -> String {
        self.named("sequenced")
    }

    /// Returns the subjects of requests to one server.
    pub fn asks_to(&self, node: &NodeName) -> String {
        self.named(&format!("ask.{node}.*"))
    }

    /// Returns the subjects of requests of one server.
    pub fn asks_from(&self, node: &NodeName) -> String {
        self.named(&format!("ask.*.{node}"))
    }

    /// Returns the subjects of answers to one server, of others and of JetStream.
    pub fn inbox(&self, node: &NodeName) -> String {
        self.named(&format!("inbox.{node}.>"))
    }

    /// Returns the subjects of the answers of all servers to one request.
    pub fn answers_to(&self, node: &NodeName, request: u64) -> String {
        self.named(&format!("inbox.{node}.*.{request}"))
    }

    /// Returns the subjects of answers of one server.
    pub fn answers_from(&self, node: &NodeName) -> String {
        self.named(&format!("inbox.*.{node}.*"))
    }

    /// Returns the beginning of the subjects to which JetStream answers a node.
    pub fn inbox_prefix(&self, node: &NodeName) -> String {
        self.named(&format!("inbox.{node}"))
    }

    /// Returns the beginning of the subjects to which JetStream answers the administrator.
    pub fn administration_prefix(&self) -> String {
        self.named("administration")
    }

    /// Returns the subjects to which JetStream answers the administrator.
    pub fn administration(&self) -> String {
        self.named("administration.>")
    }

    /// Returns the name of a stream.
    pub fn stream_name(&self, stream: ClusterStream) -> String {
        let part = match stream {
            ClusterStream::Members => "MEMBERS",
            ClusterStream::Seals => "SEALS",
            ClusterStream::Modules => "MODULES",
            ClusterStream::Objects => "OBJECTS",
        };
        format!("PEAL_{}_{part}", self.cluster)
    }

    /// Returns the subjects whose messages a stream stores.
    pub fn stored(&self, stream: ClusterStream) -> Vec<String> {
        match stream {
            ClusterStream::Members => vec![self.named("members.*"), self.named("verdicts.*")],
            ClusterStream::Seals => vec![self.named("seals.*")],
            ClusterStream::Modules => vec![self.deployments(), self.named("readiness.*")],
            ClusterStream::Objects => vec![self.named("objects.*.*.*")],
        }
    }

    /// Returns the subjects of all records of the deployment of modules.
    pub fn deployments(&self) -> String {
        self.named("deployments.*")
    }

    /// Returns the subject of a part of an object that a node has stored.
    pub fn object_part(&self, node: &NodeName, object: &ObjectId, part: u64) -> String {
        self.named(&format!("objects.{node}.{object}.{part}"))
    }

    /// Returns the subjects of all objects that a node stores.
    pub fn objects_of(&self, node: &NodeName) -> String {
        self.named(&format!("objects.{node}.*.*"))
    }

    /// Returns the subjects of what the stream of modules has stored.
    pub fn stored_in_modules(&self) -> String {
        self.named("stored.*.*")
    }

    /// Returns the subjects from which, and to which, stored records about modules are republished.
    pub fn republished_modules(&self) -> (String, String) {
        (self.named(">"), self.named("stored.>"))
    }

    /// Returns the subjects of the requests by which a stream is read: its state, and one message.
    pub fn reads(&self, stream: ClusterStream) -> [String; 2] {
        ["INFO", "MSG.GET"].map(|verb| self.request(verb, stream))
    }

    /// Returns the subjects of the requests by which the administrator sets a stream up.
    pub fn set_up(&self, stream: ClusterStream) -> [String; 3] {
        ["INFO", "CREATE", "UPDATE"].map(|verb| self.request(verb, stream))
    }

    /// Returns the subject of the requests by which the consumer of the stream of members is read.
    pub fn reads_consumer(&self) -> String {
        self.consumer_request("INFO")
    }

    /// Returns the subjects of the requests by which the administrator sets this consumer up.
    pub fn set_up_consumer(&self) -> [String; 2] {
        ["INFO", "CREATE"].map(|verb| self.consumer_request(verb))
    }

    fn request(&self, verb: &str, stream: ClusterStream) -> String {
        format!("{API}.STREAM.{verb}.{}", self.stream_name(stream))
    }

    fn consumer_request(&self, verb: &str) -> String {
        let stream = self.stream_name(ClusterStream::Members);
        format!("{API}.CONSUMER.{verb}.{stream}.{SEQUENCED}")
    }

    fn named(&self, rest: &str) -> String {
        format!("{ROOT}.{}.{rest}", self.cluster)
    }
}

#[cfg(test)]
mod tests;
