//! What goes into a call of a policy or a log channel and what comes out.
use crate::{Failure, Module};
use peal_model::{Info, Key, LogRequest, PolicyOutcome, PolicyRequest, Status, Step};
use std::sync::Arc;

/// One request for one policy. Cheap to clone: what is large is shared.
#[derive(Clone, Debug)]
pub struct PolicyCall {
    /// What is asked. Its directives, or infos where it has none, are as the policies before amended them.
    pub request: Arc<PolicyRequest>,
    /// What those before in the chain said, oldest first.
    pub steps: Arc<Vec<Step>>,
}

/// What a policy said.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyResult {
    /// Its outcome, or how it failed.
    pub outcome: Result<PolicyOutcome, Failure>,
    /// What it pushed: its reasons. Nothing if it failed.
    pub infos: Vec<Info>,
    /// The directives (of an event the infos) as it wants them; none where it leaves them. None if it failed or denied.
    pub amended: Option<Vec<Info>>,
}

/// One request for one log channel.
#[derive(Clone, Debug)]
pub struct ChannelCall {
    /// The channel that is meant; a module may be several.
    pub channel: Key,
    /// What is to be written.
    pub request: Arc<LogRequest>,
    /// What became of the channels tried before.
    pub steps: Arc<Vec<Step>>,
}

/// What a log channel did.
#[derive(Clone, PartialEq, Debug)]
pub struct ChannelResult {
    /// What it returned, or how it failed (`PEAL_ERR_HANDLER_...`).
    pub status: Status,
    /// What it pushed; nothing if it failed.
    pub infos: Vec<Info>,
    /// How it failed, if it did.
    pub failure: Option<Failure>,
}

/// Where a channel's output goes: something that the admin named and opened. Called on a guest thread, which it may block
/// for a short while; its time is accounted to the call's host time.
pub trait Sink: Send + Sync {
    /// Writes all of it for this request, or says with which status it could not.
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status>;
}

impl Module {
    /// Asks a policy and waits for what it says. Blocks the thread: run chains on a [`crate::GuestPool`].
    pub fn decide(&self, _call: &PolicyCall) -> PolicyResult {
        PolicyResult {
            outcome: Err(Failure::unavailable("policies are not served yet")),
            infos: Vec::new(),
            amended: None,
        }
    }

    /// Has a log channel write and waits for what became of it. Blocks the thread: run chains on a [`crate::GuestPool`].
    pub fn log(&self, _call: &ChannelCall) -> ChannelResult {
        let failure = Failure::unavailable("log channels are not served yet");
        ChannelResult { status: failure.kind.status(), infos: Vec::new(), failure: Some(failure) }
    }
}
