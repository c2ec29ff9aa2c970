//! The servers of a cluster, without I/O: their membership, the versioned codec of their messages, and
//! links over a network that may lose, repeat and reorder what it carries.
//!
//! A link numbers the messages of one server to another, and the sender keeps each until the receiver
//! has acknowledged it. The receiver delivers each message once and in order, and asks for those that
//! are missing.
mod asks;
mod backlog;
mod deployment;
mod frame;
mod handed;
mod in_process;
mod link;
mod links;
mod liveness;
mod membership;
mod message;
mod output;
mod received;
mod retry;
mod seals;
mod sent;
mod server;
mod transport;
mod version;

pub use asks::{
    AnswerFrame, AnswerParts, AskFailure, AskFrame, AskFrameError, MAX_ANSWER, MAX_ASK,
    answer_frames,
};
pub use deployment::{
    AbandonedRollout, ClusterDeployment, ClusterModule, ClusterModuleSet, DeployedSet,
    DeploymentOutput, DeploymentRecord, MAX_DEPLOYMENT_RECORD, MAX_KEPT_SETS, MAX_SET_BYTES,
    MAX_SET_MODULES, NodeReport, ObjectId, PendingRecord, PreparedSet, ProposalError, RolloutStage,
    RolloutTerms, SetAnswer, SetError, SetNumber, SetProposal, SetRollout, WriteResult,
    canary_nodes,
};
pub use frame::{FrameContents, FrameRefusal, MessagePart, ServerFrame};
pub use handed::{ContinuedMembership, HandedMembership, HandedMembershipError};
pub use in_process::InProcessNetwork;
pub use links::{LinkOutput, LinkSettings, Links, MisdirectedFrame};
pub use liveness::{HeardServers, Liveness, LivenessSettings};
pub use membership::{
    ClusterMember, JoiningServer, Membership, MembershipChange, MembershipRecord, RecordPosition,
    RecordRefusal,
};
pub use message::{decode_message, decode_record, encode_message, encode_record};
pub use output::{ClusterOutput, ClusterWarning, ServerNotice};
pub use received::ReceivedMessages;
pub use seals::{SealCounts, SealLimits, SealOutbox, TrailSeal};
pub use sent::{MessageRange, MessageSeq, SentMessages, SentPart, StreamLimits, WindowFull};
pub use server::{ClusterServer, ClusterServerSettings};
pub use transport::{
    JoinedServer, LeaveFuture, RefusedSender, ServerKind, ServerNetwork, ServerTransport,
};
pub use version::ProtocolVersion;
