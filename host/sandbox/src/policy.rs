//! Arguments and results of calls of policies and log channels.
use crate::bindings::peal::pmix::types::PolicyOutcome as WitOutcome;
use crate::instance::{CompletedCall, Instance};
use crate::instance_state::CallOutput;
use crate::text::{MAX_QUOTED, plain};
use crate::{CallFailure, CallUsage, Module, Role};
use peal_model::{
    Amendment, ChainResult, Info, Key, LogRequest, Mail, PolicyOutcome, PolicyRequest, Status, code,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One request for one policy. Cloning is cheap: large parts are shared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PolicyCall {
    /// Number of the request in its server, for records; 0 where requests are not counted.
    pub number: u64,
    /// The request. Its directives, or its infos if the hook has no directives, are as earlier
    /// policies amended them.
    pub request: Arc<PolicyRequest>,
    /// Results of the policies before this one in the chain, oldest first.
    pub steps: Arc<Vec<ChainResult>>,
}

/// Result of a call of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct PolicyResult {
    /// Outcome, or the failure.
    pub outcome: Result<PolicyOutcome, CallFailure>,
    /// Pushed infos, the reasons of the policy; empty if the call failed.
    pub infos: Vec<Info>,
    /// Amendment of the request; empty if the policy failed or denied.
    pub amendment: Amendment,
    /// Resources that the call used.
    pub usage: CallUsage,
}

/// One request for one log channel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChannelCall {
    /// Channel to be written; a module may have several.
    pub channel: Key,
    /// Request to be written.
    pub request: Arc<LogRequest>,
    /// Results of the channels tried before.
    pub steps: Arc<Vec<ChainResult>>,
}

/// Result of a call of a log channel.
#[derive(Clone, PartialEq, Debug)]
pub struct ChannelResult {
    /// Returned status, or the status of the failure (`PEAL_ERR_MODULE_...`).
    pub status: Status,
    /// Pushed infos; empty if the call failed.
    pub infos: Vec<Info>,
    /// The failure, if the call failed.
    pub failure: Option<CallFailure>,
    /// Resources that the call used.
    pub usage: CallUsage,
}

/// Destination of a log channel that the admin named and opened. It is called on a guest thread and
/// may block for a short while; its time counts as the call's host time.
pub trait Sink: Send + Sync {
    /// Writes all bytes for a request, or returns the status of the failure.
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status>;

    /// Submits a mail for a request. Most sinks support no mail.
    fn submit(&self, _request: &LogRequest, _mail: Mail) -> Result<(), Status> {
        Err(code::PMIX_ERR_NOT_SUPPORTED)
    }
}

impl Module {
    /// Calls a policy and waits for its outcome. Blocks the thread: run chains on a
    /// [`crate::GuestPool`].
    ///
    /// As with [`Module::handle`], a failure is a result as well. The caller decides which verdict
    /// it counts as.
    pub fn decide(&self, call: PolicyCall) -> PolicyResult {
        let hook = call.request.subject.hook();
        let decided = match Role::policy(hook) {
            Some(role) => self.call(role, call, Instance::decide),
            None => {
                let failure = CallFailure::unavailable(format!("hook {hook} has no policies"));
                self.record_not_called(&failure, call);
                Err(failure)
            }
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
                // A denied request is not carried out, so an amendment would have no effect.
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
                self.report(&failure, &format!("{hook} request"));
                let usage = failure.usage;
                let infos = Vec::new();
                let amendment = Amendment::default();
                PolicyResult {
                    outcome: Err(failure),
                    infos,
                    amendment,
                    usage,
                }
            }
        }
    }

    /// Returns true if a log channel can be written to. Blocks the thread.
    ///
    /// The channel is called with a request without data. It answers `PMIX_ERR_NOT_AVAILABLE` if it
    /// has no sink to write to, another status otherwise. Its sinks write nothing for such a
    /// request.
    pub fn has_channel(&self, channel: &Key) -> bool {
        let data = Vec::new();
        let directives = Vec::new();
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
        let answer = self.log(call);
        // A channel that fails exists.
        answer.failure.is_some() || answer.status != code::PMIX_ERR_NOT_AVAILABLE
    }

    /// Calls a log channel and waits for its result. Blocks the thread: run chains on a
    /// [`crate::GuestPool`].
    ///
    /// As with [`Module::handle`], a failure is a result as well. Output written before the failure
    /// stays written.
    pub fn log(&self, call: ChannelCall) -> ChannelResult {
        let channel = call.channel.clone();
        match self.call(Role::LogChannel, call, Instance::log) {
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
                self.report(
                    &failure,
                    &format!("log channel {}", plain(channel.as_str(), MAX_QUOTED)),
                );
                let status = failure.kind.status();
                let usage = failure.usage;
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
            // A denial needs an error status: the requester would take another one for success.
            WitOutcome::Deny(0..) => PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS),
            WitOutcome::Deny(status) if Status(status) == code::PMIX_OPERATION_SUCCEEDED => {
                PolicyOutcome::Deny(code::PMIX_ERR_NO_PERMISSIONS)
            }
            WitOutcome::Deny(status) => PolicyOutcome::Deny(Status(status)),
        }
    }
}
