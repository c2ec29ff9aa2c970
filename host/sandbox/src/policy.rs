//! What goes into a call of a policy or a log channel and what comes out.
use crate::bindings::peal::pmix::types::PolicyOutcome as WitOutcome;
use crate::instance::CompletedCall;
use crate::instance_state::CallOutput;
use crate::text::{MAX_QUOTED, plain};
use crate::{CallFailure, CallSubject, CallUsage, Module, Role};
use peal_model::{
    Amendment, ChainResult, Info, Key, LogRequest, Mail, PolicyOutcome, PolicyRequest, Status, code,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One request for one policy. Cheap to clone: what is large is shared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyCall {
    /// The number of the request in its server, for records; 0 where nobody counts.
    pub number: u64,
    /// What is asked. Its directives, or infos where it has none, are as the policies before amended them.
    pub request: Arc<PolicyRequest>,
    /// What those before in the chain said, oldest first.
    pub steps: Arc<Vec<ChainResult>>,
}

/// What a policy said.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyResult {
    /// Its outcome, or how it failed.
    pub outcome: Result<PolicyOutcome, CallFailure>,
    /// What it pushed: its reasons. Nothing if it failed.
    pub infos: Vec<Info>,
    /// How it changes the request; not at all if it failed or denied.
    pub amendment: Amendment,
    /// What it has used.
    pub usage: CallUsage,
}

/// One request for one log channel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChannelCall {
    /// The channel that is meant; a module may be several.
    pub channel: Key,
    /// What is to be written.
    pub request: Arc<LogRequest>,
    /// What became of the channels tried before.
    pub steps: Arc<Vec<ChainResult>>,
}

/// What a log channel did.
#[derive(Clone, PartialEq, Debug)]
pub struct ChannelResult {
    /// What it returned, or how it failed (`PEAL_ERR_MODULE_...`).
    pub status: Status,
    /// What it pushed; nothing if it failed.
    pub infos: Vec<Info>,
    /// How it failed, if it did.
    pub failure: Option<CallFailure>,
    /// What it has used.
    pub usage: CallUsage,
}

/// Where a channel's output goes: something that the admin named and opened. Called on a guest thread, which it may block
/// for a short while; its time is accounted to the call's host time.
pub trait Sink: Send + Sync {
    /// Writes all of it for this request, or says with which status it could not.
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status>;

    /// Takes a mail for this request. Most sinks take none.
    fn submit(&self, _request: &LogRequest, _mail: Mail) -> Result<(), Status> {
        Err(code::PMIX_ERR_NOT_SUPPORTED)
    }
}

impl Module {
    /// Asks a policy and waits for what it says. Blocks the thread: run chains on a [`crate::GuestPool`].
    ///
    /// As with [`Module::handle`], whatever goes wrong is a result as well: what it counts as is up to who asks.
    pub fn decide(&self, call: &PolicyCall) -> PolicyResult {
        let hook = call.request.matter.hook();
        let decided = match Role::policy(hook) {
            Some(role) => {
                let asker = call.request.requester.as_ref();
                self.call(role, asker, |instance| instance.decide(call))
            }
            None => Err(CallFailure::unavailable(format!(
                "there are no policies for the hook {hook}"
            ))),
        };
        match decided {
            Ok(CompletedCall {
                answer: outcome,
                output: CallOutput {
                    infos, amendment, ..
                },
                usage,
            }) => {
                let outcome = PolicyOutcome::from(outcome);
                let denies = matches!(outcome, PolicyOutcome::Deny(_));
                let amendment = if denies {
                    Amendment::default()
                } else {
                    amendment
                };
                PolicyResult {
                    outcome: Ok(outcome),
                    infos,
                    amendment,
                    usage,
                }
            }
            Err(failure) => {
                self.not_called(&failure, || CallSubject::Policy(call.clone()));
                self.report(&failure, &format!("{hook} request"));
                let (usage, infos, amendment) = (failure.usage, Vec::new(), Amendment::default());
                PolicyResult {
                    outcome: Err(failure),
                    infos,
                    amendment,
                    usage,
                }
            }
        }
    }

    /// Whether a log channel can be written to. Blocks the thread.
    ///
    /// It is asked with a request without data: where it has nothing to write to it answers `PMIX_ERR_NOT_AVAILABLE`, else that such a
    /// request says nothing. Its sinks take nothing for that.
    pub fn has_channel(&self, channel: &Key) -> bool {
        let (data, directives) = (Vec::new(), Vec::new());
        let request = LogRequest {
            source: None,
            identity: None,
            timestamp: None,
            data,
            directives,
        };
        let call = ChannelCall {
            channel: channel.clone(),
            request: Arc::new(request),
            steps: Arc::default(),
        };
        let answer = self.log(&call);
        // One that fails is there.
        answer.failure.is_some() || answer.status != code::PMIX_ERR_NOT_AVAILABLE
    }

    /// Has a log channel write and waits for what became of it. Blocks the thread: run chains on a [`crate::GuestPool`].
    ///
    /// As with [`Module::handle`], whatever goes wrong is a result as well. What was written before stays written.
    pub fn log(&self, call: &ChannelCall) -> ChannelResult {
        match self.call(Role::LogChannel, call.request.source.as_ref(), |instance| {
            instance.log(call)
        }) {
            Ok(CompletedCall {
                answer: status,
                output,
                usage,
            }) => ChannelResult {
                status,
                infos: output.infos,
                failure: None,
                usage,
            },
            Err(failure) => {
                self.not_called(&failure, || CallSubject::Log(call.clone()));
                self.report(
                    &failure,
                    &format!("log channel {}", plain(call.channel.as_str(), MAX_QUOTED)),
                );
                let (status, usage) = (failure.kind.status(), failure.usage);
                ChannelResult {
                    status,
                    infos: Vec::new(),
                    failure: Some(failure),
                    usage,
                }
            }
        }
    }
}

impl From<WitOutcome> for PolicyOutcome {
    fn from(outcome: WitOutcome) -> PolicyOutcome {
        match outcome {
            WitOutcome::Pass => PolicyOutcome::Pass,
            WitOutcome::Grant => PolicyOutcome::Grant,
            // Whoever is told of success believes in it.
            WitOutcome::Deny(0..) => PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS),
            WitOutcome::Deny(status) if Status(status) == code::PMIX_OPERATION_SUCCEEDED => {
                PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS)
            }
            WitOutcome::Deny(status) => PolicyOutcome::Deny(Status(status)),
        }
    }
}
