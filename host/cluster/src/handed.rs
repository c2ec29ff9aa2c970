//! Place of a server in its cluster as bytes, with which another process of the server goes on.
use crate::{ClusterServer, ClusterServerSettings};
use peal_core::MonotonicTime;
use peal_model::NodeName;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Place of a server in its cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandedMembership(#[serde(with = "serde_bytes")] Vec<u8>);

/// Reason for which a place in a cluster cannot be handed over or continued.
#[derive(Debug, Error)]
pub enum HandedMembershipError {
    /// It cannot be encoded.
    #[error("the place in the cluster cannot be encoded: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The bytes are none.
    #[error("the place in the cluster cannot be read: {0}")]
    Decode(#[from] rmp_serde::decode::Error),
    /// It is the place of another node.
    #[error(
        "the running server is node {found} of its cluster, the configuration names node {wanted}"
    )]
    OtherNode {
        /// Node of the running server.
        found: NodeName,
        /// Node of the configuration.
        wanted: NodeName,
    },
}

/// Server of a cluster at a time of its clock.
#[derive(Serialize)]
struct EncodedServer<'a> {
    clock: MonotonicTime,
    server: &'a ClusterServer,
}

/// Server of a cluster that another process had.
#[derive(Debug, Deserialize)]
pub struct ContinuedMembership {
    /// Time of its clock, which goes on.
    pub clock: MonotonicTime,
    server: ClusterServer,
}

impl HandedMembership {
    /// Encodes the server.
    ///
    /// # Errors
    ///
    /// Fails if a part of it cannot be encoded.
    pub fn of(
        server: &ClusterServer,
        clock: MonotonicTime,
    ) -> Result<HandedMembership, HandedMembershipError> {
        let bytes = rmp_serde::to_vec_named(&EncodedServer { clock, server })?;
        Ok(HandedMembership(bytes))
    }

    /// Decodes the server of this node.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no server, or one of another node.
    pub fn read(&self, node: &NodeName) -> Result<ContinuedMembership, HandedMembershipError> {
        let continued: ContinuedMembership = rmp_serde::from_slice(&self.0)?;
        let found = continued.server.node();
        if found != node {
            return Err(HandedMembershipError::OtherNode {
                found: found.clone(),
                wanted: node.clone(),
            });
        }
        Ok(continued)
    }
}

impl ContinuedMembership {
    /// Returns the number by which records of the process are known, which this one goes on with.
    pub fn run(&self) -> u64 {
        self.server.joining().run
    }

    /// Returns the server with these settings.
    pub fn server(self, settings: ClusterServerSettings) -> ClusterServer {
        self.server.continued(settings)
    }
}
