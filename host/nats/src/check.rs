//! Checks of a NATS server: whether it is fit for a cluster, and whether it keeps nodes apart.
use crate::{
    difference::SettingDifference,
    link::NatsLink,
    sequenced::{self, FoundConsumer, SEQUENCED},
    streams::{ClusterStream, difference, lacks_jetstream},
    subjects::ClusterSubject,
};
use async_nats::{
    Event, ServerError,
    jetstream::{self, ErrorCode, context::GetStreamErrorKind, stream::Stream},
};
use futures_util::StreamExt;
use peal_model::NodeName;
use semver::Version;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::time::timeout;

/// Oldest NATS server that Peal meets on. Older ones have known faults in JetStream and in the checks of
/// permissions.
pub const MIN_VERSION: Version = Version::new(2, 14, 3);
/// Names under which a node tries to publish. Neither is taken: the first that is not the node's own.
const OTHER_NAMES: [&str; 2] = ["permission-check", "permission-check-2"];

/// Reason for which a NATS server is not fit for a cluster.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ServerProblem {
    /// Release that is too old.
    #[error("NATS server has version {found}; {MIN_VERSION} or newer is right")]
    TooOld {
        /// Version of the NATS server.
        found: String,
    },
    /// Server without JetStream.
    #[error(
        "NATS server has no JetStream; its configuration needs `jetstream` for the server and for the account of the nodes, as `peal cluster init` writes it"
    )]
    NoJetStream,
    /// Server that lets a node publish as another.
    #[error(
        "NATS server lets node {node} publish as node {other}; each node needs a user of its own with the permissions that `peal cluster init` writes"
    )]
    PublishesAsOthers {
        /// Node that published.
        node: NodeName,
        /// Name under which it published.
        other: NodeName,
    },
    /// Server that does not let a node use its own subjects.
    #[error(
        "NATS server does not let node {node} use its subjects ({reason}); cluster.node must be the name for which `peal cluster init` made the key"
    )]
    Refused {
        /// Name of the node.
        node: NodeName,
        /// Violation that the NATS server reported.
        reason: String,
    },
    /// Stream that was not set up.
    #[error("stream {stream} does not exist; `peal cluster init --apply` creates it")]
    MissingStream {
        /// Name of the stream.
        stream: String,
    },
    /// Stream with other settings.
    #[error("stream {stream} has {} = {}; {} is right", .difference.setting, .difference.value, .difference.expected)]
    StreamDiffers {
        /// Name of the stream.
        stream: String,
        /// The first setting that differs.
        difference: SettingDifference,
    },
    /// Consumer that was not set up.
    #[error(
        "consumer {consumer} of stream {stream} does not exist; `peal cluster init --apply` creates it"
    )]
    MissingConsumer {
        /// Name of the stream.
        stream: String,
        /// Name of the consumer.
        consumer: String,
    },
    /// Consumer with other settings.
    #[error("consumer {consumer} of stream {stream} has {} = {}; {} is right", .difference.setting, .difference.value, .difference.expected)]
    ConsumerDiffers {
        /// Name of the stream.
        stream: String,
        /// Name of the consumer.
        consumer: String,
        /// The first setting that differs.
        difference: SettingDifference,
    },
    /// Server that did not answer.
    #[error("NATS server did not answer {request} in {limit:?}; cluster.timeout_ms is the limit")]
    Silent {
        /// Request without an answer.
        request: String,
        /// Time limit.
        limit: Duration,
    },
}

/// State of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredStream {
    /// Name of the stream.
    pub name: String,
    /// Number of stored messages.
    pub messages: u64,
    /// Size of the stored messages, in bytes.
    pub bytes: u64,
    /// Sequence of the last message.
    pub last_sequence: u64,
    /// Number of NATS servers that store it.
    pub replicas: usize,
    /// NATS server that leads the stream; `None` where there is only one.
    pub leader: Option<String>,
    /// Greatest number of operations by which another NATS server is behind the leader; `None` where there
    /// is only one.
    pub lag: Option<u64>,
    /// NATS servers that store it and are away. The others suffice if they are more than half.
    pub offline: Vec<String>,
}

