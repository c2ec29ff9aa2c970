//! The servers of a cluster, without I/O: their membership, the versioned codec of their messages, and
//! links over a network that may lose, repeat and reorder what it carries.
//!
//! A link numbers the messages of one server to another ([`LinkStream::Pair`]) and those to all
//! ([`LinkStream::All`]). The receiver delivers each message once and in order, asks for those that
//! are missing, and counts those that the sender does not keep any more.
mod frame;
mod link;
mod links;
mod liveness;
mod membership;
mod message;
mod received;
mod retry;
mod sent;
mod version;

pub use frame::{FrameContents, FrameRefusal, LinkStream, ServerFrame};
pub use link::PeerCounts;
pub use links::{LinkOutput, LinkSettings, Links, Recipient, UnknownServer};
pub use liveness::{Liveness, LivenessSettings};
pub use membership::{
    ClusterMember, JoiningServer, Membership, MembershipChange, MembershipRecord, RecordPosition,
    RecordRefusal,
};
pub use message::{decode_message, encode_message};
pub use received::ReceivedMessages;
pub use sent::{MessageRange, MessageSeq, SentMessages, StreamLimits, WindowFull};
pub use version::ProtocolVersion;
