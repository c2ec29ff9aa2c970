//! Seals of audit trails as the stream has them.
use crate::{link::NatsLink, streams::ClusterStream, subjects::ClusterSubject};
use async_nats::jetstream::{
    self,
    stream::{RawMessageErrorKind, Stream},
};
use futures_util::{TryStreamExt, future::try_join_all};
use peal_model::NodeName;
use std::{collections::BTreeMap, time::SystemTime};
use thiserror::Error;

/// Reads of the stream that go on at the same time: each answer takes the time of a journey.
const READS: u64 = 8;

/// Error of reading the stream of seals.
#[derive(Debug, Error)]
#[error("stream {stream}: {reason}")]
pub struct SealReadError {
    stream: String,
    reason: String,
}

/// Message of a node in the stream of seals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSeal {
    /// Time at which the NATS server stored it.
    pub stored: SystemTime,
    /// Text that the node sent.
    pub line: String,
}

/// Reads the number of seals of each node that has some.
///
/// # Errors
///
/// Fails if the stream cannot be read.
pub async fn sealed_nodes(link: &NatsLink) -> Result<BTreeMap<NodeName, u64>, SealReadError> {
    let (name, stream) = stream(link).await?;
    let failed = |reason: String| SealReadError {
        stream: name.clone(),
        reason,
    };
    let mut subjects = stream
        .info_with_subjects(">")
        .await
        .map_err(|error| failed(error.to_string()))?;
    let mut nodes = BTreeMap::new();
    while let Some((subject, count)) = subjects
        .try_next()
        .await
        .map_err(|error| failed(error.to_string()))?
    {
        if let Ok(ClusterSubject::Seal { node }) = link.subjects.parse(&subject) {
            nodes.insert(node, u64::try_from(count).unwrap_or(u64::MAX));
        }
    }
    Ok(nodes)
}

/// Reads the seals of a node that were stored at a time or later, in order.
///
/// # Errors
///
/// Fails if the stream cannot be read.
pub async fn read_seals(
    link: &NatsLink,
    node: &NodeName,
    since: Option<SystemTime>,
) -> Result<Vec<StoredSeal>, SealReadError> {
    let (name, stream) = stream(link).await?;
    let state = &stream.cached_info().state;
    let (first, end) = (state.first_sequence, state.last_sequence.saturating_add(1));
    let subject = link
        .subjects
        .text(&ClusterSubject::Seal { node: node.clone() });
    let step = end.saturating_sub(first).div_ceil(READS).max(1);
    let ranges = (0..READS).map(|place| {
        let from = first.saturating_add(place.saturating_mul(step)).min(end);
        read_range(&stream, &subject, from..from.saturating_add(step).min(end))
    });
    let read = try_join_all(ranges).await.map_err(|reason| SealReadError {
        stream: name,
        reason,
    })?;
    let is_wanted = |seal: &StoredSeal| since.is_none_or(|since| seal.stored >= since);
    Ok(read.into_iter().flatten().filter(is_wanted).collect())
}

/// Reads the messages of a subject in a range of the stream.
async fn read_range(
    stream: &Stream,
    subject: &str,
    range: std::ops::Range<u64>,
) -> Result<Vec<StoredSeal>, String> {
    let mut seals = Vec::new();
    let mut next = range.start;
    while next < range.end {
        let read = stream.get_first_raw_message_by_subject(subject, next);
        match read.await {
            Ok(message) if message.sequence < range.end => {
                seals.push(StoredSeal {
                    stored: SystemTime::from(message.time),
                    line: String::from_utf8_lossy(&message.payload).into_owned(),
                });
                next = message.sequence.saturating_add(1);
            }
            Ok(_) => break,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(seals)
}

async fn stream(link: &NatsLink) -> Result<(String, Stream), SealReadError> {
    let name = link.subjects.stream_name(ClusterStream::Seals);
    match jetstream::new(link.client.clone()).get_stream(&name).await {
        Ok(stream) => Ok((name, stream)),
        Err(error) => Err(SealReadError {
            reason: error.to_string(),
            stream: name,
        }),
    }
}
