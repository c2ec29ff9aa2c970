//! Streams of a cluster: their settings, and how the administrator sets them up.
use crate::{
    difference::{SettingDifference, first_difference},
    link::{LinkError, administrator},
    sequenced::{self, FoundConsumer, SEQUENCED},
    site::ClusterSite,
    subjects::ClusterSubjects,
};
use async_nats::{
    Client,
    jetstream::{
        self, ErrorCode,
        context::{CreateStreamErrorKind, GetStreamErrorKind},
        stream::{Config, DiscardPolicy, Republish, RetentionPolicy, StorageType, Stream},
    },
};
use std::{
    fmt::Display,
    time::{Duration, SystemTime},
};
use thiserror::Error;

/// Latest messages of each node that the stream of members keeps: a node cannot remove what others
/// wrote by writing much.
const MAX_MEMBER_MESSAGES: i64 = 64;
/// Maximum size of a join, leave or verdict, in bytes.
const MAX_MEMBER_BYTES: i32 = 64 << 10;
/// Maximum size of a seal, in bytes.
const MAX_SEAL_BYTES: i32 = 4 << 10;
/// Maximum size of a record or report about module sets, in bytes, with its headers.
const MAX_MODULES_BYTES: i32 = (256 << 10) + (4 << 10);
/// Maximum size of a part of an object, in bytes. A node reads it as JSON in one message.
pub(crate) const MAX_PART: usize = 128 << 10;
/// Maximum size of a part of an object with its headers, in bytes.
const MAX_PART_BYTES: i32 = (128 << 10) + (4 << 10);
/// Maximum size of all objects, in bytes. The oldest are removed first.
const MAX_OBJECTS_BYTES: i64 = 1 << 30;
/// Time in which the stream of members drops repeated message ids.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Stream of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterStream {
    /// Joins, leaves and verdicts, in one sequence.
    Members,
    /// Seals of the audit trails of all nodes.
    Seals,
    /// The last record of each deployer, and the last report of each node about module sets.
    Modules,
    /// Module sets and components.
    Objects,
}

impl ClusterStream {
    /// All streams.
    pub const ALL: [ClusterStream; 4] = [
        ClusterStream::Members,
        ClusterStream::Seals,
        ClusterStream::Modules,
        ClusterStream::Objects,
    ];

    /// Seals of each node, after which further ones are refused: two a minute for a year.
    pub const MAX_SEALS: i64 = 1 << 20;

    /// Returns the settings of the stream, stored on this number of NATS servers.
    pub fn config(self, subjects: &ClusterSubjects, replicas: usize) -> Config {
        let common = Config {
            name: subjects.stream_name(self),
            subjects: subjects.stored(self),
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            num_replicas: replicas,
            duplicate_window: DUPLICATE_WINDOW,
            max_messages: -1,
            max_bytes: -1,
            max_consumers: -1,
            // Direct reads answer with the bytes of a message, and go where the reader says.
            allow_direct: false,
            ..Config::default()
        };
        match self {
            ClusterStream::Members => Config {
                max_messages_per_subject: MAX_MEMBER_MESSAGES,
                max_message_size: MAX_MEMBER_BYTES,
                discard: DiscardPolicy::Old,
                ..common
            },
            ClusterStream::Seals => Config {
                max_messages_per_subject: ClusterStream::MAX_SEALS,
                max_message_size: MAX_SEAL_BYTES,
                discard: DiscardPolicy::New,
                discard_new_per_subject: true,
                deny_delete: true,
                deny_purge: true,
                ..common
            },
            ClusterStream::Modules => {
                let (source, destination) = subjects.republished_modules();
                Config {
                    max_messages_per_subject: 1,
                    max_message_size: MAX_MODULES_BYTES,
                    discard: DiscardPolicy::Old,
                    republish: Some(Republish {
                        source,
                        destination,
                        // The records are read: a node could not know what it has missed.
                        headers_only: true,
                    }),
                    ..common
                }
            }
            ClusterStream::Objects => Config {
                max_messages_per_subject: 1,
                max_message_size: MAX_PART_BYTES,
                max_bytes: MAX_OBJECTS_BYTES,
                // Nodes that have an object store it again for those that need it.
                discard: DiscardPolicy::Old,
                ..common
            },
        }
    }
}

/// Returns the first setting in which a stream differs, the number of its replicas apart.
pub(crate) fn difference(found: &Config, expected: &Config) -> Option<SettingDifference> {
    first_difference!(
        found,
        expected,
        subjects,
        retention,
        storage,
        discard,
        discard_new_per_subject,
        deny_delete,
        deny_purge,
        allow_direct,
        allow_rollup,
        allow_message_ttl,
        allow_message_schedules,
        allow_message_counter,
        subject_delete_marker_ttl,
        persist_mode,
        sealed,
        no_ack,
        republish,
        mirror,
        sources,
        subject_transform,
        max_messages_per_subject,
        max_message_size,
        max_messages,
        max_bytes,
        max_age,
    )
}