/// Result of the checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NatsReport {
    /// Name of the NATS server.
    pub server: String,
    /// Version of the NATS server.
    pub version: String,
    /// True if the NATS server and the account of the nodes have JetStream.
    pub has_jetstream: bool,
    /// Time of a message from this node to itself; `None` if it did not come.
    pub round_trip: Option<Duration>,
    /// Streams that exist.
    pub streams: Vec<StoredStream>,
    /// Reasons for which the NATS server is not fit, the gravest first.
    pub problems: Vec<ServerProblem>,
}

impl NatsReport {
    /// Returns the gravest problem as an error.
    ///
    /// # Errors
    ///
    /// Fails if there is one.
    pub fn require_fit(&self) -> Result<(), ServerProblem> {
        self.problems.first().cloned().map_or(Ok(()), Err)
    }
}

/// Checks the NATS server at the other end of a connection. The node publishes an empty message as
/// another one, which servers drop if they receive it.
pub async fn check_server(link: &mut NatsLink) -> NatsReport {
    let info = link.client.server_info();
    let mut report = NatsReport {
        server: info.server_name,
        has_jetstream: info.jetstream,
        round_trip: None,
        streams: Vec::new(),
        problems: version_problem(&info.version).into_iter().collect(),
        version: info.version,
    };
    if !report.has_jetstream {
        report.problems.push(ServerProblem::NoJetStream);
    }
    match exchange(link).await {
        Ok(round_trip) => report.round_trip = Some(round_trip),
        // The other checks would say the same at length.
        Err(problem) => {
            report.problems.push(problem);
            return report;
        }
    }
    report.problems.extend(publish_as_other(link).await.err());
    if report.has_jetstream {
        for stream in ClusterStream::ALL {
            match read_stream(link, stream).await {
                Ok((stored, problem)) => {
                    report.streams.push(stored);
                    report.problems.extend(problem);
                }
                Err(ServerProblem::NoJetStream) => {
                    report.has_jetstream = false;
                    report.problems.push(ServerProblem::NoJetStream);
                    break;
                }
                Err(problem) => report.problems.push(problem),
            }
        }
    }
    report
}

/// Returns the problem of a version; `None` if it is new enough.
fn version_problem(found: &str) -> Option<ServerProblem> {
    let is_enough = Version::parse(found).is_ok_and(|version| version >= MIN_VERSION);
    (!is_enough).then(|| ServerProblem::TooOld {
        found: found.chars().take(40).collect(),
    })
}

/// Sends a message from the node to itself, and returns the time that it took.
async fn exchange(link: &mut NatsLink) -> Result<Duration, ServerProblem> {
    let subject = ClusterSubject::Answer {
        to: link.node.clone(),
        from: link.node.clone(),
        request: 0,
    };
    let subject = link.subjects.text(&subject);
    let silent = silent(link, "a message of the node to itself");
    let mut answers = link
        .client
        .subscribe(subject.clone())
        .await
        .map_err(|_| silent.clone())?;
    let began = Instant::now();
    link.client
        .publish(subject, Default::default())
        .await
        .map_err(|_| silent.clone())?;
    let node = link.node.clone();
    let events = &mut link.events;
    let arrival = async {
        loop {
            tokio::select! {
                answer = answers.next() => return answer.map(|_| began.elapsed()).ok_or(silent.clone()),
                event = events.recv() => if let Some(reason) = violation(event) {
                    return Err(ServerProblem::Refused { node: node.clone(), reason });
                },
            }
        }
    };
    timeout(link.timeout, arrival)
        .await
        .unwrap_or(Err(silent.clone()))
}

/// Tries to publish as another node. The NATS server either reports a violation or delivers the message.
async fn publish_as_other(link: &mut NatsLink) -> Result<(), ServerProblem> {
    let silent = silent(link, "a message published as another node");
    let names = OTHER_NAMES.iter().filter_map(|name| name.parse().ok());
    let other = names.into_iter().find(|name: &NodeName| *name != link.node);
    let other = other.ok_or_else(|| silent.clone())?;
    let subject = link.subjects.text(&ClusterSubject::Broadcast {
        from: other.clone(),
    });
    let mut broadcasts = link
        .client
        .subscribe(link.subjects.broadcasts())
        .await
        .map_err(|_| silent.clone())?;
    link.client
        .publish(subject.clone(), Default::default())
        .await
        .map_err(|_| silent.clone())?;
    let node = link.node.clone();
    let events = &mut link.events;
    let outcome = async {
        loop {
            tokio::select! {
                message = broadcasts.next() => match message {
                    Some(message) if message.subject.as_str() == subject => {
                        return Err(ServerProblem::PublishesAsOthers { node: node.clone(), other: other.clone() });
                    }
                    Some(_) => {}
                    None => return Err(silent.clone()),
                },
                event = events.recv() => match violation(event) {
                    Some(text) if text.contains(&subject) => return Ok(()),
                    Some(reason) => return Err(ServerProblem::Refused { node: node.clone(), reason }),
                    None => {}
                },
            }
        }
    };
    timeout(link.timeout, outcome)
        .await
        .unwrap_or(Err(silent.clone()))
}

