//! Objects of a cluster: bytes named by their digest, stored in parts under the name of the node that
//! stores them. A reader compares them with the digest, so no node can pass off others.
use crate::{
    records::READ_TIMEOUT,
    streams::{ClusterStream, MAX_PART},
    subjects::ClusterSubjects,
};
use async_nats::{
    Client,
    jetstream::{
        self, Context,
        stream::{LastRawMessageErrorKind, Stream},
    },
};
use futures_util::{StreamExt, stream::FuturesOrdered};
use peal_cluster::{ClusterModuleSet, ObjectId};
use peal_model::NodeName;
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::time::timeout;

/// Maximum size of an object, in bytes: that of a component.
pub const MAX_OBJECT_BYTES: usize = 64 << 20;
/// Parts that are under way at the same time.
const MAX_PARTS_UNDER_WAY: usize = 8;

/// Error for an object.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// Object beyond the limit.
    #[error("object has {size} bytes; the limit is {MAX_OBJECT_BYTES}")]
    TooLarge {
        /// Number of bytes.
        size: u64,
    },
    /// Object that no source has stored whole.
    #[error("object {object} is not in the cluster's store of objects")]
    Missing {
        /// Name of the object.
        object: ObjectId,
    },
    /// Object of another form.
    #[error("{reason}")]
    Unreadable {
        /// Reason.
        reason: String,
    },
    /// Request that failed otherwise.
    #[error("store of objects: {reason}")]
    Request {
        /// Answer of the NATS server.
        reason: String,
    },
}

/// Returns the name of an object.
pub fn object_id(bytes: &[u8]) -> ObjectId {
    ObjectId {
        digest: Sha256::digest(bytes).into(),
        size: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
    }
}

/// Reads an object that is a module set.
pub(super) fn module_set(bytes: &[u8]) -> Result<ClusterModuleSet, ObjectError> {
    ClusterModuleSet::decode(bytes).map_err(|error| ObjectError::Unreadable {
        reason: error.to_string(),
    })
}

/// Access of a node to the store of objects.
pub(crate) struct ObjectStore {
    context: Context,
    subjects: ClusterSubjects,
    node: NodeName,
}

impl ObjectStore {
    pub(crate) fn new(client: &Client, subjects: &ClusterSubjects, node: &NodeName) -> ObjectStore {
        ObjectStore {
            context: jetstream::new(client.clone()),
            subjects: subjects.clone(),
            node: node.clone(),
        }
    }

    /// Stores an object.
    pub(crate) async fn store(&self, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        let id = object_id(bytes);
        check_size(&id)?;
        let mut under_way = FuturesOrdered::new();
        for (part, bytes) in (0..).zip(bytes.chunks(MAX_PART)) {
            let subject = self.subjects.object_part(&self.node, &id, part);
            under_way.push_back(self.store_part(subject, bytes.to_vec()));
            if under_way.len() >= MAX_PARTS_UNDER_WAY
                && let Some(stored) = under_way.next().await
            {
                stored?;
            }
        }
        while let Some(stored) = under_way.next().await {
            stored?;
        }
        Ok(id)
    }

    async fn store_part(&self, subject: String, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let stored = async { self.context.publish(subject, bytes.into()).await?.await };
        match timeout(READ_TIMEOUT, stored).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("no answer".to_owned())),
        }
    }

    /// Fetches an object from the first of these nodes that has stored it whole.
    pub(crate) async fn fetch(
        &self,
        id: &ObjectId,
        sources: &[NodeName],
    ) -> Result<Vec<u8>, ObjectError> {
        check_size(id)?;
        let name = self.subjects.stream_name(ClusterStream::Objects);
        let stream = match timeout(READ_TIMEOUT, self.context.get_stream_no_info(&name)).await {
            Ok(stream) => stream.map_err(|error| failed(error.to_string()))?,
            Err(_) => return Err(failed("no answer".to_owned())),
        };
        for node in sources {
            let found = self.fetch_from(&stream, id, node).await?;
            if let Some(bytes) = found.filter(|bytes| object_id(bytes) == *id) {
                return Ok(bytes);
            }
        }
        Err(ObjectError::Missing { object: *id })
    }

    /// Fetches what a node has stored under the name of an object; `None` if a part is missing or there is
    /// more than the object has.
    async fn fetch_from(
        &self,
        stream: &Stream<()>,
        id: &ObjectId,
        node: &NodeName,
    ) -> Result<Option<Vec<u8>>, ObjectError> {
        let size = usize::try_from(id.size).unwrap_or(usize::MAX);
        let count = u64::try_from(size.div_ceil(MAX_PART)).unwrap_or(u64::MAX);
        let mut next = 0;
        let mut under_way = FuturesOrdered::new();
        let mut bytes = Vec::new();
        loop {
            while under_way.len() < MAX_PARTS_UNDER_WAY && next < count {
                let subject = self.subjects.object_part(node, id, next);
                under_way.push_back(fetch_part(stream, subject));
                next += 1;
            }
            let Some(part) = under_way.next().await else {
                return Ok(Some(bytes));
            };
            let Some(part) = part? else {
                return Ok(None);
            };
            if bytes.len() + part.len() > size {
                return Ok(None);
            }
            bytes.extend(part);
        }
    }
}

/// Reads one part; `None` if it is missing.
async fn fetch_part(stream: &Stream<()>, subject: String) -> Result<Option<Vec<u8>>, ObjectError> {
    let read = stream.get_last_raw_message_by_subject(&subject);
    match timeout(READ_TIMEOUT, read).await {
        Ok(Ok(message)) => Ok(Some(message.payload.to_vec())),
        Ok(Err(error)) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("no answer".to_owned())),
    }
}

fn check_size(id: &ObjectId) -> Result<(), ObjectError> {
    if id.size > MAX_OBJECT_BYTES as u64 {
        return Err(ObjectError::TooLarge { size: id.size });
    }
    Ok(())
}

fn failed(reason: String) -> ObjectError {
    ObjectError::Request { reason }
}
