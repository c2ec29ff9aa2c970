//! Results of the calls of a server of a cluster: work for the network and the server, and warnings.
use crate::{
    FrameRefusal, HeardServers, MembershipRecord, MisdirectedFrame, ProtocolVersion,
    RecordPosition, RecordRefusal, RefusedSender, ServerKind,
};
use peal_core::{group::ServerId, server::InterServerMessage};
use peal_frames::CodecError;
use peal_model::NodeName;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// Result of a call of [`ClusterServer`](crate::ClusterServer), to be carried out in order.
#[derive(Debug)]
pub enum ClusterOutput {
    /// Transmits a frame to the server of a node.
    Transmit {
        /// The node.
        to: NodeName,
        /// The encoded frame.
        frame: Vec<u8>,
    },
    /// Writes a record to the sequence, once, as long as the network is reached.
    Write(MembershipRecord),
    /// Publishes a beat.
    Beat,
    /// Hears the beats of these servers, instead of those before.
    Hear(HeardServers),
    /// Passes something to the server.
    Tell(ServerNotice),
    /// Counts and traces something that is wrong.
    Warn(ClusterWarning),
}

/// Something for the server: a call of [`JoinedServer`](crate::JoinedServer).
#[derive(Debug, Serialize, Deserialize)]
pub enum ServerNotice {
    /// Its number.
    Enrolled(ServerId),
    /// Another server that is there.
    Joined {
        /// Its number.
        id: ServerId,
        /// Its service for the others.
        kind: ServerKind,
    },
    /// Another server that has left.
    Left(ServerId),
    /// A message. One for which there is no room goes back by [`ClusterServer::refused`](crate::ClusterServer::refused).
    Message {
        /// The sender.
        from: ServerId,
        /// The message.
        message: InterServerMessage,
    },
    /// A message of a server that has left, which is followed by the report of that.
    LastMessage {
        /// The sender.
        from: ServerId,
        /// The message.
        message: InterServerMessage,
    },
}

/// Something that an administrator may have to look at.
#[derive(Debug, Error)]
pub enum ClusterWarning {
    /// Bytes of a node that are no frame of this version.
    #[error("node {node}: {refusal}")]
    Frame {
        /// The node.
        node: NodeName,
        /// The reason.
        refusal: FrameRefusal,
    },
    /// A frame of a node that names the server of another node as its sender.
    #[error("node {node} sent a frame of server {}, which is not its own", .sender.0)]
    ForeignSender {
        /// The node.
        node: NodeName,
        /// The sender that the frame names.
        sender: ServerId,
    },
    /// A frame for another server than this one.
    #[error("node {node}: {refusal}")]
    Misdirected {
        /// The node.
        node: NodeName,
        /// The reason.
        refusal: MisdirectedFrame,
    },
    /// A message that cannot be decoded.
    #[error("message of server {}: {cause}", .from.0)]
    Message {
        /// The sender.
        from: ServerId,
        /// The reason.
        cause: CodecError,
    },
    /// A message of another server that is too long.
    #[error("message of server {} has {bytes} bytes; a message may have {max}", .from.0)]
    TooLong {
        /// The sender.
        from: ServerId,
        /// Its length.
        bytes: usize,
        /// The greatest length.
        max: usize,
    },
    /// A message of this server that cannot be encoded.
    #[error("message for other servers: {0}")]
    Encoding(CodecError),
    /// Bytes in the sequence that are no record.
    #[error("record {} of node {node}: {cause}", .at.0)]
    Record {
        /// The writer.
        node: NodeName,
        /// The position.
        at: RecordPosition,
        /// The reason.
        cause: CodecError,
    },
    /// A record that changes nothing.
    #[error("node {node}: {refusal}")]
    RecordRefused {
        /// The writer.
        node: NodeName,
        /// The reason.
        refusal: RecordRefusal,
    },
    /// A server with another protocol. This one exchanges nothing with it.
    #[error(
        "server {} of node {node} speaks version {major}.{minor} of the protocol between servers; this server understands {}.x",
        .id.0,
        ProtocolVersion::CURRENT.major
    )]
    Incompatible {
        /// The server.
        id: ServerId,
        /// Its node.
        node: NodeName,
        /// Major version of its protocol.
        major: u8,
        /// Minor version of its protocol.
        minor: u8,
    },
    /// This server was stopped or had no processor for this time.
    #[error(
        "this server was held up for {} ms, and declares no other one gone for a while",
        .0.as_millis()
    )]
    HeldUp(Duration),
    /// This server was declared gone, and joins again.
    #[error("other servers have declared this one gone; it joins again")]
    DeclaredGone,
    /// The network has lost the sequence.
    #[error("the stream of members was made anew; all servers join again")]
    SequenceLost,
    /// Another process has joined with the key of this node. This server stays away.
    #[error(
        "another process has joined as node {0}; this server stays alone until it is started again"
    )]
    Superseded(NodeName),
}

impl ClusterWarning {
    /// Returns the sender of what was refused; `None` for a warning about something else.
    pub fn refused_sender(&self) -> Option<RefusedSender> {
        match self {
            ClusterWarning::Frame { node, .. }
            | ClusterWarning::ForeignSender { node, .. }
            | ClusterWarning::Record { node, .. }
            | ClusterWarning::RecordRefused { node, .. } => Some(RefusedSender::Node(node.clone())),
            ClusterWarning::Message { from, .. } | ClusterWarning::TooLong { from, .. } => {
                Some(RefusedSender::Server(*from))
            }
            // After a server has left, frames of it may still be on their way.
            ClusterWarning::Misdirected { .. }
            | ClusterWarning::Encoding(_)
            | ClusterWarning::Incompatible { .. }
            | ClusterWarning::HeldUp(_)
            | ClusterWarning::DeclaredGone
            | ClusterWarning::SequenceLost
            | ClusterWarning::Superseded(_) => None,
        }
    }
}