/// Returns the text of a violation of permissions; `None` for other events.
fn violation(event: Option<Event>) -> Option<String> {
    match event? {
        Event::ServerError(ServerError::Other(text)) if text.contains("Permissions Violation") => {
            Some(text.chars().take(400).collect())
        }
        _ => None,
    }
}

/// Reads the state of a stream, with a problem of its settings.
async fn read_stream(
    link: &NatsLink,
    stream: ClusterStream,
) -> Result<(StoredStream, Option<ServerProblem>), ServerProblem> {
    let name = link.subjects.stream_name(stream);
    let found = jetstream::new(link.client.clone())
        .get_stream(&name)
        .await
        .map_err(|error| match error.kind() {
            kind if lacks_jetstream(&kind, &error) => ServerProblem::NoJetStream,
            GetStreamErrorKind::JetStream(refusal)
                if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                ServerProblem::MissingStream {
                    stream: name.clone(),
                }
            }
            _ => silent(link, &format!("a request for stream {name}")),
        })?;
    let info = found.cached_info();
    let expected = stream.config(&link.subjects, info.config.num_replicas);
    let problem = difference(&info.config, &expected).map(|difference| {
        let stream = name.clone();
        ServerProblem::StreamDiffers { stream, difference }
    });
    let problem = match problem {
        None if stream == ClusterStream::Members => consumer_problem(link, &found).await?,
        problem => problem,
    };
    let followers = info.cluster.iter().flat_map(|cluster| &cluster.replicas);
    let stored = StoredStream {
        name: name.clone(),
        messages: info.state.messages,
        bytes: info.state.bytes,
        last_sequence: info.state.last_sequence,
        replicas: info.config.num_replicas,
        leader: info
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.leader.clone()),
        lag: followers.clone().filter_map(|server| server.lag).max(),
        offline: followers
            .filter(|server| server.offline)
            .map(|server| server.name.clone())
            .collect(),
    };
    Ok((stored, problem))
}

/// Returns the problem of the consumer of the stream of members.
async fn consumer_problem(
    link: &NatsLink,
    members: &Stream,
) -> Result<Option<ServerProblem>, ServerProblem> {
    let stream = link.subjects.stream_name(ClusterStream::Members);
    let consumer = SEQUENCED.to_owned();
    let found = sequenced::find(members, &link.subjects)
        .await
        .map_err(|_| silent(link, &format!("a request for consumer {consumer}")))?;
    Ok(match found {
        FoundConsumer::Fit => None,
        FoundConsumer::Missing => Some(ServerProblem::MissingConsumer { stream, consumer }),
        FoundConsumer::Differs(difference) => Some(ServerProblem::ConsumerDiffers {
            stream,
            consumer,
            difference,
        }),
    })
}

fn silent(link: &NatsLink, request: &str) -> ServerProblem {
    ServerProblem::Silent {
        request: request.to_owned(),
        limit: link.timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_2_14_3_are_fit() {
        for fit in ["2.14.3", "2.14.10", "2.15.0-RC.1", "2.15.1", "3.0.0"] {
            assert_eq!(version_problem(fit), None, "{fit}");
        }
        for old in [
            "2.9.10",
            "2.14.2",
            "2.14.3-beta.1",
            "2.1.14",
            "1.99.99",
            "",
            "2.15",
            "v2.15.1",
        ] {
            let problem = version_problem(old).map(|problem| problem.to_string());
            let expected = format!("NATS server has version {old}; 2.14.3 or newer is right");
            assert_eq!(problem, Some(expected));
        }
    }
}
