//! Messages between servers.
use crate::{group::GroupMessage, server::ModexMessage, server_fences::FenceMessage};

/// A message from one server to another. Messages of one server to another arrive in order.
#[derive(Clone, PartialEq, Debug)]
pub enum InterServerMessage {
    /// About jobs and groups.
    Group(GroupMessage),
    /// About a fence.
    Fence(FenceMessage),
    /// About values that procs have put.
    Modex(ModexMessage),
}