/// Error of setting up the streams.
#[derive(Debug, Error)]
pub enum StreamSetupError {
    /// No connection as the administrator.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// NATS server without JetStream for the account of the cluster.
    #[error(
        "NATS server has no JetStream; start it with the configuration that `peal cluster init` wrote"
    )]
    NoJetStream,
    /// Stream that exists with other settings.
    #[error(
        "stream {stream} has {} = {}; a cluster needs {}. Delete the stream on a NATS server and repeat the command",
        .difference.setting, .difference.value, .difference.expected
    )]
    Differs {
        /// Name of the stream.
        stream: String,
        /// The first setting that differs.
        difference: SettingDifference,
    },
    /// Consumer of a stream that exists with other settings.
    #[error(
        "consumer {consumer} of stream {stream} has {} = {}; a cluster needs {}. Delete the consumer on a NATS server and repeat the command",
        .difference.setting, .difference.value, .difference.expected
    )]
    ConsumerDiffers {
        /// Name of the stream.
        stream: String,
        /// Name of the consumer.
        consumer: String,
        /// The first setting that differs.
        difference: SettingDifference,
    },
    /// Request that failed otherwise.
    #[error("cannot set up stream {stream}: {reason}")]
    Request {
        /// Name of the stream.
        stream: String,
        /// Answer of the NATS server.
        reason: String,
    },
}

/// Result of setting up one stream, or result that it would have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AppliedStream {
    /// The stream was created.
    Created(String),
    /// The stream was there with the right settings.
    Kept(String),
    /// The stream was there and is stored on another number of NATS servers now.
    Replicated(String),
    /// The stream was there without its consumer, which was created.
    Completed(String),
}

/// Creates the streams of a cluster, or checks the settings of those that exist.
///
/// # Errors
///
/// Fails without a connection, without JetStream, and for a stream that has other settings.
pub async fn apply_streams(site: &ClusterSite) -> Result<Vec<AppliedStream>, StreamSetupError> {
    let client = administrator(site).await?;
    let subjects = ClusterSubjects::new(site.name.clone());
    let mut applied = Vec::new();
    for stream in ClusterStream::ALL {
        let mut config = stream.config(&subjects, site.replicas());
        if stream != ClusterStream::Members {
            applied.push(apply(&client, config).await?);
            continue;
        }
        config.first_sequence = first_sequence();
        let stream = apply(&client, config).await?;
        applied.push(apply_consumer(&client, &subjects, stream).await?);
    }
    Ok(applied)
}

/// Checks the streams of a cluster, and returns what [`apply_streams`] would do.
///
/// # Errors
///
/// Fails without a connection, without JetStream, and for a stream that has other settings.
pub async fn plan_streams(site: &ClusterSite) -> Result<Vec<AppliedStream>, StreamSetupError> {
    let client = administrator(site).await?;
    let subjects = ClusterSubjects::new(site.name.clone());
    let mut planned = Vec::new();
    for stream in ClusterStream::ALL {
        let config = stream.config(&subjects, site.replicas());
        let found = find(&client, &config).await?;
        let name = config.name;
        let plan = match found {
            FoundStream::Missing => AppliedStream::Created(name),
            FoundStream::OtherReplicas => AppliedStream::Replicated(name),
            FoundStream::Fit => AppliedStream::Kept(name),
        };
        let has_consumer = stream == ClusterStream::Members && found != FoundStream::Missing;
        if !has_consumer {
            planned.push(plan);
            continue;
        }
        let lacking = stream_without_consumer(&client, &subjects).await?;
        planned.push(match (lacking, plan) {
            (Some(_), AppliedStream::Kept(name)) => AppliedStream::Completed(name),
            (_, plan) => plan,
        });
    }
    Ok(planned)
}

/// Checks the consumer of the stream of members. Returns the stream if it has none.
async fn stream_without_consumer(
    client: &Client,
    subjects: &ClusterSubjects,
) -> Result<Option<Stream<()>>, StreamSetupError> {
    let name = subjects.stream_name(ClusterStream::Members);
    let context = jetstream::new(client.clone());
    let stream = context.get_stream_no_info(&name).await;
    let stream = stream.map_err(|error| failed(&name, &error))?;
    let found = sequenced::find(&stream, subjects).await;
    match found.map_err(|reason| failed(&name, &reason))? {
        FoundConsumer::Fit => Ok(None),
        FoundConsumer::Missing => Ok(Some(stream)),
        FoundConsumer::Differs(difference) => Err(StreamSetupError::ConsumerDiffers {
            stream: name,
            consumer: SEQUENCED.to_owned(),
            difference,
        }),
    }
}

/// Creates the consumer of the stream of members, or checks the settings of the one that exists.
async fn apply_consumer(
    client: &Client,
    subjects: &ClusterSubjects,
    applied: AppliedStream,
) -> Result<AppliedStream, StreamSetupError> {
    let Some(stream) = stream_without_consumer(client, subjects).await? else {
        return Ok(applied);
    };
    let created = sequenced::create(&stream, subjects).await;
    let name = subjects.stream_name(ClusterStream::Members);
    created.map_err(|reason| failed(&name, &reason))?;
    Ok(match applied {
        AppliedStream::Kept(name) => AppliedStream::Completed(name),
        other => other,
    })
}

/// Stream as it was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundStream {
    Fit,
    /// The number of NATS servers that store it is another one.
    OtherReplicas,
    Missing,
}

/// Looks for a stream, and checks its settings.
async fn find(client: &Client, config: &Config) -> Result<FoundStream, StreamSetupError> {
    let context = jetstream::new(client.clone());
    let stream = &config.name;
    let error = match context.get_stream(stream).await {
        Ok(found) => {
            let found = &found.cached_info().config;
            return match difference(found, config) {
                Some(difference) => Err(StreamSetupError::Differs {
                    stream: stream.clone(),
                    difference,
                }),
                None if found.num_replicas == config.num_replicas => Ok(FoundStream::Fit),
                None => Ok(FoundStream::OtherReplicas),
            };
        }
        Err(error) => error,
    };
    match error.kind() {
        GetStreamErrorKind::JetStream(refusal)
            if refusal.error_code() == ErrorCode::STREAM_NOT_FOUND =>
        {
            Ok(FoundStream::Missing)
        }
        kind if lacks_jetstream(&kind, &error) => Err(StreamSetupError::NoJetStream),
        _ => Err(failed(stream, &error)),
    }
}

async fn apply(client: &Client, config: Config) -> Result<AppliedStream, StreamSetupError> {
    let context = jetstream::new(client.clone());
    let stream = config.name.clone();
    match find(client, &config).await? {
        FoundStream::Fit => Ok(AppliedStream::Kept(stream)),
        FoundStream::OtherReplicas => match context.update_stream(&config).await {
            Ok(_) => Ok(AppliedStream::Replicated(stream)),
            Err(error) => Err(failed(&stream, &error)),
        },
        FoundStream::Missing => match context.create_stream(config).await {
            Ok(_) => Ok(AppliedStream::Created(stream)),
            Err(error) if is_without_jetstream(&error.kind()) => Err(StreamSetupError::NoJetStream),
            Err(error) => Err(failed(&stream, &error)),
        },
    }
}

fn failed(stream: &str, reason: &dyn Display) -> StreamSetupError {
    StreamSetupError::Request {
        stream: stream.to_owned(),
        reason: reason.to_string(),
    }
}

/// Returns the first position of a stream that is made now: the seconds since 1970. So positions, which
/// are the numbers of servers, are greater than those of a stream that was lost.
fn first_sequence() -> Option<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.ok().map(|since| since.as_secs())
}

fn is_without_jetstream(kind: &CreateStreamErrorKind) -> bool {
    matches!(kind, CreateStreamErrorKind::JetStreamUnavailable)
}

/// Returns true if a request for a stream failed for want of JetStream.
pub(crate) fn lacks_jetstream(
    kind: &GetStreamErrorKind,
    error: &jetstream::context::GetStreamError,
) -> bool {
    match kind {
        GetStreamErrorKind::JetStream(refusal) => [
            ErrorCode::JETSTREAM_NOT_ENABLED,
            ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT,
        ]
        .contains(&refusal.error_code()),
        // Without JetStream nothing listens to its requests.
        GetStreamErrorKind::Request => std::error::Error::source(error)
            .and_then(|source| source.downcast_ref::<jetstream::context::RequestError>())
            .is_some_and(|request| {
                request.kind() == jetstream::context::RequestErrorKind::NoResponders
            }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "this is test code")]
    use super::*;

    #[test]
    fn difference_names_setting_with_both_values() {
        let subjects = ClusterSubjects::new("site".parse().unwrap());
        for stream in ClusterStream::ALL {
            let expected = stream.config(&subjects, 1);
            assert_eq!(difference(&expected, &expected), None);
            assert_eq!(difference(&stream.config(&subjects, 3), &expected), None);
            let direct = Config {
                allow_direct: true,
                ..expected.clone()
            };
            let found = difference(&direct, &expected).unwrap();
            assert_eq!(
                (found.setting, found.value.as_str(), found.expected.as_str()),
                ("allow_direct", "true", "false")
            );
        }
        let members = ClusterStream::Members.config(&subjects, 1);
        // A message with a schedule is published under a subject that its sender names.
        let scheduling = Config {
            allow_message_schedules: true,
            ..members.clone()
        };
        let found = difference(&scheduling, &members).unwrap();
        assert_eq!(found.setting, "allow_message_schedules");
        let seals = ClusterStream::Seals.config(&subjects, 1);
        let expiring = Config {
            allow_message_ttl: true,
            ..seals.clone()
        };
        let found = difference(&expiring, &seals).unwrap();
        assert_eq!(found.setting, "allow_message_ttl");
        let erasable = Config {
            deny_purge: false,
            ..seals.clone()
        };
        assert_eq!(difference(&erasable, &seals).unwrap().setting, "deny_purge");
    }
}
